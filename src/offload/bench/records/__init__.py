"""Records: the results of trials, appended to a run's folder and read again."""
