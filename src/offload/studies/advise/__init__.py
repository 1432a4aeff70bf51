"""What to deploy: which server, how many processes, how many threads in each."""
