"""Reports on the cost of the GIL: tables and advice."""
