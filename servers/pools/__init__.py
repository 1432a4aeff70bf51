"""Pools of workers other than the standard library's."""
