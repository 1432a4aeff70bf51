"""Tests of protect=yes and health=yes."""
