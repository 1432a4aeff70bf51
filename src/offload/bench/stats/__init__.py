"""Statistics: pure functions on numbers that read no files, clocks or records."""
