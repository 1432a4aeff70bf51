"""Pools of workers: warm before the server listens, and gone with it."""
