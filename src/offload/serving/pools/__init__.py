"""Pools of workers; they are warmed up before the server listens, and end with the server."""
