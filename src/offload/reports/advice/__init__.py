"""Advice in words: the answer, its reasons, and the code to use it."""
