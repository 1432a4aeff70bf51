"""Measure the speed of one CPU: python -I -S speed_work.py CPU PARENT, until the parent ends.

Every EVERY seconds it does a fixed piece of work on the CPU twice, and writes two numbers of 8
bytes to stdout: the time of `time.monotonic`, and the CPU time of the second piece in s. The work
is that of a server: about half of it is Python code, and half are system calls of sockets.

The first piece loads the caches again. Without it, the work took 2 to 8 % more CPU time beside
servers with more processes, because these use the caches in between; with it, -1 to 4 %.
"""

import os
import socket
import struct
import sys
import time

EVERY = 0.02  # s between two pieces of work
STEPS = 1000  # of a loop in Python: 0.02 to 0.07 ms
MESSAGES = 10  # sent and received: 0.02 to 0.07 ms; both pieces need 0.5 to 1.3 % of a CPU
MESSAGE = bytes(200)
SAMPLE = struct.Struct("dd")


def main(cpu: int, parent: int) -> None:
    """Work until the parent ends."""
    os.sched_setaffinity(0, {cpu})
    sender, receiver = socket.socketpair()
    while os.getppid() == parent:
        now = time.monotonic()
        _work(sender, receiver)
        before = time.thread_time()
        _work(sender, receiver)
        os.write(1, SAMPLE.pack(now, time.thread_time() - before))
        time.sleep(EVERY)


def _work(sender: socket.socket, receiver: socket.socket) -> None:
    """Do the fixed piece of work."""
    total = 0
    for step in range(STEPS):
        total += step & 7
    for _ in range(MESSAGES):
        sender.send(MESSAGE)
        receiver.recv(len(MESSAGE))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
