"""Tables, rendered as text or reStructuredText, with one module for each."""
