"""Measure the speed of one CPU: python -I -S speed_work.py CPU PARENT, until the parent ends.

Every EVERY seconds it does a fixed piece of work on the CPU, and writes two numbers of 8 bytes to
stdout: the time of `time.monotonic`, and the CPU time of the work in s. The work is that of a
server: about half of it is Python code, and half are system calls of sockets.
"""

import os
import socket
import struct
import sys
import time

EVERY = 0.02  # s between two pieces of work
STEPS = 2000  # of a loop in Python: about 0.13 ms
MESSAGES = 20  # sent and received: about 0.13 ms; the work needs 1.3 % of a CPU
MESSAGE = bytes(200)
SAMPLE = struct.Struct("dd")


def main(cpu: int, parent: int) -> None:
    """Work until the parent ends."""
    os.sched_setaffinity(0, {cpu})
    sender, receiver = socket.socketpair()
    while os.getppid() == parent:
        now, before = time.monotonic(), time.thread_time()
        total = 0
        for step in range(STEPS):
            total += step & 7
        for _ in range(MESSAGES):
            sender.send(MESSAGE)
            receiver.recv(len(MESSAGE))
        os.write(1, SAMPLE.pack(now, time.thread_time() - before))
        time.sleep(EVERY)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
