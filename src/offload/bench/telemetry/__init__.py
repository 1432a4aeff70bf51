"""Telemetry: sample a server's resources, its GIL and the machine from outside, under load."""
