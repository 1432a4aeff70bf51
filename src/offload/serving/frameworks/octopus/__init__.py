"""Octopuses: what the published Django benchmark serves, its database, models and GraphQL."""
