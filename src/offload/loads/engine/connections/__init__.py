"""Connections: HTTP requests and responses on the sockets of one load process."""
