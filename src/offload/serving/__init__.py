"""The code that servers share. The strategy of a server is in its own file in servers/."""
