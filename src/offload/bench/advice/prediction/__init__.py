"""The prediction: rate and memory of a strategy with a number of workers, from the probe."""
