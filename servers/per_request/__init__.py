"""A new thread or process for each request, which ends with it: there is no pool."""
