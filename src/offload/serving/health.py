"""Health and metrics of a server on Tornado, health=yes: /healthz, /readyz and /metrics.

They respond to clients on this machine only. /metrics needs prometheus_client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tornado.web import HTTPError

from offload.registry.addresses import is_loopback
from offload.serving.applications import responses
from offload.serving.lifecycle import log
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import probe
from offload.serving.protection import limits
from offload.serving.protection.connections import LimitedHandler

if TYPE_CHECKING:
    from offload.serving.protection.guards import Guard

READY, DRAINING = "ready", "draining"
PACKAGE = "prometheus_client"
TEXT = "text/plain; charset=utf-8"
EVENTS = {
    "refused": "requests refused by admission",
    "dropped": "requests dropped because their client had disconnected",
    "timed_out": "requests whose task exceeded its timeout",
}
NOW = {
    "in_flight": "admitted requests without a response",
    "stuck": "threads whose task exceeded its timeout",
}


def handlers(guard: Guard | None) -> list[tuple[Any, ...]]:
    """Return the handlers of one process; without a guard, it is ready until it drains."""
    render, why = _renderer(guard)
    if why is not None:
        log.line(why)
    return [
        ("/healthz", _Healthz),
        ("/readyz", _Readyz, {"guard": guard}),
        ("/metrics", _Metrics, {"render": render, "why": why}),
    ]


def state(guard: Guard | None) -> str:
    """Return whether requests can be served: ready, draining, or unavailable and the reason."""
    if stop.at is not None:
        return DRAINING
    why = None if guard is None else guard.unavailable()
    return READY if why is None else f"unavailable: {why}"


class _Local(LimitedHandler):
    """A handler for clients on this machine that name a host of this server."""

    def prepare(self) -> None:
        if not is_loopback(self.request.remote_ip or ""):
            raise HTTPError(404)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", TEXT)
        if not limits.is_host_allowed(self.request.headers.get("Host")):
            refused = responses.misdirected()
            self.set_status(refused.status)
            self.finish(refused.body)

    def compute_etag(self) -> None:
        """Compute no ETag: each response is current."""


class _Healthz(_Local):
    """The process responds."""

    def get(self) -> None:
        self.finish("ok\n")

    head = get


class _Readyz(_Local):
    """Requests can be served."""

    def initialize(self, guard: Guard | None) -> None:
        self.guard = guard

    def get(self) -> None:
        found = state(self.guard)
        self.set_status(200 if found == READY else 503)
        self.finish(f"{found}\n")

    head = get


class _Metrics(_Local):
    """The metrics of all processes in the text format of Prometheus."""

    def initialize(self, render: Callable[[], bytes], why: str | None) -> None:
        self.render_metrics = render
        self.why = why

    def get(self) -> None:
        if self.why is not None:
            self.set_status(501)
            self.finish(f"{self.why}\n")
            return
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(self.render_metrics())

    head = get


def _renderer(guard: Guard | None) -> tuple[Callable[[], bytes], str | None]:
    """Return a function that renders the metrics, and the reason if there can be none.

    The metrics are read when they are requested: no request has to update them.
    """
    if find_spec(PACKAGE) is None:
        why = f"/metrics needs {PACKAGE}: pip install {PACKAGE}"
        return lambda: b"", why
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class RequestCollector(Collector):  # type: ignore[misc] # the package may be missing
        def collect(self) -> Iterator[Any]:
            """Yield the counts since the start, and the current figures."""
            by_result = CounterMetricFamily(
                "offload_responses", "responses to tasks", labels=["result"]
            )
            for result, count in probe.response_counts().items():
                by_result.add_metric([result], count)
            yield by_result
            if guard is None:
                return
            counts = probe.protection_counts([*EVENTS, *NOW])
            for name, text in EVENTS.items():
                yield CounterMetricFamily(f"offload_{name}", text, value=counts[name])
            for name, text in NOW.items():
                yield GaugeMetricFamily(f"offload_{name}", text, value=counts[name])

    registry = CollectorRegistry()
    registry.register(RequestCollector())
    return lambda: bytes(generate_latest(registry)), None
