"""Telemetry: sample the resources and the GIL of a server, and the machine, from outside."""
