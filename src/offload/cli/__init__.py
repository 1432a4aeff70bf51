"""The command line: one table of options, the commands, and the program that runs them."""
