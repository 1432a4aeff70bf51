"""Measure what the docs promise: effects on servers, error rates, predicted rates."""
