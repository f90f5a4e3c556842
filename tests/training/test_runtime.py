import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from clbr import InputError, World
from clbr.training import runtime
from clbr.training.runtime import find_device, interruptible


def test_threads_are_as_many_as_asked_for_from_the_first_call_on() -> None:
    """In a process of its own: numba's threads start once, and starting them changes torch's number."""
    script = (
        "import torch; from clbr.training.runtime import use_threads; print(use_threads(1), torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_the_first_ctrl_c_asks_to_stop_and_the_second_interrupts() -> None:
    before, printed = signal.getsignal(signal.SIGINT), list[str]()
    with interruptible("saving", printed.append) as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        assert printed == ["\nsaving (press Ctrl-C again to stop at once)"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_nothing_is_interruptible_and_nothing_fails() -> None:
    answers: list[bool] = []

    def work() -> None:
        with interruptible("saving") as should_stop:
            answers.append(should_stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]


def test_auto_is_a_gpu_only_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert find_device("auto").type == expected
        assert find_device("cpu").type == "cpu"
    with pytest.raises(InputError, match="device 'cuda': torch finds no GPU here; use auto or cpu"):
        find_device("cuda")


def test_the_revision_says_whether_the_code_was_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: World
) -> None:
    code = tmp_path / "src" / "clbr" / "training" / "runtime.py"
    code.parent.mkdir(parents=True)
    code.write_text("a = 1\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "One"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(runtime, "__file__", str(code))

    def revision() -> str:
        return str(runtime.describe_environment(tiny.dataset, torch.device("cpu"))["revision"])

    (tmp_path / "result.json").write_text("{}")  # not code
    assert revision() == head
    code.write_text("a = 2\n")
    assert revision() == f"{head}+changes"
