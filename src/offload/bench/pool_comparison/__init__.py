"""Compares pools of worker processes: python -m offload.bench.pool_comparison."""
