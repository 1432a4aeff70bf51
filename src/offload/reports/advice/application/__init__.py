"""The answer to advice for an application, as text and as JSON."""
