"""Claims: published figures, against the records of a run on this machine."""
