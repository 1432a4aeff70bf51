"""Experiments: select the trials, their order and their number, and evaluate their records."""
