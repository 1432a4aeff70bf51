"""The live page: a run or a watched process in a browser, served by a process of its own."""
