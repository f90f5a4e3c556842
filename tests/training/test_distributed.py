"""Several processes that hold columns of the vectors train what one process trains, and are lost and resumed as one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors

from clbr import InputError, World, save
from clbr.models.columns import Cut, add_up, cut, own_columns
from clbr.models.layers import add_noise, dropout
from clbr.rng import torch_generator
from clbr.training import run as runs
from clbr.training.config import compose
from clbr.training.distributed import MEETING, PLACE, Processes, check_cut
from clbr.training.tensors import read_tensors, write_tensors
from column_worker import config, stop_after_one_epoch, train_case
from conftest import ROOT
from typed import Run

CASES: list[tuple[str, dict[str, Any]]] = [
    ("bprmf", {"init": "normal", "weight_decay": 0.001}),
    ("lightgcn", {"objective": "slk", "clip": 0.01}),
    ("crosscbr", {"augmentation": "messages", "layers": 2}),
    ("multicbr", {}),
    ("trilevel", {"compared_bundles": 20, "calibrate_cold": True, "contrasted_nodes": 50}),
]
RUN = ("trilevel", {"epochs": 2, "calibrate_cold": True})
"""A run that is stopped after its first epoch and resumed with another number of processes."""


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    """A folder with the data, a run that one process has begun, and what 2 and 3 processes made of the cases."""
    space = tmp_path_factory.mktemp("processes")
    shop = save(tiny.dataset, space / "shop")
    runs.start(space / "one-first", config(shop, *RUN), tiny.dataset, stop_after_one_epoch())
    for size, run in ((2, RUN), (3, None)):
        (space / "cases.json").write_text(json.dumps({"alone": CASES, "run": run}))
        start_workers(space, size)
    return space


def start_workers(space: Path, size: int) -> None:
    processes = []
    for rank in range(size):
        place = dict(zip(PLACE, map(str, (rank, size, rank, size)), strict=True))
        environment = os.environ | place | {MEETING: f"file://{space}/meeting-{size}", "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, str(ROOT / "tests" / "column_worker.py"), str(space)]
        processes.append(subprocess.Popen(command, env=environment))
    assert [process.wait(300) for process in processes] == [0] * size


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("number", range(len(CASES)), ids=[model for model, _ in CASES])
def test_several_processes_train_what_one_trains(
    space: Path, tmp_path: Path, tiny: World, number: int, size: int
) -> None:
    """With dropout on messages, noise, a sample of the bundles, weights of the top K, calibration, decay and clipping."""
    alone = train_case(tiny.dataset, config(space / "shop", *CASES[number]), tmp_path / "alone")
    together = json.loads((space / f"{size}.json").read_text())[number]
    for part in ("losses", "validation"):
        assert together[part] == pytest.approx(alone[part], abs=1e-5)
    weights = load_file(space / f"{size}-{number}.safetensors")
    for name, expected in load_file(tmp_path / "alone").items():
        torch.testing.assert_close(weights[name], expected, rtol=0, atol=1e-5)


def test_only_scores_are_added_up_for_a_model_without_a_graph(space: Path, tiny: World) -> None:
    """BPRMF: for each pair the scores of a positive and of a negative; then validation, after one user's scores."""
    data = tiny.dataset
    users = len(set(data.validation[:, 0].tolist()))
    expected = 4 * (2 * len(data.train) + (users + 1) * len(data.bundles))
    assert [json.loads((space / f"{size}.json").read_text())[0]["added"] for size in (2, 3)] == [expected] * 2


@pytest.mark.parametrize("folder", ["many-first", "one-first"])
def test_a_run_resumes_with_another_number_of_processes(space: Path, tmp_path: Path, tiny: World, folder: str) -> None:
    """many-first: one epoch with 2 processes, then one with 1 here. one-first: the reverse."""
    runs.start(tmp_path / "alone", config(space / "shop", *RUN), tiny.dataset)
    assert runs.resume(space / folder).epoch == 2
    lines, expected = (
        [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (space / folder, tmp_path / "alone")
    )
    for line, other in zip(lines, expected, strict=True):
        assert line["losses"] == pytest.approx(other["losses"], abs=1e-5)
        assert line["validation"] == pytest.approx(other["validation"], abs=1e-5)
    ours, theirs = (load_file(path / "last" / "tensors-2.safetensors") for path in (space / folder, tmp_path / "alone"))
    for name, tensor in theirs.items():  # weights, moments and counters of steps
        torch.testing.assert_close(ours[name], tensor, rtol=0, atol=1e-5)


def test_with_one_process_nothing_is_copied_or_added() -> None:
    x = torch.ones(2, 3)
    assert add_up(x) is x
    assert own_columns(x) is x


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_each_process_draws_the_noise_of_its_own_columns(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    x = torch.arange(60.0).view(5, 12) - 30

    def draw() -> torch.Tensor:
        return dropout(x.chunk(cut.size, dim=1)[cut.rank], 0.5, torch_generator(0, "noise"))

    whole, pieces = draw(), []
    for rank in range(parts):
        monkeypatch.setattr("clbr.models.layers.cut", place := Cut(rank, parts))
        monkeypatch.setitem(globals(), "cut", place)
        pieces.append(draw())
    assert torch.equal(torch.cat(pieces, dim=1), whole)
    assert (whole == 0).any()
    assert add_noise(x, 0.0, torch_generator(0, "noise")) is x


def test_files_are_those_of_safetensors_and_read_again(tmp_path: Path) -> None:
    tensors = {"b": torch.rand(3, 4), "a": torch.tensor(7.0), "c": torch.arange(5), "empty": torch.empty(0, 4)}
    tensors |= {"d": torch.tensor([True, False]), "e": torch.ones(2, 2, dtype=torch.bfloat16)}
    checksum = write_tensors(tmp_path / "file", tensors, {"sha256": "abc"})
    assert (tmp_path / "file").read_bytes() == save_tensors(tensors, {"sha256": "abc"})
    found = read_tensors(tmp_path / "file", checksum)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    with pytest.raises(ValueError, match="checksum of file has changed"):
        read_tensors(tmp_path / "file", "other")


def test_what_cannot_be_cut_is_an_error_that_says_what_to_do() -> None:
    for settings, processes, message in (
        (compose("", "bgcn"), 2, "bgcn cannot be trained on 2 processes.*use one process, or one of bprmf, lightgcn"),
        (compose("", "crosscbr", paradigm="clbr"), 2, "crosscbr with the paradigm clbr cannot be trained on 2"),
        (compose("", "trilevel"), 3, r"trilevel has 64 columns \(dim\).*3 processes.*: 1, 2, 4, 8, 16, 32, 64$"),
        (compose("", "trilevel", changes={"dim": 4}), 8, r"4 columns \(dim\).*: 1, 2, 4$"),
        (compose("", "ease"), 2, "ease cannot be trained on 2 processes"),
    ):
        with pytest.raises(InputError, match=message) as error:
            check_cut(settings, processes)
        assert error.value.arguments[0] == "processes"


def test_a_wrong_number_of_processes_leaves_no_folder_and_no_process(run: Run, tmp_path: Path, tiny: World) -> None:
    save(tiny.dataset, tmp_path / "shop")
    code, _, err = run("train", "shop", "--model", "bprmf", "--processes", 7, "--out", "out")
    assert (code, err.count("error:"), "(--processes, --set)" in err) == (2, 1, True)
    assert not (tmp_path / "out").exists()
    assert not children_of(os.getpid(), "clbr train")


def test_a_number_that_torchrun_did_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert Processes(None).size == 1  # not by torchrun: the address to meet at is missing
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert Processes(None).size == 4
    with pytest.raises(InputError, match="torchrun has started 4"):
        Processes(2)


def children_of(process: int, command: str) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process), "-f", command], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def command(*words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "clbr", "train", *map(str, words), "--threads", "1"],
        env=os.environ | {"CLBR_CHECKPOINT_SECONDS": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_epochs(process: "subprocess.Popen[str]", folder: Path, epochs: int) -> None:
    metrics = folder / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < epochs:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def begin(space: Path, folder: Path, processes: int) -> "subprocess.Popen[str]":
    """Start a long run, and wait until two epochs are done."""
    words = (space / "shop", "--model", "bprmf", "--set", "dim=6", "--epochs", 5000, "--set", "patience=5000")
    process = command(*words, "--processes", processes, "--out", folder)
    wait_for_epochs(process, folder, 2)
    return process


def kill_one_of(process: "subprocess.Popen[str]", folder: Path, processes: int) -> None:
    """Kill the last process with SIGKILL: the others end with one message, which says how to resume."""
    children = children_of(process.pid, "clbr train")
    assert len(children) == processes - 1
    os.kill(children[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    lost = f"process {processes - 1} of 0 to {processes - 1} was killed by signal 9"
    lines = [line for line in err.splitlines() if " step " not in line and " per epoch" not in line]  # progress
    assert lines == [f"error: {lost}; resume: clbr train --resume {folder} --processes {processes}"]
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_killed_process_ends_the_others_and_the_run_resumes(space: Path, tmp_path: Path) -> None:
    kill_one_of(begin(space, tmp_path / "run", 2), tmp_path / "run", 2)
    assert (
        runs.resume(tmp_path / "run", stop_after_one_epoch()).epoch >= 2
    )  # with one process; an epoch is logged before it is saved


@pytest.mark.slow
def test_a_run_that_was_killed_resumes_with_fewer_processes_and_stops_with_an_interrupt(
    space: Path, tmp_path: Path
) -> None:
    kill_one_of(begin(space, tmp_path / "run", 3), tmp_path / "run", 3)
    done = (tmp_path / "run" / "metrics.jsonl").read_bytes().count(b"\n")
    process = command("--resume", tmp_path / "run", "--processes", 2)
    wait_for_epochs(process, tmp_path / "run", done + 2)
    (other,) = children_of(process.pid, "clbr train")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.endswith(f"resume: clbr train --resume {tmp_path / 'run'} --processes 2\n")
    assert not Path(f"/proc/{other}").exists()


@pytest.mark.slow
def test_torchrun_starts_the_same_training(space: Path, tmp_path: Path) -> None:
    words = ["--standalone", "--nproc-per-node", "2", "-m", "clbr", "train", str(space / "shop"), "--model", "bprmf"]
    for launcher, name in (
        ([sys.executable, "-m", "torch.distributed.run", *words], "two"),
        ([sys.executable, *words[3:]], "one"),
    ):
        done = subprocess.run(
            [*launcher, "--epochs", "1", "--threads", "1", "--out", str(tmp_path / name)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("best recall@20") == 1
    ours, theirs = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("two", "one"))
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_under_torchrun_one_process_prints_an_input_error(tmp_path: Path) -> None:
    words = ["--standalone", "--nproc-per-node", "2", "-m", "clbr", "train", str(tmp_path / "nowhere")]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode
    assert done.stderr.count("error: ") == 1, done.stderr
