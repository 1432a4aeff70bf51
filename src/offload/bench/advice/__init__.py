"""Advice: probe a function, predict each strategy's rate, measure the best ones, and choose."""
