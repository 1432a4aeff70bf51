"""Progress of a run: on the terminal, and in a file for the live page."""
