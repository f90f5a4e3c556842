"""Metrics for Prometheus: requests and their times are counted, the worker's state is read at each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from clbr.service.worker import Worker, artifact_id

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
"""Buckets of response times."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each counter: when it was made


class Metrics:
    """The metrics of one service. Counters only grow, also when the artifact is swapped."""

    def __init__(self, worker: Worker) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("clbr_requests", "Requests answered", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "clbr_request_seconds", "Time to the end of an answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.active = Gauge("clbr_requests_active", "Requests being answered", registry=self.registry)
        self.registry.register(WorkerMetrics(worker))

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class WorkerMetrics(Collector):
    """The worker's state as metrics."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def collect(self) -> Iterator[Metric]:
        """What the worker has counted, and what it is doing now."""
        worker = self.worker
        yield GaugeMetricFamily("clbr_ready", "Whether requests are answered", value=int(not worker.problem))
        yield GaugeMetricFamily("clbr_requests_waiting", "Requests at the worker or in its queue", value=worker.waiting)
        artifact = GaugeMetricFamily("clbr_artifact_info", "The artifact that answers", labels=["id", "model"])
        if (serving := worker.serving) is not None:
            artifact.add_metric([artifact_id(serving), serving.artifact.about.model], 1)
        yield artifact
        swaps = CounterMetricFamily("clbr_artifact_swaps", "Artifacts swapped, or rejected", labels=["result"])
        for result, count in worker.swaps.items():
            swaps.add_metric([result], count)
        yield swaps
        stopped = "Computations that were stopped: too slow, or the client had gone"
        yield CounterMetricFamily("clbr_computations_stopped", stopped, value=worker.stopped)
