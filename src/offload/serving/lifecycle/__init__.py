"""The life cycle of a server: port, readiness, drain and stop."""
