"""Contenders: the pools that are compared, each in its own process."""
