"""The commands, one file per group or question; each function with `@command` is one."""
