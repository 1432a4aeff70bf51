"""Check what the docs promise and what the tests detect: effects, error rates, mutations."""
