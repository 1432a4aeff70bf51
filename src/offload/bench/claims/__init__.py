"""Claims: compare published figures with the records of a run on this machine."""
