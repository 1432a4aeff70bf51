"""The check of the advice: the truth, answers on the same functions, and the judgement of both."""
