"""One event loop per process, behind ASGI or RSGI."""
