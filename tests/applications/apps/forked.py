"""WSGI applications whose import starts threads: what workers that are forked then lack."""

import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

RATES = {"EUR": 1.0}
POOLS = []


class Feed(threading.Thread):
    """Has a function of its own."""

    def run(self):
        """Read the feed for ever."""
        wait()


def wait():
    """Update the rates for ever."""
    while True:
        RATES["EUR"] += 1.0
        time.sleep(0.01)


def load():
    """End at once."""
    RATES["USD"] = 2.0


def lost():
    """Create an application whose threads its workers lack."""
    threading.Thread(target=wait, daemon=True).start()
    Feed(daemon=True).start()
    POOLS.append(ThreadPoolExecutor(2, "quotes"))
    POOLS[0].submit(load).result()
    return app


def started():
    """Create one that starts its thread in each worker, and that lacks nothing else."""
    loading = threading.Thread(target=load)
    loading.start()
    loading.join(10)
    start = lambda: threading.Thread(target=wait, daemon=True).start()  # noqa: E731
    start()
    os.register_at_fork(after_in_child=start)
    return app


def app(environ, start_response):
    """Respond with a rate."""
    body = str(RATES["EUR"]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


LOCK = threading.Lock()


def keep():
    """Hold the lock for ever."""
    with LOCK:
        threading.Event().wait(100)


def use():
    """Do nothing with the lock."""
    with LOCK:
        pass


def _pool(environ, start_response, hold):
    """Fork a pool, whose processes then lack the thread that `hold` lets hold the lock."""
    if hold is not None:
        hold()
        while not LOCK.locked():
            time.sleep(0.01)
    pool = ProcessPoolExecutor(2, get_context("fork"))
    POOLS.append(pool)
    pool.submit(use)
    pool.submit(os.getpid).result(10)
    return app(environ, start_response)


def stuck(environ, start_response):
    """Fork a pool beside a thread that holds a lock."""
    return _pool(environ, start_response, threading.Thread(target=keep, daemon=True).start)


def stuck_in_pool(environ, start_response):
    """Fork a pool beside a thread of another pool that holds a lock."""
    holders = ThreadPoolExecutor(1, "holders")
    POOLS.append(holders)
    return _pool(environ, start_response, lambda: holders.submit(keep))


def free(environ, start_response):
    """Fork a pool of which one process works and then waits for calls."""
    return _pool(environ, start_response, None)


def forking(environ, start_response):
    """Fork in each request."""
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return app(environ, start_response)
