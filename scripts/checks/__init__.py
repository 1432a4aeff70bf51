"""Checks of what `make check` checks beside the code."""
