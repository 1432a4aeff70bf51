"""Models of a server: scaling curves, operational laws and the cost of the GIL."""
