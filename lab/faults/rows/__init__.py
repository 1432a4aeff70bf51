"""The rows of the fault lab: each file is one fault."""
