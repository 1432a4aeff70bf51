"""The task that servers run in the fault lab."""
