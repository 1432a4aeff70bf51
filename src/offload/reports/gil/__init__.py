"""What the GIL costs: tables, sentences and advice."""
