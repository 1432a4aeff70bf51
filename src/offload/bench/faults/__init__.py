"""The fault lab: inject faults into real servers, and check what docs/reliability.rst promises.

row               what a row of the lab is: a fault, a promise, and how the fault is injected
lab               the rows, and a run of them
clients           clients that send requests while a fault happens
overload_clients  clients that disconnect when their patience ends
slow_connections  connections that send or receive slowly, by slowhttptest or by own sockets
raw_requests      requests that no HTTP client would send
commands          commands that must fail, and how they end
bench_process     a benchmark as a process, whose server and load tool the lab kills
killed_runs       runs that are killed at random points, and resumed
mixed_server      a server that responds in many ways, and counts its responses
shifted_clock     a clock of the day that is set while programs run
faulty_server     a server whose task the lab controls, observed from outside
reverse_proxy     nginx in front of a server
pressure          CPU and memory pressure by stress-ng
peak_memory       the peak of the memory of its processes
processes         find and end processes
waiting           wait until something is true
requests/         malformed requests, and what servers may respond to them
rows/             one file for each row
served/           the task that the servers run
"""
