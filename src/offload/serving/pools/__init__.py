"""Pools of workers, which are warmed up before the server listens and end with it."""
