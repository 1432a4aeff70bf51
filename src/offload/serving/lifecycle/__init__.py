"""The life of a server: its port, when it is ready, how it drains and stops."""
