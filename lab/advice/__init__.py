"""Check the advice: measure the truth, advise on the same functions, and judge the answers."""
