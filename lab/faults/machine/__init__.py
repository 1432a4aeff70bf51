"""What the fault lab changes or observes on the machine.

pressure       CPU and memory pressure by stress-ng
peak_memory    the peak of the memory of processes
processes      find and end processes
shifted_clock  a clock of the day that is set while programs run
waiting        wait until something is true
"""
