"""The bench: starts servers, loads them, measures, and writes records. Nobody extends this."""
