"""Tables of vectors after small edits of a graph, of which only the changed rows are computed."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import contains
from clbr.graph.operators import Operator
from clbr.models.layers import unit_rows

Rows = NDArray[np.int64]
NO_ROWS = np.empty(0, np.int64)
ROW_WISE = {torch.add, Tensor.add, torch.mul, Tensor.mul, torch.div, Tensor.div, unit_rows}


class Known:
    """The tables before the edits: the model's parameters, and what was computed from them."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._tables = {id(table): table for table in parameters}
        self._results: dict[tuple[Any, ...], Tensor] = {}

    def __contains__(self, table: Tensor) -> bool:
        return id(table) in self._tables

    def result(self, function: Callable[..., Tensor], *arguments: Any, **options: Any) -> Tensor:
        """`function(*arguments, **options)`, computed once; arguments are tables before the edits, or constants."""
        keys = (id(one) if isinstance(one, Tensor | Operator) else one for one in arguments)
        key = (function, *keys, *options.items())
        if key not in self._results:
            self._results[key] = found = function(*arguments, **options)
            self._tables[id(found)] = found
        return self._results[key]


class ChangedRows:
    """A table of vectors after edits: `before`, but for the rows `at`, which `compute` gives when they are needed."""

    def __init__(self, known: Known, before: Tensor, at: Rows, compute: Callable[[Rows], Tensor]) -> None:
        self.known, self.before, self.at, self.compute = known, before, at, compute

    @cached_property
    def rows(self) -> Tensor:
        """All changed rows."""
        return self.compute(self.at)

    def dense(self) -> Tensor:
        """The table after the edits."""
        if not len(self.at):
            return self.before
        return self.before.index_copy(0, torch.from_numpy(self.at), self.rows)

    def take(self, wanted: Rows) -> Tensor:
        """Some rows after the edits, in ascending order."""
        taken = self.before[torch.from_numpy(wanted)]
        changed = contains(self.at, wanted)
        if changed.any():
            rows = self.rows if changed.sum() == len(self.at) else self.compute(wanted[changed])
            taken[torch.from_numpy(changed)] = rows
        return taken

    def __len__(self) -> int:
        return len(self.before)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dense(), name)

    def __getitem__(self, index: Any) -> Tensor:
        return self.take(np.array([index]))[0] if isinstance(index, int) else self.dense()[index]

    def __add__(self, other: Any) -> Any:
        return torch.add(self, other)  # type: ignore[call-overload]

    def __mul__(self, other: Any) -> Any:
        return torch.mul(self, other)  # type: ignore[arg-type]

    def __truediv__(self, other: Any) -> Any:
        return torch.div(self, other)  # type: ignore[arg-type]

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, arguments: Any = (), options: dict[str, Any] | None = None
    ) -> Any:
        options = options or {}
        tables = [one for one in arguments if isinstance(one, ChangedRows | Tensor)]
        changed = [one for one in tables if isinstance(one, ChangedRows)]
        others = [one for one in tables if isinstance(one, Tensor)]
        if function not in ROW_WISE or not changed or not all(one in changed[0].known for one in others):
            return function(*dense(arguments), **dense(options))
        known, at = changed[0].known, _union([one.at for one in changed])
        before = known.result(function, *(getattr(one, "before", one) for one in arguments), **options)

        def compute(at: Rows) -> Tensor:
            rows = (_rows(one, at) for one in arguments)
            result: Tensor = function(*rows, **options)
            return result

        return ChangedRows(known, before, at, compute)


def _union(sets: list[Rows]) -> Rows:
    """The rows that are in any of the sorted sets."""
    sets = [some for some in sets if len(some)]
    return np.unique(np.concatenate(sets)) if len(sets) > 1 else sets[0] if sets else NO_ROWS


def _rows(argument: Any, at: Rows) -> Any:
    if isinstance(argument, ChangedRows):
        return argument.take(at)
    return argument[torch.from_numpy(at)] if isinstance(argument, Tensor) else argument


def dense(argument: Any) -> Any:
    """The argument of a function with whole tables instead of `ChangedRows`."""
    if isinstance(argument, ChangedRows):
        return argument.dense()
    if isinstance(argument, list | tuple):
        return type(argument)(dense(one) for one in argument)
    return {key: dense(one) for key, one in argument.items()} if isinstance(argument, dict) else argument
