"""Advice for a user's own application: which server, how many processes and threads, and why."""
