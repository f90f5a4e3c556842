"""Weights and optimiser state on disk: safetensors and JSON, whole or not at all, with checksums."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from clbr.errors import InputError
from clbr.files import read_bytes, split_tensors, write_atomic

STATE = "state.json"


def write_model(path: Path, model: torch.nn.Module) -> None:
    """A model's parameters in one file, with their checksum in its header."""
    tensors = _plain(model.state_dict())
    write_atomic(path, save(tensors, {"sha256": sha256(split_tensors(save(tensors))[1]).hexdigest()}))


def read_model(path: Path, model: torch.nn.Module) -> None:
    """Put the parameters of a file into a model of the same shape."""
    content = read_bytes(path)
    try:
        stated, values = split_tensors(content)
        if stated not in (None, sha256(values).hexdigest()):
            raise ValueError("they have another checksum than when they were written")
        model.load_state_dict(load(content))
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
    write_atomic(folder / tensors, content)
    state = counters | {"tensors": tensors, "sha256": sha256(content).hexdigest()}
    write_atomic(folder / STATE, json.dumps(state | {"checksum": _checksum(state)}).encode())
    for old in folder.glob("tensors-*.safetensors"):
        if old.name != tensors:
            old.unlink()


def read_checkpoint(
    folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, settings: str
) -> dict[str, Any]:
    """Restore model and optimiser; gives the counters. Refused if it was not made with these settings."""
    try:
        state: dict[str, Any] = json.loads(read_bytes(folder / STATE))
        if state.pop("checksum", None) != _checksum(state):
            raise ValueError(f"{STATE} has another checksum than when it was written")
        if state["settings"] != settings:
            raise InputError(f"{folder}: is of a run with other settings; put its config.toml back, or train anew")
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


def _checksum(state: dict[str, Any]) -> str:
    return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
