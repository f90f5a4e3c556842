"""Training on several processes, on one machine or many, each with some columns of the vectors (models/columns.py).

Process 0 is the command itself. It alone reads and writes the run folder and prints. The others are copies of the
command: started by it on the same machine, or by torchrun on each machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from clbr.counterfactual.strategy import find_strategy
from clbr.errors import InputError
from clbr.models.base import ModelConfig
from clbr.models.columns import ExchangeError, add_up, cut, exchange
from clbr.models.registry import MODELS, find_model
from clbr.training.config import RunConfig
from clbr.training.runtime import find_device

PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Environment variables that torchrun sets: the process among all, and among those of its machine."""
MEETING = "CLBR_MEETING"
"""Environment variable of a process that another one started: the URL where all of them meet."""
PARENT = "CLBR_PARENT"
"""The same, with the number of the process that started it."""
TIMEOUT = timedelta(minutes=10)
"""Longest wait for another process that is silent. One that ends closes its connections, which is noticed at once."""
ROWS = 1 << 18
"""Rows of a table that are gathered or scattered at once."""

Value = TypeVar("Value")


class Processes:
    """The processes of a training: how many there are, and those that this one has started."""

    def __init__(self, wanted: int | None) -> None:
        self.meeting = os.environ.get(MEETING)
        started = self.meeting or "MASTER_ADDR" in os.environ
        try:
            given = {key: int(value) for key in PLACE if started and (value := os.environ.get(key))}
        except ValueError:
            raise InputError(f"{', '.join(PLACE)} must be whole numbers; torchrun sets them", "processes") from None
        self.size = given.get("WORLD_SIZE", wanted or 1)
        self.rank, self.local_rank = given.get("RANK", 0), given.get("LOCAL_RANK", 0)
        self.local_size = given.get("LOCAL_WORLD_SIZE", self.size)
        if wanted not in (None, self.size):
            message = f"processes {wanted}: torchrun has started {self.size}; leave out the number"
            raise InputError(message, "processes")
        self.starts = self.size > 1 and not given
        self.space: TemporaryDirectory[str] | None = None
        self.parent = int(os.environ.get(PARENT, os.getppid()))  # a parent that has ended already is another one
        self.children: list[subprocess.Popen[bytes]] = []

    @property
    def threads(self) -> int:
        """Threads of each process on this machine, if all share its cores."""
        return max(1, torch.get_num_threads() // self.local_size)

    def start(self) -> None:
        """Start copies of this command as the other processes on this machine. They meet in a temporary folder."""
        self.space = TemporaryDirectory(prefix="clbr-")
        if sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # other machines cannot connect
        self.meeting = f"file://{self.space.name}/meeting"
        command = [sys.executable, "-m", "clbr", *sys.argv[1:]]
        for rank in range(1, self.size):
            place = dict(zip(PLACE, map(str, (rank, self.size, rank, self.size)), strict=True))
            environment = os.environ | place | {MEETING: self.meeting, PARENT: str(os.getpid())}
            # In a session of its own a process does not get the terminal's Ctrl-C: process 0 decides for all.
            self.children.append(subprocess.Popen(command, env=environment, start_new_session=True))

    def connect(self, config: RunConfig, device: str) -> None:
        """Start the other processes, unless torchrun has, connect to them, and cut the columns from here on."""
        if self.size == 1:
            return
        check_cut(config, self.size)
        gpu = find_device(device).type == "cuda"
        if gpu and self.local_size > torch.cuda.device_count():
            message = f"processes {self.local_size}: this machine has {torch.cuda.device_count()} GPUs; use at most one"
            raise InputError(f"{message} process for each, or the device cpu", "processes", "device")
        if self.starts:
            self.start()
        with exchange():
            url = f"{self.meeting}?rank={self.rank}&world_size={self.size}" if self.meeting else "env://"
            store, rank, size = next(rendezvous(url, timeout=TIMEOUT))
            store.add("ready", 1)
            while self.meeting and store.add("ready", 0) < size:
                self._require_running()
                sleep(0.05)
            if gpu:
                torch.cuda.set_device(self.local_rank)
            backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        cut.rank, cut.size = rank, size

    def _require_running(self) -> None:
        orphaned = self.rank and os.getppid() != self.parent
        if orphaned or any(child.poll() is not None for child in self.children):
            raise ExchangeError("before all processes were connected")

    def disconnect(self, together: bool = True) -> None:
        """Close the connections; `together`: when all processes have come here."""
        if cut.size > 1:
            cut.rank, cut.size = 0, 1
            if together:
                dist.barrier()
            dist.destroy_process_group()

    def lost(self, error: ExchangeError) -> ExchangeError:
        """Return the error with the process that ended first, if it is known: another one ends because of it."""
        end = monotonic() + 5
        while self.children and monotonic() < end and all(child.poll() is None for child in self.children):
            sleep(0.05)
        codes = {rank: child.poll() for rank, child in enumerate(self.children, start=1)}
        ended = [(code, rank) for rank, code in codes.items() if code]
        if not ended:
            return ExchangeError(f"another of the {self.size} processes has ended, or cannot be reached ({error})")
        code, rank = min(ended)  # a signal is a negative number
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ExchangeError(f"process {rank} of 0 to {self.size - 1} {how}")

    def end(self, seconds: float) -> None:
        """Wait so long for the processes that this one has started, and then kill those that still run."""
        for child in self.children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
            child.kill()
            child.wait()
        if self.space:
            self.space.cleanup()


@contextmanager
def joined(processes: int | None) -> Iterator[Processes]:
    """Yield the processes of a training, and end those that this one has started. None: as torchrun says, or one.

    All but process 0 print nothing, and end without a message where process 0 has one.
    """
    group = Processes(processes)
    with ExitStack() as stack:
        if group.rank:
            silence = stack.enter_context(Path(os.devnull).open("w"))
            stack.enter_context(redirect_stdout(silence))
            stack.enter_context(redirect_stderr(silence))
        wait = 0.0
        try:
            yield group
            wait = TIMEOUT.total_seconds()
        except InputError:
            # Connected processes, and those of one machine, have the same error: one of them prints it.
            if group.rank and (cut.size > 1 or group.meeting or group.local_rank):
                raise SystemExit(2) from None
            raise
        except ExchangeError as error:
            raise (SystemExit(1) if group.rank else group.lost(error)) from None
        finally:
            with suppress(RuntimeError):
                group.disconnect(together=wait > 0)
            group.end(wait)


def check_cut(config: RunConfig, size: int) -> None:
    """Raise `InputError` unless a run can be cut by columns into so many processes."""
    model, what = find_model(config.model), f"{size} processes"
    if not model.cuts_columns:
        fitting = ", ".join(name for name, kind in MODELS.items() if kind.cuts_columns)
        message = f"{config.model} cannot be trained on {what}: its columns meet in more than inner products"
        raise InputError(f"{message}; use one process, or one of {fitting}", "processes", "model")
    if find_strategy(config.paradigm).config_class is not None:
        message = f"{config.model} with the paradigm {config.paradigm} cannot be trained on {what}"
        raise InputError(f"{message}; use one process, or the paradigm original", "processes", "paradigm")
    settings = model.config_class.make(config.settings, f"settings of {config.model}")
    assert isinstance(settings, ModelConfig)
    if settings.dim % size:
        fitting = ", ".join(str(n) for n in range(1, settings.dim + 1) if settings.dim % n == 0)
        message = f"{config.model} has {settings.dim} columns (dim), which {what} cannot share evenly"
        raise InputError(f"{message}; use a number of processes that divides them: {fitting}", "processes", "set")


def is_first() -> bool:
    """Return whether this is process 0, as every process is that trains alone."""
    return cut.rank == 0


def from_first(value: Value) -> Value:
    """Return the value of process 0, in all processes."""
    if cut.size == 1:
        return value
    values = [value]
    with exchange():
        dist.broadcast_object_list(values, src=0)
    return values[0]


def in_any(flag: bool) -> bool:
    """Return whether the flag is set in any process."""
    return bool(add_up(torch.tensor(float(flag))))


def require_equal(value: str) -> None:
    """Raise an `InputError` in all processes unless the value is the same in all."""
    if in_any(from_first(value) != value):
        raise InputError("the processes have different data or settings; start all with the same command and data")


def all_columns(x: Tensor) -> Iterator[Tensor]:
    """Yield the rows of a tensor block by block, with the columns of all processes, in process 0 and on its CPU."""
    x = x.detach().cpu()
    for part in torch.split(x, ROWS) if x.dim() == 2 else [x]:
        if cut.size == 1 or x.dim() < 2:
            yield part.contiguous()
            continue
        parts = [torch.empty_like(part) for _ in range(cut.size)] if is_first() else None
        with exchange():
            dist.gather(part.contiguous(), parts)
        if parts is not None:
            yield torch.cat(parts, dim=1)


def scatter(part: Tensor | None, own: Tensor) -> None:
    """Fill `own` with this process's columns of a block of rows, which process 0 has; the others give None."""
    if cut.size == 1:
        assert part is not None
        own.copy_(part)
        return
    parts = None if part is None else [columns.contiguous() for columns in part.chunk(cut.size, dim=1)]
    with exchange():
        dist.scatter(own, parts)
