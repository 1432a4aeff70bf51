"""Applications: any task behind HTTP, ASGI, WSGI or RSGI."""
