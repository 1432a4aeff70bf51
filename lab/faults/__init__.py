"""The fault lab: inject faults into real servers, and check what docs/reliability.rst promises.

row        what a row of the lab is: a fault, a promise, and how the fault is injected
lab        the rows, and a run of them
rows/      one file for each row
servers/   the servers into which faults are injected
served/    the task that the servers run
clients/   clients of these servers, also hostile ones
requests/  malformed requests, and what servers may respond to them
commands/  commands that must fail, and benchmarks that are killed
machine/   pressure, clocks and processes
"""
