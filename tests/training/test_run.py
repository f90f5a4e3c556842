import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from clbr import BundleDataset, InputError, World, fit, save
from clbr.graph import kernels
from clbr.models.registry import MODELS
from clbr.training import run as runs
from clbr.training import runtime as environment
from clbr.training.config import RunConfig, TrainConfig, compose, parse_changes
from clbr.training.loop import make_optimiser, train
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


def test_a_run_folder_holds_all_that_was_promised(shop: Path, tmp_path: Path, tiny: World) -> None:
    counters = runs.start(tmp_path / "run", config(shop), tiny.dataset)
    assert {p.name for p in (tmp_path / "run").iterdir()} - {".lock"} == {
        "config.toml", "metrics.jsonl", "best", "last", "environment.json",
    }  # fmt: skip
    told = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert told["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert told["data"]["fingerprint"] == tiny.dataset.fingerprint
    assert told["threads"] >= 1
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
    told: list[int] = []
    stop_at = {1, 3}
    hooks = runs.Callbacks(
        epoch=lambda epoch, counters: told.append(epoch.number), stop=lambda: (len(told) + 1) in stop_at
    )
    runs.start(tmp_path / "stopped", settings, tiny.dataset, hooks)
    assert told == [1]
    runs.resume(tmp_path / "stopped", hooks)
    assert told == [1, 2, 3]
    runs.resume(tmp_path / "stopped", hooks)
    assert told == [1, 2, 3, 4, 5, 6]
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")
    assert last_tensors(tmp_path / "stopped") == last_tensors(tmp_path / "straight")


def test_what_a_killed_write_left_is_gone_after_resuming(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    left = tmp_path / "run" / "last" / ".state.json.partial-123"
    left.write_text("half")
    runs.resume(tmp_path / "run")
    assert not left.exists()


def test_a_finished_run_resumed_stays_as_it_is(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=2), tiny.dataset)
    before = outcome(tmp_path / "run")
    assert runs.resume(tmp_path / "run").epoch == 2
    assert outcome(tmp_path / "run") == before


def epochs_told(folder: Path) -> int:
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
        goal = epochs_told(killed) + random.randint(2, 14)
        process = subprocess.Popen([*COMMAND, *arguments], **quiet)  # type: ignore[call-overload]
        while process.poll() is None and epochs_told(killed) < goal:
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


def test_ctrl_c_saves_and_says_how_to_go_on(shop: Path, tmp_path: Path) -> None:
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
    begun = time.monotonic()
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() - begun < 60:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"go on: clbr train --resume {tmp_path / 'run'}" in out
    assert json.loads((tmp_path / "run" / "last" / "state.json").read_text())["epoch"] >= 1


def test_training_stops_when_tune_has_not_got_better_for_long_enough(shop: Path, tmp_path: Path, tiny: World) -> None:
    counters = runs.start(tmp_path / "run", config(shop, epochs=500, patience=3, learning_rate=0.05), tiny.dataset)
    assert counters.epoch == counters.best_epoch + 3
    assert counters.epoch < 500


def test_the_rate_decays_by_its_factor(tiny: World) -> None:
    settings = TrainConfig(epochs=5, learning_rate=0.01, decay=0.5, decay_every=2, evaluate_every=9)
    model = runs.make_model("bprmf", {}, tiny.dataset, runs.torch_generator(0, "init"))
    optimiser = make_optimiser(model, settings)
    rates = [optimiser.param_groups[0]["lr"] for _ in train(model, optimiser, tiny.dataset, settings, seed=0)]
    assert rates == [0.01, 0.01, 0.005, 0.005, 0.0025]


def test_a_loss_that_is_no_number_stops_with_step_and_settings(tiny: World) -> None:
    settings = TrainConfig(epochs=3, learning_rate=1e30)
    model = runs.make_model("lightgcn", {}, tiny.dataset, runs.torch_generator(0, "init"))
    with pytest.raises(
        InputError,
        match=r"the loss is (nan|inf) at epoch \d, step \d: dimension=64.*learning_rate=1e\+30.*try a lower rate",
    ):
        list(train(model, make_optimiser(model, settings), tiny.dataset, settings, seed=0))


def test_resuming_with_other_data_or_a_damaged_checkpoint_is_refused(tmp_path: Path, tiny: World) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    runs.start(tmp_path / "run", config(data, epochs=2), tiny.dataset)
    (tensors,) = (tmp_path / "run" / "last").glob("tensors-*")
    content = bytearray(tensors.read_bytes())
    content[len(content) // 2] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(InputError, match="the checkpoint is damaged .*another checksum"):
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
        ("config.toml", "dimension = 64", "dimension = 8", "is of a run with other settings"),
        ("last/state.json", '"epoch": 2', '"epoch": 1', "the checkpoint is damaged .*state.json has another checksum"),
        ("last/state.json", "{", "", "the checkpoint is damaged"),
        ("metrics.jsonl", '"number"', '"numbr"', "metrics.jsonl: is damaged"),
        ("environment.json", "{", "", "environment.json: is damaged"),
        ("environment.json", "fingerprint", "thumbprint", "environment.json: is damaged"),
    ],
)
def test_resuming_with_other_settings_or_a_damaged_record_is_refused_and_changes_nothing(
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


def test_best_weights_with_a_flipped_bit_are_refused(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, "bprmf", epochs=1), tiny.dataset)
    path = tmp_path / "run" / "best" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="not the weights of this model .*another checksum"):
        evaluate_run(tmp_path / "run", split="validation", ks=[20])


def test_a_run_goes_on_where_its_data_were_moved_to_and_on_its_own_device(
    tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    runs.start(tmp_path / "run", config(data, "bprmf"), tiny.dataset, runs.Callbacks(stop=lambda: True), device="cpu")
    data.rename(tmp_path / "moved")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a GPU that was not there before
    assert runs.resume(tmp_path / "run", data=tmp_path / "moved").epoch == 6


def test_a_run_in_use_is_refused(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    with runs.locked(tmp_path / "run"), pytest.raises(InputError, match="another process is training there"):
        runs.resume(tmp_path / "run")
    with pytest.raises(InputError, match="is not empty"):
        runs.start(tmp_path / "run", config(shop), tiny.dataset)


def test_who_waits_for_a_run_in_use_is_told_so_and_can_leave(tmp_path: Path) -> None:
    told: list[Path] = []
    patient = runs.Callbacks(stop=lambda: len(told) == 2, wait=told.append)
    with runs.locked(tmp_path), runs.locked(tmp_path, patient) as ours:
        assert not ours
    assert told == [tmp_path, tmp_path]
    with runs.locked(tmp_path, patient) as ours:
        assert ours


def test_a_start_that_was_killed_at_once_can_be_made_again(shop: Path, tmp_path: Path, tiny: World) -> None:
    (tmp_path / "run").mkdir()
    for name in (".lock", "environment.json", ".config.toml.partial-77"):
        (tmp_path / "run" / name).touch()
    runs.start(tmp_path / "run", config(shop, epochs=1), tiny.dataset)
    assert read_config(tmp_path / "run").train.epochs == 1
    assert not list((tmp_path / "run").glob(".*partial*"))


def test_without_compiled_kernels_a_run_comes_to_about_the_same(
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


def test_a_run_begins_where_numba_is_not_installed(
    shop: Path, tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if package == "numba":
            raise PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(environment, "version", version)
    runs.start(tmp_path / "run", config(shop, "bprmf", epochs=1), tiny.dataset)
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["versions"]["numba"] is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("model", list(MODELS))
def test_every_model_trains_on_a_gpu(model: str, shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, model, epochs=2), tiny.dataset, device="cuda")
    assert evaluate_run(tmp_path / "run", split="test", ks=[20]).means["recall@20"] >= 0


@pytest.mark.parametrize(("device", "message"), [("tpu", "expected auto, cpu or cuda"), ("cuda", "finds no GPU here")])
def test_a_device_that_is_not_there_is_refused(
    device: str, message: str, shop: Path, tmp_path: Path, tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=message):
        runs.start(tmp_path / "run", config(shop), tiny.dataset, device=device)
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_leaves_a_run_that_goes_on(shop: Path, tmp_path: Path, tiny: World) -> None:
    settings = config(shop)
    runs.start(tmp_path / "straight", settings, tiny.dataset)
    hooks = runs.Callbacks(stop=lambda: True)
    runs.start(tmp_path / "full", settings, tiny.dataset, hooks)
    with small_disk(4096), pytest.raises(InputError, match="cannot be written"):
        runs.resume(tmp_path / "full")
    runs.resume(tmp_path / "full")
    assert outcome(tmp_path / "full") == outcome(tmp_path / "straight")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.1}, "unknown setting 'lr' of crosscbr"),
        ({"ratee": 0.1}, r"unknown setting 'ratee' of crosscbr, did you mean 'rate'\?"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
        ({"layers": 0}, "layers = 0"),
        ({"metric": "accuracy"}, "metric"),
        ({"augmentation": "some"}, "augmentation"),
    ],
)
def test_an_unknown_setting_or_a_value_out_of_range_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose("shop", "crosscbr", changes=changes)


def test_unknown_models_and_presets_are_refused(tiny: World) -> None:
    with pytest.raises(InputError, match=r"unknown model 'bgnc', did you mean 'bgcn'\?"):
        compose("shop", "bgnc")
    with pytest.raises(InputError, match=r"no preset 'youshou' for bgcn, did you mean 'youshu'\?"):
        compose("shop", "bgcn", preset="youshou")
    lonely = BundleDataset(**{**vars_of(tiny.dataset), "ui": tiny.dataset.ui[:0]})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tiny has no user-item pairs, and crosscbr cannot do without them"):
        runs.make_model("crosscbr", {}, lonely)
    with pytest.raises(InputError, match="tiny has no user-item pairs, and dam cannot do without them"):
        runs.make_model("dam", {}, lonely)
    runs.make_model("dam", {"item_task": 0.0}, lonely)


def test_where_everyone_has_every_item_only_bundles_are_learned_from() -> None:
    dataset = make_dataset(ui=np.array([[user, item] for user in range(3) for item in range(5)]))
    assert fit(dataset, "dam", epochs=1).config.model == "dam"
    everything = np.array([[user, bundle] for user in range(2) for bundle in range(4)])
    with pytest.raises(InputError, match="no choice to learn from"):
        fit(make_dataset(train=everything, validation=np.array([[2, 0]]), test=np.array([[2, 1]])), "bprmf", epochs=1)


def vars_of(dataset: BundleDataset) -> dict[str, object]:
    names = ("name", "users", "bundles", "items", "train", "validation", "test", "ui", "bi")
    return {name: getattr(dataset, name) for name in names}


def test_a_preset_file_and_changes_compose_in_order(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[settings]\nlayers = 3\n[train]\nrate = 0.5\nepochs = 7\n")
    made = compose(
        "shop",
        "crosscbr",
        preset=str(tmp_path / "mine.toml"),
        changes=parse_changes(["learning_rate=0.25", "augmentation=none"]),
    )
    assert (made.settings["layers"], made.settings["augmentation"]) == (3, "none")
    assert (made.train.rate, made.train.epochs) == (0.25, 7)
    assert made.settings["temperature"] == 0.25
