"""The addresses of a server's GILs: reported by the server, or found from outside (Linux).

A server that starts its own processes for tasks (gunicorn, granian, uvicorn with workers) reports
no address. Its accepting processes are found by their sockets, and their GILs by the method of
`offload watch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offload.bench.telemetry import sockets
from offload.bench.telemetry.processes import ProcessTree
from offload.bench.trial import server_report
from offload.bench.watch import gil_location, python_runtime
from offload.bench.watch.remote_memory import Unreadable
from offload.errors import MachineError, StartError
from offload.registry import catalog

OFF = "this Python has no GIL"
Facts = Mapping[str, object]


def with_gils(facts: Facts) -> Facts:
    """Return a server's facts with the addresses of the GILs of its tasks, or why none is known.

    The facts are returned unchanged if they already have addresses, or if the processes that run
    the tasks cannot be found: those of a server that starts a process per request, or whose
    accepting processes pass the tasks to others.
    """
    if server_report.serves_application(facts):
        return server_report.with_gils(facts)
    if not facts.get("external_workers") or isinstance(facts.get("worker_gil_addresses"), list):
        return facts
    pids = _workers(facts)
    return {**facts, "worker_gil_addresses": _addresses(pids)} if pids else facts


def _workers(facts: Facts) -> Sequence[int]:
    root, port = facts.get("pid"), facts.get("port")
    if not isinstance(root, int) or not isinstance(port, int):
        return ()
    try:
        members = ProcessTree(root).members
    except StartError:
        return ()
    if catalog.find_server(str(facts["server"])).constants.get("TASKS_ELSEWHERE"):
        return ()
    return [pid for pid in sockets.accepting_pids(members, port) if pid != root]


def _addresses(pids: Sequence[int]) -> list[Facts]:
    found: list[Facts] = []
    for pid in pids:
        try:
            runtime = python_runtime.find(pid)
            gils = gil_location.locate(runtime, gil_location.layout(runtime))
            gil_location.check(runtime, gils)
        except Unreadable as error:
            return [{"gil_address_error": error.message}]
        except MachineError as error:  # a package is missing
            return [{"gil_address_error": str(error)}]
        if not gils.addresses:
            return [{"gil_address_error": OFF}]
        found += [{"gil_address": {"pid": pid, "address": at}} for at in gils.addresses]
    return found
