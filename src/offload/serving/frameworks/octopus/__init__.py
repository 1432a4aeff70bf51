"""Octopuses: the data of the published Django benchmark, with its database, models and GraphQL."""
