"""What the service counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clbr.service.worker import Worker

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)


class Measures:
    """Of one service: every one has its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("clbr_requests", "Requests answered", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "clbr_request_seconds", "Time to the end of an answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.inside = Gauge("clbr_requests_inside", "Requests being answered", registry=self.registry)
        self.waiting = Gauge("clbr_questions_waiting", "Questions computed or waiting for it", registry=self.registry)
        self.artifact = Gauge("clbr_artifact", "The artifact that answers", ["id", "model"], registry=self.registry)
        self.changes = Gauge("clbr_artifact_changes", "Artifacts taken or refused", ["result"], registry=self.registry)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self, desk: Worker) -> bytes:
        """All of it, as Prometheus reads it."""
        self.waiting.set(desk.waiting)
        self.artifact.clear()
        self.artifact.labels(desk.now.id, desk.now.artifact.about.model).set(1)
        for result, count in desk.changes.items():
            self.changes.labels(result).set(count)
        return generate_latest(self.registry)
