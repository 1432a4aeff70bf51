"""Pools: compare pools of worker processes (python -m lab.pools)."""
