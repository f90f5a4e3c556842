import os
import signal
import subprocess
import sys
from multiprocessing import get_context

from clbr.train.environment import start_deaf


def test_threads_are_as_many_as_asked_for_from_the_first_call_on() -> None:
    """In a process of its own: numba's threads start once, and starting them sets torch's number anew."""
    script = (
        "import torch; from clbr.train.environment import use_threads; print(use_threads(1), torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_a_deaf_process_does_not_hear_ctrl_c_even_while_it_sets_itself_up() -> None:
    process = get_context("spawn").Process(target=os.getpid)
    start_deaf(process)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)  # it is still importing
    process.join()
    assert process.exitcode == 0
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())  # and its parent hears again
