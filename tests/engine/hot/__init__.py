"""Functions and applications whose hot line is known: the line with the comment `hot: NAME`."""
