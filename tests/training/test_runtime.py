import subprocess
import sys
from pathlib import Path


def test_threads_are_as_many_as_asked_for_from_the_first_call_on() -> None:
    """In a process of its own: numba's threads start once, and starting them sets torch's number anew."""
    script = (
        "import torch; from clbr.train.environment import use_threads; print(use_threads(1), torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_a_deaf_process_does_not_hear_ctrl_c_even_while_it_sets_itself_up(tmp_path: Path) -> None:
    """In a process of its own: the first process that one starts is started in another manner than those after it."""
    script = tmp_path / "start.py"
    script.write_text(
        "import os, signal\n"
        "from multiprocessing import get_context\n"
        "from clbr.train.environment import start_deaf\n"
        "if __name__ == '__main__':\n"
        "    process = get_context('spawn').Process(target=os.getpid)\n"
        "    start_deaf(process)\n"
        "    os.kill(process.pid, signal.SIGINT)  # it is still importing\n"
        "    process.join()\n"
        "    hears = signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "    print(process.exitcode, hears)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"
