"""Protection of a server from its clients: one file per rule, each readable alone."""
