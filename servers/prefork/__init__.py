"""Several processes that accept from one listening socket."""
