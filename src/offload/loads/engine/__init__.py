"""The engine of `builtin`: connections, load loops and the times of every request."""
