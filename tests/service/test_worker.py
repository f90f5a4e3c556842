"""Which artifact answers, when another takes its place, and who waits in line."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from asking import open_service, refused
from clbr.service import limits
from clbr.service.refusals import RefusedError
from clbr.service.served import Served
from clbr.service.worker import Worker


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


def test_another_artifact_takes_its_place(artifact_of: Callable[[str], Path], tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    with open_service(link) as client:
        first = client.get("/api/about").json()
        link.unlink()
        link.symlink_to(artifact_of("bgcn"))
        told = client.post("/admin/reload").json()
        second = client.get("/api/about").json()
    assert told == {"before": first["artifact"], "after": second["artifact"]}
    assert (first["model"], second["model"]) == ("crosscbr", "bgcn")


def test_a_changed_link_is_noticed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clbr.service.worker.LOOK_SECONDS", 0.01)
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))

    async def watched() -> str:
        desk = Worker(link)
        watch = asyncio.create_task(desk.watch())
        (tmp_path / "next").symlink_to(artifact_of("bgcn"))
        (tmp_path / "next").rename(link)
        while desk.now.artifact.about.model == "crosscbr":
            await asyncio.sleep(0.01)
        watch.cancel()
        return desk.now.artifact.about.model

    assert asyncio.run(asyncio.wait_for(watched(), 60)) == "bgcn"


def test_an_artifact_that_is_copied_over_the_old_one_is_taken_once_it_is_whole(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clbr.service.worker.LOOK_SECONDS", 0.01)
    place = shutil.copytree(artifact_of("crosscbr"), tmp_path / "desk")

    async def watched() -> tuple[str, int]:
        desk = Worker(place)
        watch = asyncio.create_task(desk.watch())
        for file in sorted(artifact_of("bgcn").iterdir()):
            shutil.copy(file, place / file.name)
            await asyncio.sleep(0.1)
        while desk.now.artifact.about.model == "crosscbr":
            await asyncio.sleep(0.01)
        watch.cancel()
        desk.close()
        return desk.now.artifact.about.model, desk.changes["refused"]

    model, refusals = asyncio.run(asyncio.wait_for(watched(), 60))
    assert model == "bgcn" and refusals > 0  # looked at while it was half there


def test_a_link_that_changes_while_the_service_starts_is_not_missed(
    artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    first = Served.open

    def change_meanwhile(folder: Path) -> Served:
        opened = first(folder)
        link.unlink()
        link.symlink_to(artifact_of("bgcn"))
        return opened

    monkeypatch.setattr(Served, "open", change_meanwhile)
    desk = Worker(link)
    assert desk.seen != desk._signature()
    desk.close()


def test_a_question_that_nobody_waits_for_is_not_begun(folder: Path) -> None:
    begun: list[str] = []

    async def left() -> None:
        desk = Worker(folder)
        first = asyncio.create_task(desk.ask(lambda: time.sleep(0.2)))
        second = asyncio.create_task(desk.ask(lambda: begun.append("second")))
        await asyncio.sleep(0.05)
        second.cancel()  # as the service does when the client has gone
        await first
        await desk.ask(lambda: begun.append("third"))
        desk.close()

    asyncio.run(left())
    assert begun == ["third"]


@pytest.mark.parametrize("damage", ["gone", "half", "flipped", "not json"])
def test_a_damaged_artifact_is_refused_and_the_old_one_goes_on(folder: Path, tmp_path: Path, damage: str) -> None:
    place = shutil.copytree(folder, tmp_path / "artifact")
    with open_service(place) as client:
        before = client.get("/api/about").json()
        vectors = (place / "vectors.safetensors").read_bytes()
        if damage == "gone":
            shutil.rmtree(place)
        elif damage == "half":
            (place / "vectors.safetensors").write_bytes(vectors[: len(vectors) // 2])
        elif damage == "flipped":
            (place / "vectors.safetensors").write_bytes(vectors[:-1] + bytes([vectors[-1] ^ 1]))
        else:
            (place / "artifact.json").write_text("{")
        refused(client.post("/admin/reload"), 409, "goes on answering")
        assert client.get("/api/about").json() == before
        assert 'clbr_artifact_changes{result="refused"} 1.0' in client.get("/metrics").text


def test_too_many_questions_at_once_are_turned_away_and_slow_ones_given_up(folder: Path) -> None:
    begun: list[int] = []

    async def crowd() -> tuple[list[int], int]:
        desk = Worker(folder, answer_seconds=0.2)

        def question() -> int:
            begun.append(1)
            time.sleep(0.3)
            return 200

        async def one() -> int:
            try:
                return await desk.ask(question)
            except RefusedError as refusal:
                return refusal.status

        found = await asyncio.gather(*(one() for _ in range(limits.WAITING + 3)))
        await asyncio.sleep(0.4)
        desk.close()
        return found, desk.waiting

    found, waiting = asyncio.run(crowd())
    assert found == [429] * len(found)
    assert waiting == 0 and begun == [1]  # it was computed to its end; those that waited were never begun
