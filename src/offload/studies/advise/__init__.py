"""What to deploy for a function: which server, how many processes, how many threads in each."""
