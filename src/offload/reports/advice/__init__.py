"""Reports on advice: the answer as text and JSON, its reasons, and a program that uses it."""
