"""Habits of libraries in workers, each beside the standard executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool_tests.habits import POOLS, Habit, check

pytestmark = pytest.mark.server  # starts worker processes

HABITS = {
    "logging: a QueueHandler with the queue of a manager": Habit(
        """
def initialize(target):
    logging.getLogger().addHandler(logging.handlers.QueueHandler(target))

def work(number):
    logging.getLogger("a.b").error("task %d", number)

if __name__ == "__main__":
    with get_context("forkserver").Manager() as manager:
        target, records = manager.Queue(), []
        listener = logging.handlers.QueueListener(target, logging.NullHandler())
        listener.handle = lambda record: records.append(record.getMessage())
        listener.start()
        with create(2, initializer=initialize, initargs=(target,)) as executor:
            list(executor.map(work, range(500)))
        listener.stop()
        print(len(set(records)), len(records))
""",
        "500 500",
    ),
    # dynawo/dyn-grid-compliance-verification#392
    "logging that the main module configures when it is imported": Habit(
        """
logging.basicConfig(filename="log", level="INFO", format="%(message)s")

def work(number):
    logging.info("task %d", number)

if __name__ == "__main__":
    with create(2) as executor:
        list(executor.map(work, range(50)))
    print(Path("log").read_text().count("task"))
""",
        "50",
    ),
    "error reports: hooks, and a thread that is flushed at exit": Habit(
        """
def work(number):
    import reports
    reports.send(f"event {number}\\n")
    thread = threading.Thread(target=divmod, args=(number, 0))
    thread.start()
    thread.join()

if __name__ == "__main__":
    with create(2, ["reports"]) as executor:
        list(executor.map(work, range(20)))
    lines = Path("events").read_text().splitlines()
    print(len(set(lines)), lines.count("ZeroDivisionError"), len(lines))
""",
        "21 20 40",
        """
import atexit, os, queue, threading
events, sender = queue.Queue(), None

def run():
    while True:
        with open("events", "a") as file:
            file.write(events.get())
        events.task_done()

def send(event):
    global sender
    if sender != os.getpid():  # in this process there is no thread yet
        sender = os.getpid()
        threading.Thread(target=run, daemon=True).start()
        atexit.register(events.join)
    events.put(event)

threading.excepthook = lambda args: send(f"{args.exc_type.__name__}\\n")
""",
        standard=None,
    ),
    "coverage: data that a finalizer of multiprocessing writes": Habit(
        """
def initialize(folder):
    global seen
    seen = set()
    save = lambda: Path(folder, str(os.getpid())).write_text(" ".join(map(str, seen)))
    util.Finalize(None, save, exitpriority=1000)

def work(number):
    seen.add(number)
    time.sleep(0.01)

if __name__ == "__main__":
    Path("data").mkdir()
    with create(2, initializer=initialize, initargs=("data",)) as executor:
        list(executor.map(work, range(40)))
    print(sum(len(each.read_text().split()) for each in Path("data").iterdir()))
""",
        "40",
    ),
    "databases: connections that are dropped after a fork": Habit(
        """
def work(_):
    import engine
    time.sleep(0.1)
    return engine.connect().owner == os.getpid()

if __name__ == "__main__":
    with create(2, ["engine"]) as executor:
        print(set(executor.map(work, range(6))))
""",
        "{True}",
        """
import os
from multiprocessing import util

class Connection:
    def __init__(self):
        self.owner = os.getpid()

class Engine:
    def __init__(self):
        self.kept = [Connection()]
    def dispose(self):
        self.kept.clear()

engine = Engine()
util.register_after_fork(engine, Engine.dispose)

def connect():
    if not engine.kept:
        engine.kept.append(Connection())
    return engine.kept[0]
""",
    ),
    "HTTP: one kept connection per process": Habit(
        """
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    clients = set()
    def do_GET(self):
        self.clients.add(self.client_address)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *_):
        pass

sessions = {}

def work(port, number):
    session = sessions.setdefault(os.getpid(), HTTPConnection("127.0.0.1", port))
    session.request("GET", f"/{number}")
    time.sleep(0.005)
    return session.getresponse().read() == b"/%d" % number

if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with create(2) as executor:
        list(executor.map(time.sleep, [0.2, 0.2]))
        print(set(executor.map(work, [server.server_port] * 100, range(100))),
              len(Handler.clients) <= 2)
    server.shutdown()
    server.server_close()
""",
        "{True} True",
    ),
    "NumPy: threads of OpenBLAS before the fork and in tasks": Habit(
        """
def work(number):
    import numpy
    matrix = numpy.full((300, 300), float(number))
    return float((matrix @ matrix)[5, 7]) == 300.0 * number * number

if __name__ == "__main__":
    with create(2, ["numbers_of_threads"]) as executor:
        print(set(executor.map(work, range(20))))
""",
        "{True}",
        "import numpy\nmatrix = numpy.ones((500, 500))\nmatrix @ matrix\n",
    ),
    # https://github.com/joblib/joblib/issues/1627
    "NumPy: arrays that a task changes, and views of bytes": Habit(
        """
import numpy

def work(array, data):
    array[0] = 7
    array.sort()
    return array.T, numpy.frombuffer(data, dtype="u1").flags.writeable

if __name__ == "__main__":
    with create(1) as executor:
        for size in (10, 100_000):
            array = numpy.asfortranarray(numpy.arange(size)[::-1].reshape(2, -1))
            result, writeable = executor.submit(work, array, bytes(size)).result()
            result[0] = 1
            print(array[0, 0], result.shape, writeable)
""",
        "9 (5, 2) False\n99999 (50000, 2) False",
    ),
    # https://github.com/dask/distributed/pull/835
    "random numbers and temporary names are different in each worker": Habit(
        """
def work(_):
    import random, tempfile
    Path(f"worker-{os.getpid()}").touch()
    until = time.monotonic() + 10
    while len(list(Path().glob("worker-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return os.getpid(), random.random(), next(tempfile._get_candidate_names())

if __name__ == "__main__":
    with create(2, ["seeds"]) as executor:
        rows = executor.map(work, range(8))
        print(*(len(set(column)) for column in zip(*rows)))
""",
        "2 8 8",
        module="import random, tempfile\nrandom.seed(4)\nnext(tempfile._get_candidate_names())\n",
    ),
    "a worker creates shared memory that outlives it": Habit(
        """
from multiprocessing import shared_memory

def work(number):
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.buf[0] = number
    memory.close()
    return memory.name

if __name__ == "__main__":
    with create(1, max_tasks_per_child=1) as executor:
        names = [executor.submit(work, number).result() for number in range(3)]
    found = [shared_memory.SharedMemory(name) for name in names]
    print([each.buf[0] for each in found])
    for each in found:
        each.close()
        each.unlink()
""",
        "[0, 1, 2]",
    ),
    # https://github.com/python/cpython/issues/82300
    "shared memory of the application, which a worker attaches before it ends": Habit(
        """
from multiprocessing import shared_memory

def work(name, number):
    memory = shared_memory.SharedMemory(name)
    memory.buf[number] = number
    memory.close()

if __name__ == "__main__":
    memory = shared_memory.SharedMemory(create=True, size=10)
    with create(2) as executor:
        list(executor.map(work, [memory.name] * 6, range(6)))
    again = shared_memory.SharedMemory(memory.name)
    print(*again.buf[:6])
    for each in (again, memory):
        each.close()
    memory.unlink()
""",
        "0 1 2 3 4 5",
    ),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    check(HABITS[name], pool, tmp_path)
