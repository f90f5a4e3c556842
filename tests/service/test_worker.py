"""The worker: which artifact answers, the swap to another one, and the queue."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clbr.inference.recommender import Recommender
from clbr.service import limits
from clbr.service import worker as worker_module
from clbr.service.request_error import RequestError
from clbr.service.worker import Worker
from service_helpers import assert_error, make_client


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


def test_a_reload_swaps_to_another_artifact(artifact_of: Callable[[str], Path], tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    with make_client(link) as client:
        first = client.get("/api/about").json()
        link.unlink()
        link.symlink_to(artifact_of("bgcn"))
        swapped = client.post("/admin/reload").json()
        second = client.get("/api/about").json()
        assert 'clbr_artifact_swaps{result="swapped"} 1.0' in client.get("/metrics").text
    assert swapped == {"before": first["artifact"], "after": second["artifact"]}
    assert (first["model"], second["model"]) == ("crosscbr", "bgcn")


def test_a_changed_link_is_noticed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.01)
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))

    async def watched() -> str:
        worker = Worker(link)
        watch = asyncio.create_task(worker.watch())
        (tmp_path / "next").symlink_to(artifact_of("bgcn"))
        (tmp_path / "next").rename(link)
        while worker.current.artifact.about.model == "crosscbr":
            await asyncio.sleep(0.01)
        watch.cancel()
        return worker.current.artifact.about.model

    assert asyncio.run(asyncio.wait_for(watched(), 60)) == "bgcn"


def test_an_artifact_that_is_copied_over_the_old_one_is_used_once_it_is_complete(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.01)
    copy = shutil.copytree(artifact_of("crosscbr"), tmp_path / "artifact")

    async def watched() -> tuple[str, int]:
        worker = Worker(copy)
        watch = asyncio.create_task(worker.watch())
        for file in sorted(artifact_of("bgcn").iterdir()):
            shutil.copy(file, copy / file.name)
            await asyncio.sleep(0.1)
        while worker.current.artifact.about.model == "crosscbr":
            await asyncio.sleep(0.01)
        watch.cancel()
        worker.close()
        return worker.current.artifact.about.model, worker.swaps["rejected"]

    model, rejected = asyncio.run(asyncio.wait_for(watched(), 60))
    assert model == "bgcn" and rejected > 0  # it was opened while it was incomplete


def test_a_link_that_changes_while_the_service_starts_is_not_missed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    open_first = worker_module.open_for_service

    def change_meanwhile(folder: Path) -> Recommender:
        opened = open_first(folder)
        link.unlink()
        link.symlink_to(artifact_of("bgcn"))
        return opened

    monkeypatch.setattr(worker_module, "open_for_service", change_meanwhile)
    worker = Worker(link)
    assert worker.current.artifact.about.model == "crosscbr"
    assert worker.signature != worker._signature()
    worker.close()


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
        before = client.get("/api/about").json()
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
        assert client.get("/api/about").json() == before
        assert 'clbr_artifact_swaps{result="rejected"} 1.0' in client.get("/metrics").text


def test_requests_beyond_the_queue_are_rejected_and_slow_ones_given_up(folder: Path) -> None:
    started: list[int] = []

    async def crowd() -> tuple[list[int], int]:
        worker = Worker(folder, answer_seconds=0.2)

        def slow() -> int:
            started.append(1)
            time.sleep(0.3)
            return 200

        async def request() -> int:
            try:
                return await worker.compute(slow)
            except RequestError as error:
                return error.status

        found = await asyncio.gather(*(request() for _ in range(limits.QUEUE + 3)))
        await asyncio.sleep(0.4)
        worker.close()
        return found, worker.waiting

    found, waiting = asyncio.run(crowd())
    assert found == [429] * len(found)
    assert waiting == 0 and started == [1]  # the first was computed to its end; the others were never started
