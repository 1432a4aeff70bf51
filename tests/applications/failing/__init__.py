"""Applications whose requests fail or do not end under load, and twins that look alike."""
