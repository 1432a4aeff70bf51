"""Tables: how each is rendered as text or reStructuredText, one module for each."""
