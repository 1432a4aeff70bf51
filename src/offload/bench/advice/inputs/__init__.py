"""The inputs of the model: the probe of a function, and the overheads of the strategies."""
