"""The server under test: find its interpreter, install its packages, start it and stop it."""
