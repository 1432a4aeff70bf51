"""Metrics inside the server: clocks, loop lag, GIL. Only the standard library is imported."""
