import subprocess
import sys


def test_threads_are_as_many_as_asked_for_from_the_first_call_on() -> None:
    """In a process of its own: numba's threads start once, and starting them sets torch's number anew."""
    script = (
        "import torch; from clbr.train.environment import use_threads; print(use_threads(1), torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"
