"""Find a user, a bundle or an item by id or name."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.data.dataset import Nodes


@dataclass(frozen=True)
class Catalogue:
    """The nodes of a kind, to be searched; `sizes` says how much is known of each, and more comes first."""

    nodes: Nodes
    sizes: NDArray[np.int64]

    @cached_property
    def ids(self) -> pl.Series:
        """In small letters."""
        ids = self.nodes.ids or [str(number) for number in range(len(self.nodes))]
        return _folded(ids)

    @cached_property
    def names(self) -> pl.Series | None:
        """In small letters; empty where there is none."""
        return None if self.nodes.names is None else _folded([name or "" for name in self.nodes.names])

    def find(self, text: str, limit: int) -> tuple[NDArray[np.int64], int]:
        """The best `limit` nodes for a text, and how many there are in all.

        First the one with this id, then ids and names that begin with the text, names with a word that begins so, and
        what holds it anywhere; within each those with more edges first.
        """
        wanted = text.strip().casefold()
        merit = np.zeros(len(self.nodes), np.int64)
        if wanted:
            starts, holds = self.ids.str.starts_with(wanted), self.ids.str.contains(wanted, literal=True)
            merit = np.maximum(merit, 1 * holds.to_numpy(), dtype=np.int64)
            merit = np.maximum(merit, 3 * starts.to_numpy())
            if self.names is not None:
                merit = np.maximum(merit, 1 * self.names.str.contains(wanted, literal=True).to_numpy())
                merit = np.maximum(merit, 2 * self.names.str.contains(f" {wanted}", literal=True).to_numpy())
                merit = np.maximum(merit, 3 * self.names.str.starts_with(wanted).to_numpy())
            merit = np.maximum(merit, 4 * (self.ids == wanted).to_numpy())
        found = np.flatnonzero(merit) if wanted else np.arange(len(merit))
        order = np.lexsort((found, -self.sizes[found], -merit[found]))
        return found[order[:limit]], len(found)


def _folded(texts: list[str] | tuple[str, ...]) -> pl.Series:
    return pl.Series([text.casefold() for text in texts], dtype=pl.String)
