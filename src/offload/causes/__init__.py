"""Causes: what limits an application, from the records of its case, and what to do about it."""
