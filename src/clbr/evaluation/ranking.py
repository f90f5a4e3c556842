"""The best bundles of each user, in blocks of bounded memory."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, in_order, row_pointers
from clbr.errors import InputError
from clbr.models.base import Recommender

BLOCK_SCORES = 8_000_000
"""Scores held at once unless told otherwise: 32 MB, and as much again while they are compared."""


def rank(
    recommender: Recommender,
    users: NDArray[np.int64],
    k: int,
    *,
    exclude: Pairs,
    block: int | None = None,
    progress: Callable[[int], None] = lambda users: None,
) -> NDArray[np.int64]:
    """For each user her k best bundles (all, if there are fewer), best first: (n, k), -1 where none is left.

    `exclude` holds the sorted pairs that are not to be recommended. Of equal scores the lower bundle id
    comes first, whatever the block (the number of users at a time). `progress` hears how many are done.
    """
    if k < 1:
        raise InputError(f"top {k}: expected at least 1")
    if not in_order(exclude[:, 0], exclude[:, 1]):
        raise InputError("the pairs to exclude must be sorted, each there once")
    users = np.asarray(users, np.int64)
    if not len(users):
        return np.empty((0, k), np.int64)
    bundles = recommender.scores(torch.from_numpy(users[:1])).shape[1]
    block, k = block or max(1, BLOCK_SCORES // bundles), min(k, bundles)
    rows = int(max(users.max(initial=-1), exclude[:, 0].max(initial=-1))) + 1
    pointers = row_pointers(exclude[:, 0], rows)
    ranking = np.empty((len(users), k), np.int64)
    for start in range(0, len(users), block):
        ids = users[start : start + block]
        scores = recommender.scores(torch.from_numpy(ids)).clone(memory_format=torch.contiguous_format)
        row, column = _excluded(ids, pointers, exclude)
        scores[row, column] = -torch.inf
        ranking[start : start + len(ids)] = top(scores, k).cpu().numpy()
        progress(start + len(ids))
    return ranking


def top(scores: Tensor, k: int) -> Tensor:
    """The columns of each row's k highest scores, equal ones by lower column, -1 in place of -inf.

    torch.topk alone breaks ties by chance; a full stable sort is thirty times slower.
    """
    values, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if values.isnan().any():
        raise InputError("the model gives scores that are not numbers (NaN); nothing can be ranked by them")
    last = values[:, k - 1 : k]  # (n, 1)
    if values.shape[1] > k:
        tied = (values[:, k:] == last).squeeze(1).nonzero().squeeze(1)  # the cut goes through equal scores
        values, columns = values[:, :k], columns[:, :k]
        if len(tied):
            columns[tied] = _lowest_of_equal(scores[tied], last[tied], values[tied], columns[tied])
    columns, order = columns.sort(dim=1)
    values = values.gather(1, order)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return columns.gather(1, order).masked_fill(values == -torch.inf, -1)


def _lowest_of_equal(scores: Tensor, last: Tensor, values: Tensor, columns: Tensor) -> Tensor:
    """Fill the places that go to scores equal to `last` with the lowest columns that have it."""
    above = (values > last).sum(dim=1)  # these places are certain
    row, column = (scores == last).nonzero(as_tuple=True)  # ordered by row, then column
    counts = torch.bincount(row, minlength=len(scores))
    turn = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    keep = turn < (values.shape[1] - above)[row]
    filled = columns.clone()
    filled[row[keep], (above[row] + turn)[keep]] = column[keep]
    return filled


def _excluded(
    users: NDArray[np.int64], pointers: NDArray[np.int64], exclude: Pairs
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Where in a block of scores the excluded pairs stand."""
    lengths = pointers[users + 1] - pointers[users]
    row = np.repeat(np.arange(len(users)), lengths)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return row, exclude[pointers[users][row] + offset, 1]
