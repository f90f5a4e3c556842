"""The metrics: Prometheus' text format, and counters that only grow."""

from collections.abc import Callable
from pathlib import Path

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service_helpers import assert_error, make_client

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(client: TestClient) -> tuple[dict[str, str], Samples]:
    """The types of all metrics, and their values by name and labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    samples = [sample for family in families for sample in family.samples]
    values = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
    assert len(values) == len(samples)  # no series twice
    return {family.name: family.type for family in families}, values


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_every_metric_has_its_type(artifact_of: Callable[[str], Path]) -> None:
    with make_client(artifact_of("crosscbr")) as client:
        types, samples = scrape(client)
        artifact = client.get("/v1/about").json()["artifact"]
    assert types == {
        "clbr_requests": "counter",
        "clbr_request_seconds": "histogram",
        "clbr_requests_active": "gauge",
        "clbr_requests_waiting": "gauge",
        "clbr_ready": "gauge",
        "clbr_artifact_info": "gauge",
        "clbr_artifact_swaps": "counter",
        "clbr_computations_stopped": "counter",
    }
    assert value(samples, "clbr_artifact_info", id=artifact, model="crosscbr") == 1
    assert value(samples, "clbr_ready") == value(samples, "clbr_requests_active") == 1  # the scrape itself
    assert value(samples, "clbr_requests_waiting") == value(samples, "clbr_computations_stopped_total") == 0
    for result in ("swapped", "rejected"):
        assert value(samples, "clbr_artifact_swaps_total", result=result) == 0


def test_requests_are_counted_once_by_route_and_status(artifact_of: Callable[[str], Path]) -> None:
    with make_client(artifact_of("crosscbr")) as client:
        for path in ("/v1/user?id=17", "/v1/user?id=3", "/v1/user?id=nobody", "/v1/nothing"):
            client.get(path)
        client.head("/v1/user?id=17")
        _, samples = scrape(client)
    assert value(samples, "clbr_requests_total", route="/v1/user", status="200") == 3
    assert value(samples, "clbr_requests_total", route="/v1/user", status="404") == 1
    assert value(samples, "clbr_requests_total", route="other", status="404") == 1
    assert value(samples, "clbr_request_seconds_count", route="/v1/user") == 4
    assert value(samples, "clbr_request_seconds_sum", route="/v1/user") > 0
    buckets = [
        (float(dict(labels)["le"]), count)
        for (name, labels), count in samples.items()
        if name == "clbr_request_seconds_bucket" and dict(labels)["route"] == "/v1/user"
    ]
    assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert buckets[-1] == (float("inf"), 4)


def test_counters_only_grow_when_the_artifact_is_swapped(artifact_of: Callable[[str], Path], tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    with make_client(link) as client:
        client.get("/v1/about")
        types, before = scrape(client)
        for model in ("bgcn", "crosscbr", "bgcn"):
            (tmp_path / "next").symlink_to(artifact_of(model))
            (tmp_path / "next").rename(link)
            assert client.post("/admin/reload").status_code == 200
        (tmp_path / "next").symlink_to(tmp_path)
        (tmp_path / "next").rename(link)
        assert_error(client.post("/admin/reload"), 409)
        artifact = client.get("/v1/about").json()["artifact"]
        _, after = scrape(client)
    counters = [key for key in before if types.get(key[0].removesuffix("_total")) == "counter"]
    assert len(counters) > 4 and all(after[key] >= before[key] for key in counters)
    assert value(after, "clbr_artifact_swaps_total", result="swapped") >= 3  # the folder's watcher may add one
    assert value(after, "clbr_artifact_swaps_total", result="rejected") >= 1
    assert value(after, "clbr_requests_total", route="/v1/about", status="200") == 2
    assert [key for key in after if key[0] == "clbr_artifact_info"] == [
        ("clbr_artifact_info", (("id", artifact), ("model", "bgcn")))
    ]
