"""Run mpire's tests of its pool with our executor behind mpire's own methods.

mpire checks arguments, splits arrays into chunks and puts results in order; ours runs the calls.
"""

from __future__ import annotations

import itertools
import multiprocessing
import types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from typing import Any

import numpy as np
from mpire import params, pool
from mpire.async_result import AsyncResult
from mpire.utils import apply_numpy_chunking
from mpire.worker import AbstractWorker
from peer_loky import Pickled
from peer_pool import BrokenWorker, Executor, Future, forbid


class WorkerPool(pool.WorkerPool):  # type: ignore[misc] # mpire is not installed for mypy
    """mpire's pool without its workers; calls are not sent in chunks, no progress is shown."""

    def __init__(
        self,
        n_jobs: int | None = None,
        daemon: bool = True,
        cpu_ids: Any = None,
        shared_objects: Any = None,
        pass_worker_id: bool = False,
        use_worker_state: bool = False,
        start_method: str = "forkserver",
        keep_alive: bool = False,
        use_dill: bool = False,
    ) -> None:
        self.pool_params = params.WorkerPoolParams(
            n_jobs=n_jobs,
            cpu_ids=cpu_ids,
            daemon=daemon,
            shared_objects=shared_objects,
            pass_worker_id=pass_worker_id,
            use_worker_state=use_worker_state,
            start_method=start_method,
            keep_alive=keep_alive,
            use_dill=use_dill,
        )
        self.ctx = multiprocessing.get_context(start_method)
        self._cache: dict[int, Any] = {}
        self._executor: Executor | None = None
        self._given: tuple[Any, ...] = ()  # what it was started with
        self._map_running = self._keeps_order = False
        # What the methods of mpire call: whether `map` and `imap` have numbered the calls.
        self._worker_comms = types.SimpleNamespace(
            signal_keep_order=lambda: setattr(self, "_keeps_order", True),
            clear_keep_order=lambda: setattr(self, "_keeps_order", False),
            reset=self.stop_and_join,
        )

    @property
    def _workers(self) -> list[Any]:
        return [] if self._executor is None else list(self._executor._processes.values())

    def get_exit_results(self) -> list[Any]:
        return []

    def imap_unordered(
        self,
        func: Callable[..., Any],
        iterable_of_args: Iterable[Any],
        iterable_len: int | None = None,
        max_tasks_active: int | None = None,
        chunk_size: int | None = None,
        n_splits: int | None = None,
        worker_lifespan: int | None = None,
        progress_bar: bool = False,
        progress_bar_position: int | None = None,
        worker_init: Callable[..., object] | None = None,
        worker_exit: Callable[..., object] | None = None,
        task_timeout: float | None = None,
        worker_init_timeout: float | None = None,
        worker_exit_timeout: float | None = None,
        progress_bar_options: Any = None,
        progress_bar_style: Any = None,
    ) -> Iterator[Any]:
        if isinstance(iterable_of_args, np.ndarray):
            iterable_of_args, iterable_len, chunk_size, n_splits = apply_numpy_chunking(
                iterable_of_args, iterable_len, chunk_size, n_splits, self.pool_params.n_jobs
            )
        count, limit, *_ = params.check_map_parameters(
            self.pool_params,
            iterable_of_args,
            iterable_len,
            max_tasks_active,
            chunk_size,
            n_splits,
            worker_lifespan,
            progress_bar,
            progress_bar_position,
            progress_bar_options,
            progress_bar_style,
            task_timeout,
            worker_init_timeout,
            worker_exit_timeout,
        )
        if self._map_running:
            self.terminate()
            raise RuntimeError("another map is running")
        self._map_running = True
        has_ended = False
        try:
            executor = self._start(worker_lifespan, worker_init, worker_init_timeout)
            submit = partial(self._submit, func, is_numbered=self._keeps_order)
            calls = itertools.islice(iterable_of_args, count)
            pending: set[Future[Any]] = set()
            while True:
                if executor is not self._executor:
                    raise RuntimeError("the pool was terminated")
                for args in itertools.islice(calls, limit - len(pending)):
                    pending.add(submit(args, None, task_timeout))
                if not pending:
                    break
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for each in done:
                    yield _result(each)
            has_ended = True
        finally:
            self._map_running = False
            if not has_ended:
                self.terminate()
            elif self.pool_params.use_worker_state and not self.pool_params.keep_alive:
                self.stop_and_join()  # else new workers would do what these do

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., object] | None = None,
        error_callback: Callable[..., object] | None = None,
        worker_init: Callable[..., object] | None = None,
        worker_exit: Callable[..., object] | None = None,
        task_timeout: float | None = None,
        worker_init_timeout: float | None = None,
        worker_exit_timeout: float | None = None,
    ) -> AsyncResult:
        self._start(None, worker_init, worker_init_timeout)
        result = AsyncResult(self._cache, callback, error_callback)
        future = self._submit(func, args, kwargs, task_timeout)
        future.add_done_callback(partial(_pass_on, result))
        return result

    def _start(
        self,
        worker_lifespan: int | None,
        worker_init: Callable[..., object] | None,
        worker_init_timeout: float | None,
    ) -> Executor:
        """Return the executor; start it first when missing, or when a parameter is different."""
        ours = self.pool_params
        given = (worker_lifespan, worker_init, worker_init_timeout)
        if given != self._given and not ours.keep_alive:
            self.stop_and_join()
        self._given = given
        if self._executor is None:
            self._executor = Executor(
                ours.n_jobs,
                initializer=_set_up,
                initargs=(
                    ours.n_jobs if ours.pass_worker_id else None,
                    ours.shared_objects,
                    ours.use_worker_state,
                    worker_init,
                ),
                max_tasks_per_child=worker_lifespan,
                start_timeout=worker_init_timeout,
            )
        return self._executor

    def _submit(
        self,
        func: Callable[..., Any],
        args: Any,
        kwargs: dict[str, Any] | None,
        timeout: float | None,
        is_numbered: bool = False,
    ) -> Future[Any]:
        assert self._executor is not None
        function = Pickled(func) if self.pool_params.use_dill else func
        number, args = args if is_numbered else (None, args)
        return self._executor.submit_with(_run, function, args, kwargs, number, timeout=timeout)

    def stop_and_join(self, keep_alive: bool = False) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    join = stop_and_join

    def terminate(self) -> None:
        self._keeps_order = False
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.kill_workers()
            executor.shutdown()


_first_args: list[Any] = []  # of each function, in a worker


def _set_up(
    workers: int | None, shared: Any, uses_state: bool, init: Callable[..., object] | None
) -> None:
    if workers is not None:  # a successor has the number of another worker
        _first_args.append((multiprocessing.current_process()._identity[-1] - 1) % workers)
    if shared is not None:
        _first_args.append(shared)
    if uses_state:
        _first_args.append({})
    if init is not None:
        init(*_first_args)


def _run(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None, number: int | None
) -> Any:
    args, kwargs = AbstractWorker._convert_args_kwargs(args, kwargs)
    result = function(*_first_args, *args, **kwargs)
    return result if number is None else (number, result)


def _result(future: Future[Any]) -> Any:
    """Return a result; raise the error of the initializer itself, as mpire does."""
    try:
        return future.result()
    except BrokenWorker as error:
        raise error.__cause__ or error from None


def _pass_on(result: AsyncResult, future: Future[Any]) -> None:
    try:
        value = _result(future)
    except BaseException as error:  # noqa: BLE001 - a result like others
        result._set(False, error)
    else:
        result._set(True, value)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run one of the start methods: our executor ignores them."""
    for module in {item.module for item in items}:
        if hasattr(module, "TEST_START_METHODS"):
            module.TEST_START_METHODS = ["forkserver"]


def install() -> None:
    """Replace mpire's pool, and forbid its workers."""
    import mpire

    # The tests pass a Barrier of the default context to their workers: that of fork cannot be sent.
    multiprocessing.set_start_method("forkserver", force=True)
    for kind in (pool.WorkerPool, AbstractWorker):
        forbid(kind)
    mpire.WorkerPool = WorkerPool
    pool.WorkerPool = WorkerPool
