"""Tests of the advice in words and code."""
