"""Frames of pandas and polars (through narwhals): data sets from them, ids in them, results as frames."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any, cast, get_args

import narwhals as nw
import numpy as np
import polars as pl
from narwhals.exceptions import NarwhalsError
from narwhals.typing import IntoDataFrame

from clbr.config import nearest
from clbr.data.checks import check, measure_held_out, warn
from clbr.data.columns import Table, check_columns
from clbr.data.dataset import Backend, BundleDataset
from clbr.data.numbering import build_dataset
from clbr.data.pairs import Kind
from clbr.data.split import Method, SplitConfig
from clbr.errors import InputError

Names = IntoDataFrame | Mapping[str, str | None] | Mapping[int, str | None]
"""Names of nodes: a frame of ids and names, or a mapping from id to name."""


def dataset_from_frames(
    user_bundle: IntoDataFrame,
    user_item: IntoDataFrame,
    bundle_item: IntoDataFrame,
    *,
    names: Mapping[Kind, Names | None],
    columns: Mapping[str, str],
    split: Method | SplitConfig,
    validation: float | IntoDataFrame,
    test: float | IntoDataFrame,
    seed: int,
    hide_held_out_items: bool,
    name: str,
) -> BundleDataset:
    """See `BundleDataset.from_frames`."""
    check_columns(columns)
    frames: dict[str, Any] = {"user_bundle": user_bundle, "user_item": user_item, "bundle_item": bundle_item}
    settings = None
    if isinstance(validation, Real) and isinstance(test, Real):
        settings = _split_config(split, float(validation), float(test), seed)
    elif isinstance(validation, Real) or isinstance(test, Real):
        raise InputError(
            "validation and test: one is a share, one a frame; give two shares or two frames", "validation", "test"
        )
    elif not isinstance(split, str) or split not in ("random", "given"):
        raise InputError("validation and test are frames, so the split is given; leave split out", "split")
    else:
        frames |= {"validation": validation, "test": test}
    tables = {key: frame_table(key, frame, columns) for key, frame in frames.items()}
    tables |= {f"{k}_names": names_table(k, given, columns) for k, given in names.items() if given is not None}
    backend: Backend = "pandas" if tables["user_bundle"].frame.implementation.is_pandas() else "polars"
    built = build_dataset(tables, settings, name, backend, hide_held_out_items)
    warn((*check(built.dataset, measure_held_out(built.dataset)), *built.findings), stacklevel=3)
    return built.dataset


def _split_config(split: str | SplitConfig, validation: float, test: float, seed: int) -> SplitConfig:
    if not isinstance(split, SplitConfig):
        return SplitConfig.make({"method": split, "validation": validation, "test": test, "seed": seed}, "split")
    if (validation, test, seed) != (0.1, 0.2, 0):
        raise InputError("split is a SplitConfig, which holds the shares and the seed; leave the others out", "split")
    return split


def frame_table(name: str, frame: Any, columns: Mapping[str, str]) -> Table:
    """A native frame as a table; what is no frame, or has no rows, raises an `InputError`."""
    expected = "expected a pandas or polars DataFrame"
    if isinstance(frame, str | Path):
        raise InputError(f"{name}: is a path, {expected}; import_tables reads files")
    try:
        wrapped: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
    except TypeError:
        found = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}".removeprefix("builtins ")
        remedy = "; call collect() first" if type(frame).__name__ == "LazyFrame" else ""
        raise InputError(f"{name}: is a {found}, {expected}{remedy}") from None
    except NarwhalsError as error:
        raise InputError(f"{name}: {' '.join(str(error).split())}") from None
    if not len(wrapped):
        raise InputError(f"{name}: has no rows, expected at least one")
    return Table(name, name, "frame", wrapped, columns)


def names_table(kind: Kind, given: Names, columns: Mapping[str, str]) -> Table:
    """Names of nodes as a table."""
    if isinstance(given, Mapping):
        return frame_table(f"{kind}_names", _names_frame(kind, given), {})
    return frame_table(f"{kind}_names", given, columns)


def _names_frame(kind: Kind, names: Mapping[Any, str | None]) -> pl.DataFrame:
    """A mapping from id to name as a frame."""
    for id, name in names.items():
        if not (name is None or isinstance(name, str)):
            raise InputError(f"{kind}_names: the name of {kind} '{id}' is {name!r}, expected text")
    ids = read_ids(names, f"{kind}_names")
    return pl.DataFrame({kind: ids, "name": list(names.values())}, schema={kind: pl.String, "name": pl.String})


def read_ids(given: object, argument: str) -> list[str]:
    """Ids that a user gave as `argument` (one id, or a list, an array or a Series of them), as texts.

    Texts and whole numbers are ids, 17.0 counts as 17; anything else raises an `InputError` with its position.
    """
    if isinstance(given, str | float | int | np.number):
        return [_read_id(given, argument)]
    if not isinstance(given, Iterable) or isinstance(given, bytes) or hasattr(given, "columns"):
        raise InputError(f"{argument}: is a {type(given).__name__}, expected one id or a list of ids", argument)
    return [_read_id(value, f"{argument}, position {position}") for position, value in enumerate(given)]


def read_one_id(given: object, argument: str) -> str:
    """One id as a text."""
    ids = read_ids(given, argument)
    if len(ids) != 1:
        raise InputError(f"{argument}: expected one id, found {len(ids)}", argument)
    return ids[0]


def _read_id(value: object, place: str) -> str:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    raise InputError(f"{place}: {value!r} is no id, expected text or a whole number")


def read_pairs(given: object, argument: str) -> list[tuple[str, str]]:
    """Pairs of ids that a user gave as `argument` (a list, an array), as texts."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or hasattr(given, "columns"):
        raise InputError(f"{argument}: found {given!r:.40}, expected a list of pairs of ids", argument)
    pairs = []
    for pair in given:
        if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(ids := list(pair)) != 2:
            raise InputError(f"{argument}: found {pair!r:.40}, expected a pair of ids", argument)
        one, other = (_read_id(id, argument) for id in ids)
        pairs.append((one, other))
    return pairs


def make_frame(columns: Mapping[str, Sequence[Any]], backend: str) -> Any:
    """A native frame of these columns; `backend` is "polars" or "pandas"."""
    try:
        namespace = import_module(check_backend(backend))
    except ModuleNotFoundError:
        raise InputError(f"{backend} is not installed; install it, or choose another backend", "backend") from None
    return nw.from_dict(dict(columns), backend=namespace).to_native()


def check_backend(backend: str) -> Backend:
    """The name of a kind of frame; an unknown one raises an `InputError`."""
    if backend not in get_args(Backend):
        raise InputError(f"unknown backend '{backend}', {nearest(str(backend), list(get_args(Backend)))}", "backend")
    return cast(Backend, backend)
