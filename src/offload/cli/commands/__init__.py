"""The commands; the first line of each file names those that it defines with `@command`."""
