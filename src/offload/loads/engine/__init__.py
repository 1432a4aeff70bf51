"""The engine of `builtin`: connections, load loops, and the figures of a load."""
