"""Executors that the standard library lacks: `executors.pipes`, which needs nothing but it."""
