"""The registry of servers, tasks, drivers and suites. It needs only the standard library."""
