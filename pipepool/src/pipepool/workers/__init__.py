"""The worker processes: their start, their end, and the messages to and from them."""
