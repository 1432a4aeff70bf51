"""Figures: the samples of a load, and the rate, quantiles and histogram computed from them."""
