"""Whether the service is ready, and that it answers while something heavy is loaded or computed."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from clbr.inference.recommender import Recommender
from clbr.inference.reencoder import Reencoder
from clbr.models.base import Scorer
from clbr.service import worker as worker_module
from clbr.service.app import make_app
from clbr.service.limits import Limits
from clbr.service.pages import ServiceConfig
from clbr.service.worker import Worker, is_quick
from service_helpers import assert_error, make_client


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that send requests."""
    with ThreadPoolExecutor() as pool:
        yield pool


def wait_for_status(client: TestClient, status: int) -> Any:
    """Ask until /ready has this status."""
    while (answer := client.get("/ready")).status_code != status:
        pass
    return answer


def test_the_service_is_not_ready_while_its_artifact_is_loaded(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, go_on, open_now = artifact_of("crosscbr"), Event(), worker_module.open_for_service

    def open_later(folder: Path) -> Recommender:
        assert go_on.wait(60)
        return open_now(folder)

    monkeypatch.setattr(worker_module, "open_for_service", open_later)
    with TestClient(make_app(ServiceConfig(folder), Worker(folder)), base_url="http://127.0.0.1") as client:
        for path in ("/ready", "/v1/about", "/v1/recommend?user=17", "/v1/find?kind=user"):
            assert_error(client.get(path), 503, "is being loaded")
            assert client.get(path).headers["retry-after"] == "1"
        assert_error(client.post("/v1/whatif", json={"user": "17"}), 503, "is being loaded")
        assert client.head("/ready").status_code == 503
        assert client.get("/live").status_code == client.get("/").status_code == 200
        go_on.set()
        assert wait_for_status(client, 200).json() == {"status": "ready"}
        assert client.get("/v1/about").status_code == 200


def test_the_service_is_not_ready_when_its_only_artifact_was_rejected(
    artifact_of: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(artifact_of("crosscbr"), tmp_path / "artifact")
    (folder / "vectors.safetensors").write_bytes(b"damaged")
    with make_client(folder) as client:
        assert_error(client.get("/ready"), 503, "rejected", "log")
        assert_error(client.get("/v1/about"), 503, "rejected")
        assert_error(client.post("/admin/reload"), 409, "vectors.safetensors: is damaged", "nothing is served")
        shutil.copy(artifact_of("crosscbr") / "vectors.safetensors", folder)
        swapped = client.post("/admin/reload")  # the folder's watcher may have been first
        about = client.get("/v1/about").json()
        assert swapped.json()["after"] == about["artifact"]
        assert client.get("/ready").status_code == 200


def test_the_service_is_not_ready_while_a_computation_does_not_stop(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    with make_client(artifact_of("crosscbr"), Limits(answer_seconds=0.05, stop_seconds=0.05)) as client:
        monkeypatch.setattr(Recommender, "suggest", lambda *_, **__: go_on.wait(60))
        assert_error(client.post("/v1/suggest", json={"bundle": "5"}), 429, "no answer within 0.05 seconds")
        stuck = wait_for_status(client, 503)
        assert_error(stuck, 503, "stuck")
        assert client.get("/live").status_code == 200
        go_on.set()
        assert wait_for_status(client, 200).json() == {"status": "ready"}


def test_an_explanation_beyond_its_deadline_leaves_the_worker_to_the_next_request(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    user_scores = Reencoder.user_scores

    def slowly(*question: Any) -> Any:
        tried.append(1)
        Event().wait(0.05)
        return user_scores(*question)

    with make_client(artifact_of("crosscbr"), Limits(answer_seconds=0.5)) as client:
        bundles = client.get("/v1/recommend", params={"user": "17", "k": 100}).json()["recommended"]
        question = {"user": "17", "bundle": bundles[-1]["id"], "k": 1, "budget": 400}
        monkeypatch.setattr(Reencoder, "user_scores", slowly)
        assert_error(client.post("/v1/explain", json=question), 429, "no answer within 0.5 seconds", "less budget")
        similar = client.get("/v1/similar", params={"kind": "bundle", "id": "5"})  # the same worker, the same deadline
        assert similar.status_code == 200
        assert len(tried) < 20  # a budget of 400 needs 20 seconds
        assert "clbr_computations_stopped_total 1.0" in client.get("/metrics").text


@pytest.mark.parametrize("model", ["ease", "dam"])
def test_a_heavy_list_is_computed_beside_other_requests(
    artifact_of: Callable[[str], Path], pool: ThreadPoolExecutor, model: str
) -> None:
    """Models whose scores are not products of vectors may need seconds for one user."""
    started, go_on = Event(), Event()
    with make_client(artifact_of(model)) as client:
        recommender: Recommender = client.app.state.worker.current
        expected = recommender.recommend_one("17", k=5).to_json()

        class Slow(Scorer):
            scorer = recommender.artifact.scorer

            def scores(self, users: Any) -> Any:
                started.set()
                assert go_on.wait(60)
                return self.scorer.scores(users)

        recommender.artifact.__dict__["scorer"] = Slow()
        heavy: Future[Any] = pool.submit(client.get, "/v1/recommend", params={"user": "17", "k": 5})
        assert started.wait(60)
        for path in ("/live", "/ready", "/metrics", "/v1/about", "/v1/find?kind=user", "/v1/user?id=17", "/"):
            assert client.get(path).status_code == 200
        assert "clbr_requests_waiting 1.0" in client.get("/metrics").text and not heavy.done()
        go_on.set()
        assert heavy.result(60).text == expected


def test_only_small_lists_of_vectors_are_computed_on_the_event_loop(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(model: str) -> bool:
        return is_quick(worker_module.open_for_service(artifact_of(model)))

    assert quick("crosscbr") and not quick("ease")
    monkeypatch.setattr(worker_module, "QUICK_SIZE", 1000)
    assert not quick("crosscbr")
