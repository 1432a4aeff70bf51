"""The speed of the CPUs: by fixed work before a window, and during it."""
