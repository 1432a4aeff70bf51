"""Measures what to deploy: blocking work behind an HTTP server, under every executor strategy."""

__version__ = "0.2.0"
