"""Which worker runs which task when, and how each task ends."""
