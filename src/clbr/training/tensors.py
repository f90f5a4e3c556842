"""Files of tensors (safetensors), written and read block by block: no process holds the columns of others.

All functions are called in all processes of a training. Process 0 writes and reads; tables are those of all columns.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from hashlib import file_digest, sha256
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from clbr.errors import InputError
from clbr.files import write_atomic
from clbr.models.columns import cut
from clbr.training.distributed import ROWS, all_columns, from_first, is_first, scatter

FLOATS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
WHOLE = {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
DTYPES = FLOATS | WHOLE | {torch.bool: "BOOL"}
"""Names of the kinds of numbers in a file."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: dict[str, str] | None = None) -> str:
    """Write tensors to a file, with `about` in its header; return the file's checksum (in process 0)."""
    checksum = sha256()

    def content() -> Iterator[bytes]:
        yield _header(tensors, about)
        yield from stored_values(tensors)

    def counted() -> Iterator[bytes]:
        for part in content():
            checksum.update(part)
            yield part

    if is_first():
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, counted())
    else:
        for _ in content():
            pass
    return checksum.hexdigest()


def stored_values(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    """Yield what follows the header in a file of these tensors, in parts (in process 0)."""
    for name in _order(tensors):
        for part in all_columns(tensors[name]):
            yield part.view(-1).view(torch.uint8).numpy().tobytes()


def _order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names in the order of safetensors: larger numbers first, which aligns all."""
    return sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))


def _header(tensors: Mapping[str, Tensor], about: dict[str, str] | None) -> bytes:
    header: dict[str, object] = {"__metadata__": about} if about else {}
    end = 0
    for name in _order(tensors):
        x, start = tensors[name], end
        shape = [len(x), x.shape[1] * cut.size] if x.dim() == 2 else list(x.shape)
        end += x.nbytes * (cut.size if x.dim() == 2 else 1)
        header[name] = {"dtype": DTYPES[x.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_tensors(path: Path, checksum: str) -> dict[str, Tensor]:
    """Return the tensors in a file, with this process's columns. Raises `ValueError` if its checksum is another one."""
    with ExitStack() as stack:
        file, shapes = None, dict[str, tuple[list[int], torch.dtype]]()
        if is_first():
            _check_file(path, checksum)
            file = stack.enter_context(safe_open(path, framework="pt"))
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            dtypes = {code: dtype for dtype, code in DTYPES.items()}
            shapes = {name: (part.get_shape(), dtypes[part.get_dtype()]) for name, part in slices.items()}
        tensors = {}
        for name, (shape, dtype) in from_first(shapes).items():
            if len(shape) != 2:
                tensors[name] = from_first(file.get_tensor(name).clone() if file else torch.empty(0))
                continue
            tensors[name] = torch.empty(shape[0], shape[1] // cut.size, dtype=dtype)
            for start in range(0, shape[0], ROWS):
                part = file.get_slice(name)[start : start + ROWS] if file else None
                scatter(part, tensors[name][start : start + ROWS])
        return tensors


def _check_file(path: Path, checksum: str) -> None:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    with path.open("rb") as file:
        if file_digest(file, "sha256").hexdigest() != checksum:
            raise ValueError(f"the checksum of {path.name} has changed since it was written")
