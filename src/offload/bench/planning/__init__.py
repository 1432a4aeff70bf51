"""Planning: the cases of a run, their blocks, and the rounds that are still due."""
