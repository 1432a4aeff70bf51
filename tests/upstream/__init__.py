"""Tests of the upstream."""
