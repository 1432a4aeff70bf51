"""The commands that the fault lab runs as a user does.

failing_commands  commands that must fail, and how they end
bench_process     a benchmark as a process, whose server and load tool the lab kills
killed_runs       runs that are killed at random points, and resumed
"""
