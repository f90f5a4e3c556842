"""The worker: which artifact answers, the swap to another one, and the queue."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clbr.inference.recommender import Recommender
from clbr.inference.stopping import check_stop
from clbr.service import worker as worker_module
from clbr.service.limits import DEFAULT, Limits
from clbr.service.request_error import RequestError
from clbr.service.worker import Worker
from service_helpers import assert_error, make_client


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


async def serving(worker: Worker, model: str) -> None:
    """Wait until this model answers."""
    while worker.serving is None or worker.serving.artifact.about.model != model:
        await asyncio.sleep(0.01)


def swaps(worker: Worker, result: str) -> float:
    """How many artifacts were swapped, or rejected."""
    return worker.metrics.registry.get_sample_value("clbr_artifact_swaps_total", {"result": result}) or 0


def test_a_reload_swaps_to_another_artifact(artifact_of: Callable[[str], Path], tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    with make_client(link) as client:
        first = client.get("/v1/about").json()
        link.unlink()
        link.symlink_to(artifact_of("bgcn"))
        swapped = client.post("/admin/reload").json()
        second = client.get("/v1/about").json()
    assert swapped == {"before": first["artifact"], "after": second["artifact"]}
    assert (first["model"], second["model"]) == ("crosscbr", "bgcn")


def test_a_changed_link_is_noticed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.01)
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))

    async def watched() -> dict[str, float]:
        worker = Worker(link)
        watch = asyncio.create_task(worker.watch())
        await serving(worker, "crosscbr")
        (tmp_path / "next").symlink_to(artifact_of("bgcn"))
        (tmp_path / "next").rename(link)
        await serving(worker, "bgcn")
        watch.cancel()
        worker.close()
        return {result: swaps(worker, result) for result in ("swapped", "rejected")}

    assert asyncio.run(asyncio.wait_for(watched(), 60)) == {"swapped": 1, "rejected": 0}


def test_an_artifact_that_is_copied_over_the_old_one_is_used_once_it_is_complete(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.01)
    copy = shutil.copytree(artifact_of("crosscbr"), tmp_path / "artifact")

    async def watched() -> float:
        worker = Worker(copy)
        watch = asyncio.create_task(worker.watch())
        await serving(worker, "crosscbr")
        for file in sorted(artifact_of("bgcn").iterdir()):
            shutil.copy(file, copy / file.name)
            await asyncio.sleep(0.1)
        await serving(worker, "bgcn")
        watch.cancel()
        worker.close()
        return swaps(worker, "rejected")

    assert asyncio.run(asyncio.wait_for(watched(), 60)) > 0  # it was opened while it was incomplete


def test_a_link_that_changes_while_the_service_starts_is_not_missed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.01)
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    opened_models: list[str] = []
    open_first = worker_module.open_for_service

    def change_meanwhile(folder: Path) -> Recommender:
        opened = open_first(folder)
        if not opened_models:
            (tmp_path / "next").symlink_to(artifact_of("bgcn"))
            (tmp_path / "next").rename(link)
        opened_models.append(opened.artifact.about.model)
        return opened

    async def watched() -> None:
        worker = Worker(link)
        watch = asyncio.create_task(worker.watch())
        await serving(worker, "bgcn")
        watch.cancel()
        worker.close()

    monkeypatch.setattr(worker_module, "open_for_service", change_meanwhile)
    asyncio.run(asyncio.wait_for(watched(), 60))
    assert opened_models == ["crosscbr", "bgcn"]


def test_a_request_that_was_given_up_in_the_queue_is_not_started(folder: Path) -> None:
    started: list[str] = []

    async def give_up() -> None:
        worker = Worker(folder)
        first = asyncio.create_task(worker.compute(lambda: time.sleep(0.2)))
        second = asyncio.create_task(worker.compute(lambda: started.append("second")))
        await asyncio.sleep(0.05)
        second.cancel()  # as the service does when the client has gone
        await first
        await worker.compute(lambda: started.append("third"))
        worker.close()

    asyncio.run(give_up())
    assert started == ["third"]


@pytest.mark.parametrize("damage", ["gone", "half", "flipped", "not json"])
def test_a_damaged_artifact_is_rejected_and_the_old_one_goes_on(folder: Path, tmp_path: Path, damage: str) -> None:
    copy = shutil.copytree(folder, tmp_path / "artifact")
    with make_client(copy) as client:
        before = client.get("/v1/about").json()
        vectors = (copy / "vectors.safetensors").read_bytes()
        if damage == "gone":
            shutil.rmtree(copy)
        elif damage == "half":
            (copy / "vectors.safetensors").write_bytes(vectors[: len(vectors) // 2])
        elif damage == "flipped":
            (copy / "vectors.safetensors").write_bytes(vectors[:-1] + bytes([vectors[-1] ^ 1]))
        else:
            (copy / "artifact.json").write_text("{")
        assert_error(client.post("/admin/reload"), 409, "goes on answering")
        assert client.get("/v1/about").json() == before
        assert client.get("/ready").status_code == 200


def test_requests_beyond_the_queue_are_rejected_and_slow_ones_given_up(folder: Path) -> None:
    started: list[int] = []

    async def crowd() -> tuple[list[int], int]:
        worker = Worker(folder, Limits(answer_seconds=0.2))

        def slow() -> int:
            started.append(1)
            time.sleep(0.3)
            return 200

        async def request() -> int:
            try:
                return await worker.compute(slow)
            except RequestError as error:
                return error.status

        found = await asyncio.gather(*(request() for _ in range(DEFAULT.queue + 3)))
        await asyncio.sleep(0.4)
        worker.close()
        return found, worker.waiting

    found, waiting = asyncio.run(crowd())
    assert found == [429] * len(found)
    assert waiting == 0 and started == [1]  # the first was computed to its end; the others were never started


def endless() -> None:
    """A computation without an end, block by block."""
    while True:
        check_stop()
        time.sleep(0.001)


def test_after_its_deadline_a_computation_stops_and_the_next_request_is_computed(folder: Path) -> None:
    async def late() -> tuple[str, str, float | None]:
        worker = Worker(folder, Limits(answer_seconds=0.2))
        with pytest.raises(RequestError) as error:
            await worker.compute(endless)
        answer = await worker.compute(lambda: "next")  # within 0.2 seconds
        worker.close()
        return str(error.value), answer, worker.metrics.registry.get_sample_value("clbr_computations_stopped_total")

    message, answer, stopped = asyncio.run(late())
    assert message.startswith("no answer within 0.2 seconds: ask for fewer edits")
    assert (answer, stopped) == ("next", 1)


def test_a_computation_whose_client_has_gone_stops(folder: Path) -> None:
    async def leave() -> float | None:
        worker = Worker(folder)
        request = asyncio.create_task(worker.compute(endless))
        await asyncio.sleep(0.05)
        request.cancel()
        await worker.compute(lambda: "next")
        worker.close()
        return worker.metrics.registry.get_sample_value("clbr_computations_stopped_total")

    assert asyncio.run(asyncio.wait_for(leave(), 10)) == 1


def test_a_computation_stops_when_the_service_does(folder: Path) -> None:
    async def close() -> int:
        worker = Worker(folder)
        request = asyncio.create_task(worker.compute(endless))
        await asyncio.sleep(0.05)
        worker.close()
        with pytest.raises(RequestError, match="the service is stopping") as error:
            await request
        return error.value.status

    assert asyncio.run(asyncio.wait_for(close(), 10)) == 503
