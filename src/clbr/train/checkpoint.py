"""Weights and optimiser state on disk: safetensors and JSON, whole or not at all, with checksums."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from clbr.data.read import read_bytes
from clbr.errors import InputError
from clbr.files import write_whole

STATE = "state.json"


def write_model(path: Path, model: torch.nn.Module) -> None:
    """A model's parameters in one file."""
    write_whole(path, save(_plain(model.state_dict())))


def read_model(path: Path, model: torch.nn.Module) -> None:
    """Put the parameters of a file into a model of the same shape."""
    try:
        model.load_state_dict(load(read_bytes(path)))
    except Exception as error:  # safetensors and torch raise many kinds; all mean the same here
        raise InputError(f"{path}: not the weights of this model ({str(error).splitlines()[0]})") from None


def write_checkpoint(
    folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, counters: dict[str, Any]
) -> None:
    """All that going on needs. The tensors get a name of their own; the state file, written last, points to it."""
    folder.mkdir(exist_ok=True)
    states = optimiser.state_dict()["state"].items()
    moments = {f"{index}.{key}": value for index, state in states for key, value in state.items()}
    content = save(
        {f"model.{k}": v for k, v in _plain(model.state_dict()).items()}
        | {f"optimiser.{k}": v for k, v in _plain(moments).items()}
    )
    tensors = f"tensors-{counters['epoch']}.safetensors"
    write_whole(folder / tensors, content)
    state = counters | {"tensors": tensors, "sha256": sha256(content).hexdigest()}
    write_whole(folder / STATE, json.dumps(state).encode())
    for old in folder.glob("tensors-*.safetensors"):
        if old.name != tensors:
            old.unlink()


def read_checkpoint(folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Restore model and optimiser; gives the counters."""
    try:
        state: dict[str, Any] = json.loads(read_bytes(folder / STATE))
        content = read_bytes(folder / state["tensors"])
        if sha256(content).hexdigest() != state["sha256"]:
            raise ValueError(f"{state['tensors']} has another checksum than when it was written")
        tensors = load(content)
        model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, index, key = name.split(".")
                moments.setdefault(int(index), {})[key] = value
        optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{folder}: the checkpoint is damaged ({str(error).splitlines()[0]}); train anew") from None
    return state


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
