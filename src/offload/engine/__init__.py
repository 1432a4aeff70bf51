"""The engine: what measures, whatever is asked."""
