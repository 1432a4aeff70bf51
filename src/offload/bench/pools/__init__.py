"""Pools: compare pools of worker processes (python -m offload.bench.pools)."""
