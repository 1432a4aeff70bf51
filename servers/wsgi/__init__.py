"""Threads behind WSGI, or behind a plain `def` endpoint."""
