"""What can be named: servers, tasks, drivers and suites. Only the standard library is imported."""
