"""Tasks that servers run in the fault lab."""
