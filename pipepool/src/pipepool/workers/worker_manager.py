"""Starts, replaces and ends the workers of a pool, through the fork server."""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipepool.configuration import PoolOptions, close_unfetched, pickle_for_child, pickle_once
from pipepool.exceptions import error_text
from pipepool.workers.fork_server_client import FINALIZER_GRACE, ORPHAN_GRACE, ForkServerClient
from pipepool.workers.worker_connection import (
    Task,
    WorkerConnection,
    WorkerState,
    in_empty_context,
)

if TYPE_CHECKING:
    from pipepool.scheduling.scheduler import Scheduler

REPLACE_AT = 8  # start a successor when 1/REPLACE_AT of a worker's tasks are left
PAUSE = 0.1  # s before the second retry of a worker or fork server that failed to start
LONGEST_PAUSE = 5.0  # s; the pause doubles with each further failure
SLOW_START = 10.0  # s after which a start without a ready worker is logged
FAILED_TIMEOUT = 10.0  # s for a worker whose initializer failed to end before it is killed
SLOW_END = 10.0  # s after which a worker that still ends is logged
READ_TIME = 0.01  # s for the loop to read reports that arrived before the timeout
STATUS_TIMEOUT = 1.0  # s to wait for the exit status after a worker closed its socket
KILL_TIMEOUT = 1.0  # s for the fork server to kill a worker; then it is stopped, or has no CPU
PING_PAUSE = 1.0  # s between two pings of the fork server while workers end
NO_REPORT = 5.0  # s without an answer after which it is taken for stopped

log = logging.getLogger("pipepool")


class State(enum.Enum):
    """What a manager does about missing workers."""

    STARTING = 1  # none was ready yet: a failure is final
    RUNNING = 2
    RETRYING = 3  # a worker failed to start; the next one is started after a pause
    RESTARTING = 4  # the fork server has ended; the next one is started after a pause
    CLOSING = 5  # no worker is started from now on


class WorkerManager:
    """Keeps `config.workers` workers active. `open` lists those that accept tasks."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: PoolOptions, scheduler: Scheduler
    ) -> None:
        self._loop = loop
        self._config = config
        self._scheduler = scheduler
        self._setup = config.setup
        self._pickled_setup = pickle_once(self._setup)
        self._quota = config.tasks_per_worker
        self.counts_tasks = self._quota < math.inf
        self.replace_at = max(1.0, self._quota // REPLACE_AT) if self.counts_tasks else -1.0
        self._token = 0
        self._state = State.STARTING
        self._pause = 0.0
        self.connections: dict[int, WorkerConnection] = {}  # by token, until the status is known
        self.open: list[WorkerConnection] = []
        self.idle: dict[WorkerConnection, None] = {}  # those of `open` without a task, newest last
        self.cause: BaseException | None = None
        self.killed = self.restarts = 0
        self.started = loop.create_future()
        self._may_kill = loop.create_future()  # at the end of the pool: workers have ended, or must
        self._fork_server = self._start_fork_server()
        self._slow_start = in_empty_context(loop.call_later, SLOW_START, self._warn_of_slow_start)
        self._start_workers()

    def _warn_of_slow_start(self) -> None:
        log.warning(
            "not all workers are ready after %g s: an import or the initializer is slow", SLOW_START
        )

    def _set_started(self) -> None:
        self._slow_start.cancel()
        if not self.started.done():
            self.started.set_result(None)

    def _start_fork_server(self) -> ForkServerClient:
        grace = FINALIZER_GRACE if self._setup.finalizer else ORPHAN_GRACE
        return ForkServerClient(self._loop, list(self._config.preload), grace, self)

    def detach(self) -> None:
        """In a forked process: lose the workers, so that nothing done here reaches them.

        The end of its loop would cancel tasks, leave streams and close the pool of the parent. Its
        loop shares the parent's epoll, so the descriptors must remain: they become a socket that
        receives nothing.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unconnected:
            unconnected.setblocking(False)
            ends: list[ForkServerClient | WorkerConnection] = [self._fork_server]
            for each in (*ends, *self.connections.values()):
                if each.descriptor >= 0:
                    os.dup2(unconnected.fileno(), each.descriptor, inheritable=False)
        for connection in self.connections.values():
            connection.tasks = {}

    # Facts

    def pids(self) -> list[int]:
        """Return the pids of the live workers."""
        return [connection.pid for connection in self.live() if connection.pid]

    def live(self) -> list[WorkerConnection]:
        """Return the workers that were ready and have not ended, spare ones included."""
        connections = self.connections.values()
        return [c for c in connections if c.pid and c.state is not WorkerState.DEAD]

    def at_work(self) -> list[WorkerConnection]:
        """Return the workers that may hold tasks."""
        return self._in_state(WorkerState.ACTIVE, WorkerState.RETIRING)

    def count_starting(self) -> int:
        """Count the workers that are not ready yet."""
        return len(self._in_state(WorkerState.STARTING))

    def _in_state(self, *states: WorkerState) -> list[WorkerConnection]:
        return [each for each in self.connections.values() if each.state in states]

    # Start and replace

    def _start_workers(self) -> None:
        """Start the missing workers, and a successor for each worker that ends soon."""
        if self._state not in (State.STARTING, State.RUNNING):
            return
        ending = sum(each.tasks_left <= self.replace_at for each in self.open)
        ending += len(self._in_state(WorkerState.RETIRING))
        workers = self._config.workers
        alive = [c for c in self.connections.values() if c.state is not WorkerState.DEAD]
        # Each worker may still end, for example its threads: then at most one more is started.
        room = 3 * workers - len(self.connections)
        for _ in range(min(workers + ending - len(alive), room)):
            self._token += 1
            keys: Sequence[int] = ()
            try:
                setup, keys = self._pickled_setup or pickle_for_child(self._setup)
                connection = WorkerConnection(
                    self._token, self._loop, self._scheduler, self._quota, self._config.arena_size
                )
            except Exception as error:  # noqa: BLE001 - no descriptor, no memory, a closed initarg
                close_unfetched(keys)
                self._retry_later(f"no worker can be started: {error}", error)
                return
            connection.setup_keys = keys
            self.connections[connection.token] = connection
            self._fork_server.fork(
                connection.token, connection.worker_socket, connection.memory_descriptor
            )
            connection.set_up(setup)
            if self._config.start_timeout is not None:
                began = self._loop.time()
                self._check_start_later(connection, self._config.start_timeout, began)

    def _check_start_later(
        self, connection: WorkerConnection, seconds: float, began: float, is_last: bool = False
    ) -> None:
        connection.start_timer = in_empty_context(
            self._loop.call_later, seconds, self._check_start, connection, began, is_last
        )

    def _check_start(self, connection: WorkerConnection, began: float, is_last: bool) -> None:
        """Check whether a start that began at `began` has timed out.

        `start_timeout` applies to the import of the fork server and to the start of the worker,
        each on its own. If the loop was blocked, it reads their reports before the last check.
        """
        assert self._config.start_timeout is not None
        requested = max(began, self._fork_server.ready_at)
        left = requested + self._config.start_timeout - self._loop.time()
        if left > 0:
            self._check_start_later(connection, left, began)
        elif not is_last:
            self._check_start_later(connection, READ_TIME, began, is_last=True)
        else:
            self._start_timed_out(connection)

    def _start_timed_out(self, connection: WorkerConnection) -> None:
        """Fail if no worker was ever ready; else continue without this one, and retry its start."""
        why = f"the workers were not ready within start_timeout={self._config.start_timeout:g} s"
        if self._state is State.STARTING:
            self.fail(why, TimeoutError(why))
        elif self._fork_server.is_ready:
            connection.close()
            self._send_kill(connection)
            self._retry_later(why)
        else:  # an import hangs
            self._fork_server.kill_server(why)
        self._set_started()

    def _activate_spares(self) -> None:
        """Activate spare workers in place of those that ended, and start the missing ones."""
        free = self._config.workers - len(self.at_work())
        for connection in self._in_state(WorkerState.SPARE)[: max(0, free)]:
            connection.state = WorkerState.ACTIVE
            self.open.append(connection)
            self.idle[connection] = None
            free -= 1
        if free <= 0:
            self._set_started()
        self._start_workers()

    def worker_ready(self, connection: WorkerConnection, pid: int, result: Any) -> None:
        """Handle that a worker is ready; `result` is what its initializer returned."""
        self._pause = 0.0
        if self._state is State.STARTING:
            self._state = State.RUNNING
        connection.pid, connection.initializer_result = pid, result
        connection.stop_start_timer()
        connection.state = WorkerState.SPARE
        self._activate_spares()
        self._scheduler.flush()

    def initializer_failed(self, connection: WorkerConnection, error: BaseException) -> None:
        """Handle the failure of a worker's initializer."""
        connection.close()
        in_empty_context(
            self._loop.call_later, FAILED_TIMEOUT, self._kill_if_alive, connection.token
        )
        self._retry_later(f"the initializer of a worker failed: {error_text(error)}", error)

    def _retry_later(self, why: str, cause: BaseException | None = None) -> None:
        """Retry the start of workers after a pause, or fail if no worker was ever ready."""
        if self._state is State.STARTING:
            self.fail(why, cause)
        elif self._state is State.RUNNING:
            self._state = State.RETRYING
            pause = self._next_pause()
            log.warning("%s; the next attempt is in %.1f s", why, pause)
            in_empty_context(self._loop.call_later, pause, self._retry)

    def _next_pause(self) -> float:
        """Return the seconds before the next retry: 0 for the first after a success.

        Before a pause the pool is reported as started, with the workers that are ready.
        """
        pause, self._pause = self._pause, min(2 * self._pause + PAUSE, LONGEST_PAUSE)
        if pause:
            self._set_started()
        return pause

    def _retry(self) -> None:
        if self._state is State.RETRYING:
            self._state = State.RUNNING
            self._start_workers()

    def fail(self, why: str, cause: BaseException | None = None) -> None:
        """Fail all tasks for good: no worker can be started."""
        self.cause = self.cause or cause
        self._set_started()
        self._scheduler.fail_all(why)

    # Tasks

    def prepare_replacement(self, connection: WorkerConnection) -> None:
        """Start the successor of a worker that has few tasks left; retire it after its last one."""
        if connection.tasks_left <= 0:
            connection.state = WorkerState.RETIRING
            self._withdraw(connection)
        self._start_workers()

    def release_if_empty(self, connection: WorkerConnection) -> None:
        """Mark a worker that holds no task as idle, or end it if it is retiring."""
        if connection.tasks:
            return
        if connection.state is WorkerState.ACTIVE:
            self.idle[connection] = None
        elif connection.state is WorkerState.RETIRING:
            connection.close()
            # By token: a timer that refers to a connection keeps its memory and descriptor.
            in_empty_context(
                self._loop.call_later, SLOW_END, self._warn_of_slow_end, connection.token
            )
            self._activate_spares()

    def _warn_of_slow_end(self, token: int) -> None:
        if token in self.connections and self._state is not State.CLOSING:
            log.warning(
                "worker %s still ends after %g s: a finalizer, a thread or a queue has not ended",
                self.connections[token].pid,
                SLOW_END,
            )

    def _kill_if_alive(self, token: int) -> None:
        if token in self.connections and self._state is not State.CLOSING:
            self._fork_server.kill(token)

    def _withdraw(self, connection: WorkerConnection) -> None:
        self.idle.pop(connection, None)
        if connection in self.open:
            self.open.remove(connection)

    # Ends of workers

    def unreadable(self, connection: WorkerConnection, error: Exception) -> None:
        """Handle a frame that is larger than the memory, or damaged: end the worker."""
        connection.stop_reading()
        tasks = [task for task in connection.tasks.values() if connection.has_started(task)]
        for task in tasks:
            del connection.tasks[task.sequence]
        self._scheduler.results_lost(tasks, error)
        self.kill(connection)

    def kill(self, connection: WorkerConnection) -> None:
        """Kill a worker and its task, unless the worker is known to have ended."""
        if connection.state is WorkerState.DEAD:
            return
        connection.revoke()
        self._send_kill(connection)
        if connection.state is not WorkerState.STARTING:  # its end while STARTING is a failed start
            connection.state = WorkerState.RETIRING
            self._withdraw(connection)
            self._start_workers()

    def _send_kill(self, connection: WorkerConnection) -> None:
        """Kill a worker; it counts once."""
        self.killed += not connection.is_killed
        connection.is_killed = True
        self._fork_server.kill(connection.token)
        in_empty_context(
            self._loop.call_later, KILL_TIMEOUT, self._kill_without_server, connection.token
        )

    def _kill_without_server(self, token: int) -> None:
        """Kill a worker that the fork server has not killed, because it is stopped itself."""
        connection = self.connections.get(token)
        if connection is not None and connection.pid:
            kill_child_of(self._fork_server.pid, connection.pid)

    def worker_disconnected(self, connection: WorkerConnection) -> None:
        """Handle the end of a worker; requeue the tasks that it had not started."""
        if connection.state is WorkerState.DEAD:
            return
        was_starting = connection.state is WorkerState.STARTING
        connection.revoke()  # it may still run without its socket or fork server
        connection.close()
        self._withdraw(connection)
        connection.collect()
        held, connection.tasks = list(connection.tasks.values()), {}
        waiting: list[Task] = []
        unsent: list[Task] = []
        for task in held:  # before retries change the sequence numbers
            if connection.has_started(task):
                connection.crashed.append(task)
            elif task.sequence <= connection.last_sent and not connection.is_killed_for_task:
                waiting.append(task)
            else:
                unsent.append(task)
        if connection.exit_status is None:
            in_empty_context(
                self._loop.call_later, STATUS_TIMEOUT, self._status_timed_out, connection.token
            )
        else:
            self._report_death(connection)
        if was_starting:
            self._retry_later("a worker ended before it was ready: see its output above")
        else:
            self.restarts += 1
            self._activate_spares()
        self._scheduler.never_started(waiting, unsent)

    def _status_timed_out(self, token: int) -> None:
        """Kill a worker that closed its socket and did not exit, and report its death."""
        self._kill_if_alive(token)
        if (connection := self.connections.get(token)) is not None:
            self._report_death(connection)

    def _report_death(self, connection: WorkerConnection) -> None:
        """Report the death of a worker; only the first call acts."""
        if self.connections.pop(connection.token, None) is None:
            return
        close_unfetched(connection.setup_keys)
        is_closing = self._state is State.CLOSING
        if is_closing and not self.connections:
            self.stop_waiting()
        crashed, connection.crashed = connection.crashed, []
        if connection.exit_status and not connection.is_killed and not is_closing:
            log.warning("worker %s ended with status %s", connection.pid, connection.exit_status)
        self._scheduler.worker_died(crashed, connection.exit_status, connection.pid)

    def worker_ended(self, token: int, status: int) -> None:
        """Handle the exit status of a worker."""
        connection = self.connections.get(token)
        if connection is None:
            return
        connection.exit_status = status
        if connection.state is not WorkerState.DEAD:  # a child of the worker keeps its socket open
            connection.read_all()
        self.worker_disconnected(connection)
        self._report_death(connection)
        self._start_workers()  # there is room for one more

    def fork_server_ended(self, why: str) -> None:
        """Start another fork server: this one has ended, and all its workers with it."""
        if self._state is State.CLOSING:
            self.stop_waiting()
            return
        if self._state is State.STARTING:
            self.fail(why)
            return
        self._state = State.RESTARTING
        for connection in self._in_state(WorkerState.SPARE, WorkerState.ACTIVE):
            connection.state = WorkerState.RETIRING  # so that none is assigned a task below
            self._withdraw(connection)
        for connection in list(self.connections.values()):
            connection.read_all()  # what it sent before it ended
            if connection.state is WorkerState.DEAD:  # its exit status will not be reported
                self._report_death(connection)
            self.worker_disconnected(connection)
        log.warning("%s; it is restarted", why)
        in_empty_context(self._loop.call_later, self._next_pause(), self._restart)

    def _restart(self) -> None:
        if self._state is not State.RESTARTING:
            return
        try:
            self._fork_server = self._start_fork_server()
        except Exception as error:  # noqa: BLE001 - no process, descriptor or memory
            log.warning("the fork server cannot be started: %s", error)
            in_empty_context(self._loop.call_later, max(PAUSE, self._next_pause()), self._restart)
            return
        self._state = State.RUNNING
        self._start_workers()

    # The end of the pool

    def stop_replacing(self) -> None:
        """Start no worker from now on."""
        self._state = State.CLOSING

    def stop_waiting(self) -> None:
        """While the pool ends: kill the workers that have not ended yet."""
        if not self._may_kill.done():
            self._may_kill.set_result(None)

    async def close(self, deadline: float | None) -> None:
        """End every worker and the fork server.

        Workers may run their finalizers, threads and queues to the end, at most until `deadline`,
        in loop time; None: without a limit, as those of the standard executor.
        """
        self._state = State.CLOSING
        self._set_started()
        for connection in list(self.connections.values()):
            if connection.state is WorkerState.STARTING:  # its initializer may take long
                self._fork_server.kill(connection.token)
            connection.close()
        self.open.clear()
        self.idle.clear()
        fork_server = self._fork_server
        if self.connections and fork_server.is_ready and not fork_server.ended.done():
            await self._wait_for_workers(deadline)
        for token in self.connections:
            fork_server.kill(token)
        fork_server.close()
        await asyncio.wait([fork_server.ended], timeout=fork_server.end_timeout)
        fork_server.kill_server("the fork server did not end")
        for connection in self.connections.values():  # their ends were not reported
            close_unfetched(connection.setup_keys)

    async def _wait_for_workers(self, deadline: float | None) -> None:
        """Wait until all workers have ended, while the fork server reports that it is alive."""
        now = began = self._loop.time()
        while deadline is None or now < deadline:
            left = PING_PAUSE if deadline is None else min(PING_PAUSE, deadline - now)
            await asyncio.wait([self._may_kill], timeout=left)
            now = self._loop.time()
            if self._may_kill.done() or now - max(began, self._fork_server.heard_at) > NO_REPORT:
                return
            self._fork_server.ping()


def kill_child_of(parent: int, pid: int) -> None:
    """Kill a process if it is a child of `parent`, so that no other process with its pid is hit."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if int(fields[1]) == parent:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:  # it has ended meanwhile
        pass
    finally:
        os.close(descriptor)
