"""A trial: one fresh server, warmed up, loaded once and stopped, and its record."""
