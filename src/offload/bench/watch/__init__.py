"""Watch a process tree that runs already: its resources and its GILs, read from outside."""
