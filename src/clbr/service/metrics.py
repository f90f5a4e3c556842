"""Metrics for Prometheus: requests and their times are counted, the worker's state is shown at each scrape.

Worker processes keep their values in files of the folder that `PROMETHEUS_MULTIPROC_DIR` names when they start, and
each of them answers with the sum over all. The counts of a process that has ended stay in it.
"""

import os
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
"""Buckets of response times."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED = "PROMETHEUS_MULTIPROC_DIR"
ARTIFACT = "clbr_artifact_info"
disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each counter: when it was made


class Metrics:
    """The metrics of one service. Counters only grow, also when the artifact is swapped or a process is restarted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("clbr_requests", "Requests answered", ["route", "status"], **registry)
        self.seconds = Histogram(
            "clbr_request_seconds", "Time to the end of an answer", ["route"], buckets=SECONDS, **registry
        )
        summed = registry | {"multiprocess_mode": "livesum"}
        self.active = Gauge("clbr_requests_active", "Requests being answered", **summed)
        self.waiting = Gauge("clbr_requests_waiting", "Requests at the worker or in its queue", **summed)
        self.ready = Gauge("clbr_ready", "Whether requests are answered", **registry, multiprocess_mode="livemin")
        labels = ["id", "model"]
        self.artifact = Gauge(ARTIFACT, "The artifact that answers", labels, **registry, multiprocess_mode="livemax")
        self.swaps = Counter("clbr_artifact_swaps", "Artifacts swapped, or rejected", ["result"], **registry)
        for result in ("swapped", "rejected"):
            self.swaps.labels(result)
        stopped = "Computations that were stopped: too slow, or the client had gone"
        self.stopped = Counter("clbr_computations_stopped", stopped, **registry)
        self.shown: tuple[str, str] | None = None

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def show(self, ready: bool, waiting: int, artifact: tuple[str, str] | None) -> None:
        """Show the worker's state: whether it is ready, how many requests it has, its artifact's id and model."""
        self.ready.set(int(ready))
        self.waiting.set(waiting)
        if self.shown is not None and self.shown != artifact:
            self.artifact.labels(*self.shown).set(0)  # a series in a shared file cannot be removed
        self.shown = artifact
        if artifact is not None:
            self.artifact.labels(*artifact).set(1)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, of all worker processes together."""
        registry = CollectorRegistry()
        registry.register(_Current(self.registry, os.environ.get(SHARED)))
        return generate_latest(registry)


class _Current(Collector):
    """The metrics of a registry, summed over all processes if they share a folder, without artifacts of the past."""

    def __init__(self, own: CollectorRegistry, folder: str | None) -> None:
        self.own, self.folder = own, folder

    def describe(self) -> list[Metric]:
        """Nothing: the names are known to be distinct."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics, with the descriptions of the registry."""
        own = {metric.name: metric for metric in self.own.collect()}
        shared = MultiProcessCollector(CollectorRegistry(), self.folder).collect() if self.folder else own.values()  # type: ignore[no-untyped-call]
        for metric in shared:
            metric.documentation = own[metric.name].documentation
            if metric.name == ARTIFACT:
                metric.samples = [sample for sample in metric.samples if sample.value]
            yield metric
