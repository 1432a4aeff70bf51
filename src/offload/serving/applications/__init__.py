"""Applications that serve any task over HTTP, ASGI, WSGI or RSGI."""
