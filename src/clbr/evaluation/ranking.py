"""Top-k bundles of each user, computed in blocks to bound memory."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, in_order, positions, row_pointers
from clbr.errors import InputError
from clbr.models.base import Scorer

BLOCK_SCORES = 8_000_000
"""Number of scores per block by default: 32 MB, and as much again while the best are found."""


def rank(
    scorer: Scorer,
    users: NDArray[np.int64],
    k: int,
    *,
    exclude: Pairs,
    block: int | None = None,
    on_progress: Callable[[int], None] = lambda users: None,
) -> NDArray[np.int64]:
    """Return the k best bundles of each user (all, if there are fewer), best first: (n, k), -1 where none is left.

    `exclude` holds sorted pairs that are never recommended. Of equal scores the lower bundle index comes first. `block`
    is the number of users per block; it does not change the result. `on_progress(done)` is called after each block.
    """
    users = np.asarray(users, np.int64)
    blocks = list(ranked_blocks(scorer, users, k, exclude=exclude, block=block, on_progress=on_progress))
    return np.concatenate([ranking for ranking, _ in blocks]) if blocks else np.empty((0, k), np.int64)


def ranked_blocks(
    scorer: Scorer,
    users: NDArray[np.int64],
    k: int,
    *,
    exclude: Pairs,
    block: int | None = None,
    on_progress: Callable[[int], None] = lambda users: None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the rankings of `rank` block by block, each with its scores (-inf where no bundle is left)."""
    if k < 1:
        raise InputError(f"k = {k}: expected at least 1", "k")
    if not in_order(exclude[:, 0], exclude[:, 1]):
        raise InputError("the pairs to exclude must be sorted by user, then bundle, without duplicates")
    if not len(users):
        return
    bundles = scorer.scores(torch.from_numpy(users[:1])).shape[1]
    block, k = block or max(1, BLOCK_SCORES // bundles), min(k, bundles)
    rows = int(max(users.max(initial=-1), exclude[:, 0].max(initial=-1))) + 1
    pointers = row_pointers(exclude[:, 0], rows)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        scores = scorer.scores(torch.from_numpy(some)).clone(memory_format=torch.contiguous_format)
        row, at = positions(pointers, some)
        scores[row, exclude[at, 1]] = -torch.inf
        ranking = top(scores, k)
        values = scores.gather(1, ranking.clamp(min=0)).masked_fill(ranking < 0, -torch.inf)
        yield ranking.cpu().numpy(), values.cpu().numpy()
        on_progress(start + len(some))


def top(scores: Tensor, k: int) -> Tensor:
    """Return the columns of the k highest scores of each row, lower columns first among equal scores, -1 for -inf.

    torch.topk alone breaks ties in no fixed order, and a full stable sort is thirty times slower.
    """
    values, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if values.isnan().any():
        raise InputError("the model gives scores that are not numbers (NaN), so bundles cannot be ranked")
    last = values[:, k - 1 : k]  # (n, 1)
    if values.shape[1] > k:
        tied = (values[:, k:] == last).squeeze(1).nonzero().squeeze(1)  # ranks k and k + 1 have equal scores
        values, columns = values[:, :k], columns[:, :k]
        if len(tied):
            columns[tied] = _lowest_of_equal(scores[tied], last[tied], values[tied], columns[tied])
    columns, order = columns.sort(dim=1)
    values = values.gather(1, order)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return columns.gather(1, order).masked_fill(values == -torch.inf, -1)


def _lowest_of_equal(scores: Tensor, last: Tensor, values: Tensor, columns: Tensor) -> Tensor:
    """Fill the ranks of scores equal to `last` with the lowest columns that have this score."""
    above = (values > last).sum(dim=1)  # these ranks are settled
    row, column = (scores == last).nonzero(as_tuple=True)  # ordered by row, then column
    counts = torch.bincount(row, minlength=len(scores))
    position = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    keep = position < (values.shape[1] - above)[row]
    filled = columns.clone()
    filled[row[keep], (above[row] + position)[keep]] = column[keep]
    return filled
