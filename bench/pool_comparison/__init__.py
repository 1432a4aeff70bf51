"""Compares pools of worker processes: python -m bench.pool_comparison."""
