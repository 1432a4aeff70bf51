"""The engine of `builtin`: connections, loops and times of every request."""
