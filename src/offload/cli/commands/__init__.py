"""The commands, with a file for each group; each function with `@command` is a command."""
