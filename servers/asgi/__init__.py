"""One event loop a process, behind ASGI or RSGI."""
