"""Telemetry: what is read of a server and of the machine from outside, while a load runs."""
