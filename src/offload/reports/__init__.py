"""Reports: render records as text and JSON, without measuring anything."""
