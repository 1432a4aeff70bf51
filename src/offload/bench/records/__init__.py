"""Records: write the results of trials to the folder of a run, and read them."""
