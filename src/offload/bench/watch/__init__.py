"""Watch a running process tree: sample its resources and its GILs from outside."""
