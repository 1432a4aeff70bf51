"""The statistics: pure functions on numbers. They read no file, no clock and no record."""
