"""Find users, bundles and items by id or name, and show what is known of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import whole_number
from clbr.data.dataset import Nodes
from clbr.data.describe import SEGMENTS, Segment, segment_users
from clbr.data.pairs import KINDS, Kind, neighbours
from clbr.errors import InputError
from clbr.inference.answers import Answer, Node
from clbr.inference.artifact import Artifact

LISTED = 100
"""Bundles that hold an item, listed at most."""


class FoundNode(Node):
    """A node that a search found."""

    size: int = Field(description="a user's choices, a bundle's items, or the bundles that hold an item")


class SearchResults(Answer):
    """The nodes that match a text, best first."""

    kind: Kind
    text: str
    total: int = Field(description="all matches, listed or not")
    found: list[FoundNode]


class FoundNodes(Answer):
    """The nodes of several kinds that match a text."""

    text: str
    results: list[SearchResults]

    def to_frame(self) -> Any:
        """Columns: kind, id (text, unless all these ids are whole numbers), name, size."""
        rows = [(results.kind, node) for results in self.results for node in results.found]
        integer = self._integer_ids.issuperset(results.kind for results in self.results)
        columns: dict[str, list[Any]] = {
            "kind": [kind for kind, _ in rows],
            "id": [int(node.id) if integer else node.id for _, node in rows],
            "name": [node.name for _, node in rows],
            "size": [node.size for _, node in rows],
        }
        if not any(columns["name"]):
            del columns["name"]
        return self._frame(columns)


class UserDetails(Node):
    """A user and their history."""

    segment: Segment
    bundles: list[Node]
    items: list[Node]


class BundleDetails(Node):
    """A bundle and its contents."""

    chosen_by: int = Field(description="training users")
    items: list[Node]


class BundlePreview(Node):
    """A bundle and the first of its items."""

    size: int = Field(description="all items")
    items: list[Node]


class Previews(Answer):
    """What is in some bundles, in the order of the request."""

    bundles: list[BundlePreview]


class ItemDetails(Node):
    """An item and its use."""

    bundles: int = Field(description="bundles that hold it")
    users: int = Field(description="users who have it")
    held_by: list[Node] = Field(description=f"at most {LISTED} of these bundles, the most chosen first")


@dataclass(frozen=True)
class Catalogue:
    """The searchable nodes of a kind; of equal matches the node with the larger size comes first."""

    nodes: Nodes
    sizes: NDArray[np.int64]

    @cached_property
    def ids(self) -> pl.Series:
        """The ids, case-folded."""
        return _folded(self.nodes.ids or [str(index) for index in range(len(self.nodes))])

    @cached_property
    def names(self) -> pl.Series | None:
        """The names, case-folded; empty where a node has none."""
        return None if self.nodes.names is None else _folded([name or "" for name in self.nodes.names])

    def find(self, text: str, limit: int) -> tuple[NDArray[np.int64], int]:
        """The best `limit` nodes for a text, and the number of all matches.

        In this order: the exact id; ids and names that begin with the text; names with a word that begins with it; ids
        and names that contain it. Without a text all nodes match.
        """
        wanted = text.strip().casefold()
        match = np.zeros(len(self.nodes), np.int64)
        if wanted:
            match = np.maximum(match, 1 * self.ids.str.contains(wanted, literal=True).to_numpy(), dtype=np.int64)
            match = np.maximum(match, 3 * self.ids.str.starts_with(wanted).to_numpy())
            if self.names is not None:
                match = np.maximum(match, 1 * self.names.str.contains(wanted, literal=True).to_numpy())
                match = np.maximum(match, 2 * self.names.str.contains(f" {wanted}", literal=True).to_numpy())
                match = np.maximum(match, 3 * self.names.str.starts_with(wanted).to_numpy())
            match = np.maximum(match, 4 * (self.ids == wanted).to_numpy())
        found = np.flatnonzero(match) if wanted else np.arange(len(match))
        order = np.lexsort((found, -self.sizes[found], -match[found]))
        return found[order[:limit]], len(found)


class Directory:
    """What can be looked up in an artifact: nodes by text, and the details of a node."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact, graph = artifact, artifact.graph
        chosen, has = graph.ub.left_degrees[:-1].numpy(), graph.ui.left_degrees[:-1].numpy()
        self.bundle_users = graph.ub.right_degrees.numpy().astype(np.int64)
        self.item_users = graph.ui.right_degrees.numpy().astype(np.int64)
        self.segments = segment_users(graph.ub.pairs, artifact.about.users)
        self.catalogues: dict[Kind, Catalogue] = {
            "user": Catalogue(artifact.users, (chosen + has).astype(np.int64)),
            "bundle": Catalogue(artifact.bundles, graph.bi.left_degrees[:-1].numpy().astype(np.int64)),
            "item": Catalogue(artifact.items, graph.bi.right_degrees.numpy().astype(np.int64)),
        }

    def find(self, kind: Kind, text: str = "", limit: int = 10) -> SearchResults:
        """The nodes of a kind that match a text."""
        if kind not in self.catalogues:
            raise InputError(f"kind = {kind!r}: expected user, bundle or item", "kind")
        catalogue, limit = self.catalogues[kind], whole_number(limit, "limit")
        indices, total = catalogue.find(text, limit)
        found = [
            FoundNode(**self.artifact.node(kind, index).model_dump(), size=int(catalogue.sizes[index]))
            for index in indices.tolist()
        ]
        return SearchResults(kind=kind, text=text, total=total, found=found)

    def find_all(self, text: str, kind: Kind | None = None, limit: int = 10) -> FoundNodes:
        """The nodes of all kinds, or of one, that match a text; at most `limit` of each."""
        kinds = KINDS if kind is None else (kind,)
        return FoundNodes(text=text, results=[self.find(one, text, limit) for one in kinds])

    def user(self, id: str | int) -> UserDetails:
        """A user and their history."""
        artifact, index = self.artifact, self.artifact.users.index(id)
        return UserDetails(
            **artifact.node("user", index).model_dump(),
            segment=SEGMENTS[self.segments[index]],
            bundles=[artifact.node("bundle", int(one)) for one in neighbours(artifact.graph.ub.pairs, index)],
            items=[artifact.node("item", int(one)) for one in neighbours(artifact.graph.ui.pairs, index)],
        )

    def bundle(self, id: str | int) -> BundleDetails:
        """A bundle and its contents."""
        artifact, index = self.artifact, self.artifact.bundles.index(id)
        return BundleDetails(
            **artifact.node("bundle", index).model_dump(),
            chosen_by=int(self.bundle_users[index]),
            items=[artifact.node("item", int(one)) for one in neighbours(artifact.graph.bi.pairs, index)],
        )

    def previews(self, bundles: Sequence[str | int], items: int = 3) -> Previews:
        """The first items of some bundles."""
        artifact, pairs = self.artifact, self.artifact.graph.bi.pairs
        found = []
        for index in (artifact.bundles.index(bundle) for bundle in bundles):
            inside = neighbours(pairs, index)
            named = [artifact.node("item", int(item)) for item in inside[:items]]
            found.append(BundlePreview(**artifact.node("bundle", index).model_dump(), size=len(inside), items=named))
        return Previews(bundles=found)

    def item(self, id: str | int) -> ItemDetails:
        """An item and its use."""
        artifact, index = self.artifact, self.artifact.items.index(id)
        pairs = artifact.graph.bi.pairs
        bundles = pairs[pairs[:, 1] == index, 0]
        listed = bundles[np.argsort(-self.bundle_users[bundles], kind="stable")][:LISTED]
        return ItemDetails(
            **artifact.node("item", index).model_dump(),
            bundles=len(bundles),
            users=int(self.item_users[index]),
            held_by=[artifact.node("bundle", int(one)) for one in listed],
        )


def _folded(texts: list[str] | tuple[str, ...]) -> pl.Series:
    return pl.Series([text.casefold() for text in texts], dtype=pl.String)
