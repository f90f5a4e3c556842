"""Encoding many small edits of one graph: only the rows of the vectors that an edit changes are computed.

The model's own `encode` runs on a graph of `EditedEdges`. Its products give `ChangedRows`: the table before the edits,
computed once for all edits, and the rows after them. Operations that work row by row keep this form; any other gets the
whole table. Each row is computed as in a full encoding, so the vectors are the same, to the bit.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, Relation, contains, decode, encode, positions
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph, Edges, power
from clbr.graph.operators import Matrix, Operator, Pattern
from clbr.inference.changed_rows import NO_ROWS, ChangedRows, Known, Rows, dense
from clbr.inference.cold_start import fill_bundles, user_levels
from clbr.inference.own_vectors import ChoiceLoss, Response, level_scores, moved_users
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings

NO_EDITS, NO_PAIRS = EdgeEdits(), np.empty((0, 2), np.int32)


class EditedMatrix(Operator):
    """A matrix of a graph after edits, of which only the rows that are needed are built."""

    def __init__(
        self, known: Known, before: Matrix, add: Pairs, drop: Pairs, left: Tensor, right: Tensor | None = None
    ) -> None:
        """`before` without the entries `drop` and with `add`, and the factors of rows and columns after that."""
        self.known, self.before, self.add, self.drop, self.shape = known, before, add, drop, before.shape
        self.left, self.right = left, right

    def __matmul__(self, x: Any) -> Any:
        table = x if isinstance(x, Tensor) else x.before
        if table not in self.known:
            return self._rows_of(np.arange(self.shape[0])).apply(x)

        def compute(at: Rows) -> Tensor:
            rows = self._rows_of(at)
            if isinstance(x, Tensor) or not len(x.at):
                return rows.apply(table)
            where = torch.from_numpy(x.at)
            kept = table[where]
            try:  # a copy of the table for each set of edits would take longer than all the rest
                return rows.apply(table.index_copy_(0, where, x.rows))
            finally:
                table.index_copy_(0, where, kept)

        return ChangedRows(self.known, self.known.result(Matrix.apply, self.before, table), self._changed(x), compute)

    @property
    def T(self) -> "EditedMatrix":  # noqa: N802
        """Transpose after the edits."""
        add, drop = (pairs[:, ::-1] for pairs in (self.add, self.drop))
        left = torch.ones(self.shape[1]) if self.right is None else self.right
        return EditedMatrix(self.known, self.before.T, add, drop, left, self.left)

    def _changed(self, x: Any) -> Rows:
        """The rows in which the product with x differs from that before the edits."""
        edited = np.concatenate([self.add, self.drop])
        if not len(edited) and (isinstance(x, Tensor) or not len(x.at)):
            return NO_ROWS
        changed, (transposed, _) = np.zeros(self.shape[0], bool), self.before.pattern.transposed
        changed[edited[:, 0]] = True
        columns = [] if self.right is None else [edited[:, 1]]
        columns += [] if isinstance(x, Tensor) else [x.at]
        for some in columns:
            changed[_entries(transposed, some)[1]] = True
        return np.flatnonzero(changed)

    def _rows_of(self, at: Rows) -> Matrix:
        """Some rows after the edits."""
        width = self.shape[1]
        codes = encode(np.stack(_entries(self.before.pattern, at), 1), width)
        add, drop = (np.sort(encode(_at_rows(pairs, at), width)) for pairs in (self.add, self.drop))
        codes = codes[~contains(drop, codes)]
        pairs = decode(np.insert(codes, np.searchsorted(codes, add), add), width)
        pattern = Pattern.of(pairs, (len(at), width))
        return Matrix(pattern, torch.ones(len(pairs))).scaled(self.left[torch.from_numpy(at)], self.right)


def _entries(pattern: Pattern, rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The entries of some rows of a pattern: which of these rows, and the column."""
    row, at = positions(pattern.pointers, rows)
    return row.astype(np.int32), pattern.columns[at]


def _at_rows(pairs: Pairs, at: Rows) -> Pairs:
    """The pairs whose left node is one of `at`, with its position there instead."""
    pairs = pairs[contains(at, pairs[:, 0].astype(np.int64))]
    return np.stack([np.searchsorted(at, pairs[:, 0]), pairs[:, 1]], 1).astype(np.int32)


class EditedEdges(Edges):
    """Edges of one relation after edits, with matrices that compute changed rows only."""

    def __init__(self, known: Known, before: Edges, relation: Relation, edits: EdgeEdits = NO_EDITS) -> None:
        self.known, self.before, self.relation, self.edits = known, before, relation, edits
        self.shape, self.weights = before.shape, before.weights
        self.add, self.drop = (side.get(relation, NO_PAIRS) for side in (edits.add, edits.drop))

    @cached_property
    def pairs(self) -> Pairs:  # type: ignore[override]
        """All pairs after the edits."""
        return self.edits.apply_to(self.relation, self.before.pairs, self.shape)

    @cached_property
    def pattern(self) -> Pattern:
        """Sparsity pattern after the edits."""
        edited = self.edits.touches(self.relation)
        return Pattern.of(self.pairs, self.shape) if edited else self.before.pattern

    @cached_property
    def left_degrees(self) -> Tensor:
        """Number of edges of each left node."""
        return self._degrees(self.before.left_degrees, 0)

    @cached_property
    def right_degrees(self) -> Tensor:
        """Number of edges of each right node."""
        return self._degrees(self.before.right_degrees, 1)

    def only_connected(self, x: Any) -> Any:
        """Left vectors with those of nodes without edges set to 0."""
        if x not in self.known:
            return super().only_connected(x)
        changed = (self.left_degrees > 0) != (self.before.left_degrees > 0)

        def compute(at: Rows) -> Tensor:
            rows = torch.from_numpy(at)
            kept: Tensor = x[rows] * (self.left_degrees[rows] > 0).to(x)[:, None]
            return kept

        before = self.known.result(self.before.only_connected, x)
        return ChangedRows(self.known, before, np.flatnonzero(changed), compute)

    def _degrees(self, before: Tensor, side: int) -> Tensor:
        added, dropped = (np.bincount(pairs[:, side], minlength=len(before)) for pairs in (self.add, self.drop))
        return before + torch.from_numpy(added - dropped)

    @cached_property
    def mean(self) -> EditedMatrix:  # type: ignore[override]
        """Mean over the neighbours of each left node."""
        return self._matrix(self.before.mean, power(self.left_degrees, -1))

    @cached_property
    def back_mean(self) -> EditedMatrix:  # type: ignore[override]
        """Mean over the neighbours of each right node."""
        return self._matrix(self.before.back_mean, power(self.right_degrees, -1), back=True)

    @cached_property
    def symmetric(self) -> EditedMatrix:  # type: ignore[override]
        """Sum over the neighbours, divided by the square roots of both degrees."""
        return self._matrix(self.before.symmetric, *self._roots)

    @cached_property
    def back_symmetric(self) -> EditedMatrix:  # type: ignore[override]
        """Transpose of `symmetric`."""
        left, right = self._roots
        return self._matrix(self.before.back_symmetric, right, left, back=True)

    @cached_property
    def _roots(self) -> tuple[Tensor, Tensor]:
        return power(self.left_degrees, -0.5), power(self.right_degrees, -0.5)

    def _matrix(self, before: Matrix, left: Tensor, right: Tensor | None = None, back: bool = False) -> EditedMatrix:
        add, drop = (pairs[:, ::-1] if back else pairs for pairs in (self.add, self.drop))
        return EditedMatrix(self.known, before, add, drop, left, right)


class Reencoder:
    """Encodes small edits of a graph: fast from the second on."""

    def __init__(self, model: Encoder, graph: BundleGraph) -> None:
        self.model, self.graph, self.known = model, graph, Known([*model.parameters()])
        self._filled: dict[tuple[int, bytes], Tensor] = {}
        self._responses: dict[int, Response] = {}
        self._unedited = {relation: EditedEdges(self.known, graph.edges(relation), relation) for relation in RELATIONS}

    def encode(self, edits: EdgeEdits) -> tuple[BundleGraph, Embeddings]:
        """The edited graph and the model's vectors on it; the edits must be possible."""
        edited = {
            relation: EditedEdges(self.known, self.graph.edges(relation), relation, edits)
            for relation in RELATIONS
            if edits.touches(relation)
        }
        with torch.no_grad():
            levels = self.model.encode(self.graph.replaced(**{**self._unedited, **edited})).levels
        whole = {name: replace(level, bundles=dense(level.bundles)) for name, level in levels.items()}
        graph = self.graph.replaced(**edited)
        return graph, self.model.calibrated(Embeddings(whole), graph)

    def user_scores(self, edits: EdgeEdits, user: int) -> tuple[BundleGraph, Tensor]:
        """The edited graph and a user's scores of all bundles on it."""
        graph, embeddings = self.encode(edits)
        levels = user_levels(type(self.model), embeddings, graph, user, self._fill)
        own = self.model.own_vectors()
        if own is None or user not in moved_users(self.model, edits, self.graph, graph):
            return graph, level_scores(levels)
        if user not in self._responses:
            _, unedited = self.encode(NO_EDITS)
            before = user_levels(type(self.model), unedited, self.graph, user, self._fill)
            self._responses[user] = Response.of(own.table[user], ChoiceLoss.of(own.levels, before, self.graph, user))
        step = self._responses[user].step(ChoiceLoss.of(own.levels, levels, graph, user))
        moved = {name: (one + step if name in own.levels else one, table) for name, (one, table) in levels.items()}
        return graph, level_scores(moved)

    def _fill(self, vectors: Tensor, warm: Tensor, graph: BundleGraph) -> Tensor:
        """Fill in cold bundles; once only where the edits change neither vectors nor contents."""
        if vectors not in self.known or graph.bi is not self.graph.bi:
            return fill_bundles(vectors, warm, graph)
        key = (id(vectors), warm.numpy().tobytes())
        if key not in self._filled:
            self._filled[key] = fill_bundles(vectors, warm, graph)
        return self._filled[key]
