"""The target: a server in a process of its own, in any interpreter, started and stopped."""
