import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from random import Random

import pytest
import torch

from clbr import InputError, World, save
from clbr.files import lock
from clbr.graph import kernels
from clbr.models.base import ClosedForm
from clbr.models.registry import MODELS
from clbr.training import run as runs
from clbr.training import runtime
from clbr.training.config import RunConfig, compose
from clbr.training.run_folder import evaluate_run, read_config
from conftest import make_dataset, small_disk
from typed import snapshot

COMMAND = [sys.executable, "-c", "from clbr.cli import main; main()", "train"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def config(data: Path, model: str = "crosscbr", **changes: object) -> RunConfig:
    return compose(str(data), model, changes={"epochs": 6, "learning_rate": 0.01} | changes)


def outcome(folder: Path) -> tuple[bytes, list[dict[str, object]]]:
    """The best weights, bit by bit, and the metrics without the seconds."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    return (folder / "best" / "model.safetensors").read_bytes(), lines


def last_tensors(folder: Path) -> bytes:
    state = json.loads((folder / "last" / "state.json").read_text())
    return (folder / "last" / state["tensors"]).read_bytes()


def test_a_run_folder_holds_config_environment_metrics_and_weights(shop: Path, tmp_path: Path, tiny: World) -> None:
    counters = runs.start(tmp_path / "run", config(shop), tiny.dataset)
    assert {p.name for p in (tmp_path / "run").iterdir()} - {".lock"} == {
        "config.toml", "metrics.jsonl", "best", "last", "environment.json",
    }  # fmt: skip
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert environment["data"]["fingerprint"] == tiny.dataset.fingerprint
    assert environment["threads"] >= 1
    lines = outcome(tmp_path / "run")[1]
    assert [line["number"] for line in lines] == [1, 2, 3, 4, 5, 6]
    best = max(line["validation"]["recall@20"] for line in lines)  # type: ignore[index]
    assert counters.best == best
    result = evaluate_run(tmp_path / "run", split="validation", ks=[20])
    assert result["recall@20"] == best


@pytest.mark.parametrize("model", ["crosscbr", "bgcn", "dam"])
def test_a_run_stopped_and_resumed_ends_in_the_same_bits(shop: Path, tmp_path: Path, tiny: World, model: str) -> None:
    settings = config(shop, model, evaluate_every=2)
    runs.start(tmp_path / "straight", settings, tiny.dataset)
    epochs: list[int] = []
    stop_at = {1, 3}
    callbacks = runs.Callbacks(
        on_epoch=lambda epoch, counters: epochs.append(epoch.number), should_stop=lambda: len(epochs) in stop_at
    )
    runs.start(tmp_path / "stopped", settings, tiny.dataset, callbacks)
    assert epochs == [1]
    runs.resume(tmp_path / "stopped", callbacks)
    assert epochs == [1, 2, 3]
    runs.resume(tmp_path / "stopped", callbacks)
    assert epochs == [1, 2, 3, 4, 5, 6]
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")
    assert last_tensors(tmp_path / "stopped") == last_tensors(tmp_path / "straight")


def test_resuming_removes_what_a_killed_write_left(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    left = tmp_path / "run" / "last" / ".state.json.partial-123"
    left.write_text("half")
    runs.resume(tmp_path / "run")
    assert not left.exists()


def test_a_finished_run_does_not_change_when_it_is_resumed(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=2), tiny.dataset)
    before = outcome(tmp_path / "run")
    assert runs.resume(tmp_path / "run").epoch == 2
    assert outcome(tmp_path / "run") == before


def epochs_written(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_killed_again_and_again_ends_in_the_same_bits(shop: Path, tmp_path: Path) -> None:
    """SIGKILL, at random moments, in real processes; every epoch is checkpointed."""
    words = f"{shop} --model crosscbr --epochs 40 --set learning_rate=0.01 --set patience=99 --threads 1 --out".split()
    environment = os.environ | {"CLBR_CHECKPOINT_SECONDS": "0"}
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*COMMAND, *words, str(tmp_path / "straight")], check=True, **quiet)  # type: ignore[call-overload]
    random, killed, kills = Random(0), tmp_path / "killed", 0
    arguments = [*words, str(killed)]
    while True:
        goal = epochs_written(killed) + random.randint(2, 14)
        process = subprocess.Popen([*COMMAND, *arguments], **quiet)  # type: ignore[call-overload]
        while process.poll() is None and epochs_written(killed) < goal:
            time.sleep(0.002)
        if process.poll() is not None:
            break
        time.sleep(random.random() * 0.05)
        process.kill()
        process.wait()
        kills += 1
        arguments = ["--resume", str(killed), "--threads", "1"]
    assert process.returncode == 0
    assert kills >= 3
    assert outcome(killed) == outcome(tmp_path / "straight")
    assert last_tensors(killed) == last_tensors(tmp_path / "straight")


def test_ctrl_c_saves_and_prints_how_to_resume(shop: Path, tmp_path: Path) -> None:
    command = [
        *COMMAND,
        str(shop),
        "--model",
        "crosscbr",
        "--epochs",
        "5000",
        "--out",
        str(tmp_path / "run"),
        "--set",
        "patience=5000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started = time.monotonic()
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() - started < 60:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"resume: clbr train --resume {tmp_path / 'run'}" in out
    assert json.loads((tmp_path / "run" / "last" / "state.json").read_text())["epoch"] >= 1


def test_training_stops_after_patience_evaluations_without_improvement(shop: Path, tmp_path: Path, tiny: World) -> None:
    counters = runs.start(tmp_path / "run", config(shop, epochs=500, patience=3, learning_rate=0.05), tiny.dataset)
    assert counters.epoch == counters.best_epoch + 3
    assert counters.epoch < 500


def test_resuming_with_other_data_or_a_damaged_checkpoint_raises(tmp_path: Path, tiny: World) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    runs.start(tmp_path / "run", config(data, epochs=2), tiny.dataset)
    (tensors,) = (tmp_path / "run" / "last").glob("tensors-*")
    content = bytearray(tensors.read_bytes())
    content[len(content) // 2] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(InputError, match="the checkpoint is damaged .*checksum of tensors-2.safetensors has changed"):
        runs.resume(tmp_path / "run")
    save(make_dataset(), data, force=True)
    with pytest.raises(InputError, match="is not the data set that"):
        runs.resume(tmp_path / "run")
    with pytest.raises(InputError, match="no run there"):
        runs.resume(tmp_path / "none")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("config.toml", "learning_rate = 0.01", "learning_rate = 0.5", "is of a run with other settings"),
        ("config.toml", 'model = "bprmf"', 'model = "lightgcn"', "other settings|unknown key"),
        ("config.toml", "dim = 64", "dim = 8", "is of a run with other settings"),
        (
            "last/state.json",
            '"epoch": 2',
            '"epoch": 1',
            "the checkpoint is damaged .*checksum of state.json has changed",
        ),
        ("last/state.json", "{", "", "the checkpoint is damaged"),
        ("metrics.jsonl", '"number"', '"numbr"', "metrics.jsonl: is damaged"),
        ("environment.json", "{", "", "environment.json: is damaged"),
        ("environment.json", "fingerprint", "thumbprint", "environment.json: is damaged"),
    ],
)
def test_resuming_with_other_settings_or_a_damaged_file_raises_and_changes_nothing(
    shop: Path, tmp_path: Path, tiny: World, file: str, old: str, new: str, message: str
) -> None:
    runs.start(tmp_path / "run", config(shop, "bprmf", epochs=2), tiny.dataset)
    path = tmp_path / "run" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=message):
        runs.resume(tmp_path / "run")
    assert snapshot(tmp_path) == before


def test_best_weights_with_a_flipped_bit_raise(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, "bprmf", epochs=1), tiny.dataset)
    path = tmp_path / "run" / "best" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="not the weights of this model .*checksum has changed"):
        evaluate_run(tmp_path / "run", split="validation", ks=[20])


def test_a_run_resumes_with_moved_data_and_on_its_own_device(
    tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    runs.start(
        tmp_path / "run", config(data, "bprmf"), tiny.dataset, runs.Callbacks(should_stop=lambda: True), device="cpu"
    )
    data.rename(tmp_path / "moved")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a GPU that was not there before
    assert runs.resume(tmp_path / "run", data=tmp_path / "moved").epoch == 6


def test_a_run_in_use_by_another_process_cannot_be_resumed(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    with lock(tmp_path / "run"), pytest.raises(InputError, match="is in use by another process"):
        runs.resume(tmp_path / "run")
    with pytest.raises(InputError, match="is not empty"):
        runs.start(tmp_path / "run", config(shop), tiny.dataset)


def test_a_start_that_was_killed_at_once_can_be_repeated(shop: Path, tmp_path: Path, tiny: World) -> None:
    (tmp_path / "run").mkdir()
    for name in (".lock", "environment.json", ".config.toml.partial-77"):
        (tmp_path / "run" / name).touch()
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    assert read_config(tmp_path / "run").train.epochs == 1
    assert not list((tmp_path / "run").glob(".*partial*"))


def test_without_compiled_kernels_the_losses_are_about_the_same(
    shop: Path, tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.start(tmp_path / "compiled", config(shop, "bgcn", epochs=3), tiny.dataset)
    monkeypatch.setattr(kernels, "available", False)
    runs.start(tmp_path / "twin", config(shop, "bgcn", epochs=3), tiny.dataset)
    one, two = (
        [json.loads(line)["losses"]["bpr"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("compiled", "twin")
    )
    assert one == pytest.approx(two, rel=1e-3)


def test_a_run_starts_without_numba(shop: Path, tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "numba":
            raise PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(runtime, "version", version)
    runs.start(tmp_path / "run", config(shop, "bprmf", epochs=1), tiny.dataset)
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["versions"]["numba"] is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("model", list(MODELS))
def test_every_model_trains_on_a_gpu(model: str, shop: Path, tmp_path: Path, tiny: World) -> None:
    changes = {} if issubclass(MODELS[model], ClosedForm) else {"epochs": 2}
    runs.start(tmp_path / "run", compose(str(shop), model, changes=changes), tiny.dataset, device="cuda")
    assert evaluate_run(tmp_path / "run", split="test", ks=[20]).means["recall@20"] >= 0


@pytest.mark.parametrize(("device", "message"), [("tpu", "expected auto, cpu or cuda"), ("cuda", "finds no GPU here")])
def test_an_unknown_or_missing_device_raises(
    device: str, message: str, shop: Path, tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=message):
        runs.start(tmp_path / "run", config(shop), tiny.dataset, device=device)
    assert not (tmp_path / "run").exists()


def test_a_run_resumes_after_a_full_disk(shop: Path, tmp_path: Path, tiny: World) -> None:
    settings = config(shop)
    runs.start(tmp_path / "straight", settings, tiny.dataset)
    callbacks = runs.Callbacks(should_stop=lambda: True)
    runs.start(tmp_path / "full", settings, tiny.dataset, callbacks)
    with small_disk(4096), pytest.raises(InputError, match="cannot be written"):
        runs.resume(tmp_path / "full")
    runs.resume(tmp_path / "full")
    assert outcome(tmp_path / "full") == outcome(tmp_path / "straight")
