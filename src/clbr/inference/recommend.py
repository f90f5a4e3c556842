"""Recommendations of an artifact: for a user, for someone never seen, for everyone."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.ranking import rank, top
from clbr.files import write_atomic
from clbr.inference.artifact import Artifact
from clbr.models.base import Recommender

POOL = 5
"""Diversity chooses among so many times as many bundles as are wanted."""


@dataclass(frozen=True)
class Place:
    """A bundle at its place in a list."""

    bundle: int
    score: float


def recommend(
    artifact: Artifact,
    user: int,
    k: int = 20,
    *,
    keep_chosen: bool = False,
    allow: Collection[int] | None = None,
    deny: Collection[int] = (),
    diversity: float = 0.0,
) -> list[Place]:
    """A user's k best bundles, best first; fewer, if fewer are left.

    What she has chosen is left out unless `keep_chosen`. Only bundles of `allow` are listed, if it is given, and none
    of `deny`. `diversity` from 0 to 1 trades score for bundles that share less of their contents with those above them.
    """
    if not 0 <= user < artifact.about.users:
        raise InputError(f"user {user}: expected a number from 0 to {artifact.about.users - 1}")
    scores = artifact.recommender.scores(torch.tensor([user]))[0]
    chosen = () if keep_chosen else chosen_by(artifact, user)
    return best(artifact, scores, k, chosen=chosen, allow=allow, deny=deny, diversity=diversity)


def best(
    artifact: Artifact,
    scores: Tensor,
    k: int,
    *,
    chosen: Collection[int] = (),
    allow: Collection[int] | None = None,
    deny: Collection[int] = (),
    diversity: float = 0.0,
) -> list[Place]:
    """The k best bundles by (bundles,) scores."""
    require_k(artifact, k)
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity {diversity}: expected a number from 0 (by score alone) to 1")
    scores = scores.clone()
    scores[[artifact.unseen_bundle, *chosen, *deny]] = -torch.inf
    if allow is not None:
        others = torch.ones(len(scores), dtype=torch.bool)
        others[list(allow)] = False
        scores[others] = -torch.inf
    wanted = k if not diversity else min(POOL * k, artifact.about.bundles)
    found = top(scores[None], wanted)[0]
    found = found[found >= 0]
    if diversity and len(found):
        found = _diverse(artifact, found, scores[found], k, diversity)
    return [Place(*place) for place in zip(found.tolist(), scores[found].tolist(), strict=True)]


def _diverse(artifact: Artifact, candidates: Tensor, scores: Tensor, k: int, diversity: float) -> Tensor:
    """Maximal marginal relevance: each place goes to the best of score less overlap with what stands above.

    Scores are scaled to [0, 1] over the candidates; the overlap of two bundles is the share of their items that both
    have (Jaccard).
    """
    overlap = shared_contents(artifact, candidates.numpy())
    spread = float(scores.max() - scores.min()) or 1.0
    worth = ((scores - scores.min()) / spread).numpy()
    chosen: list[int] = []
    nearest = np.zeros(len(candidates))
    left = np.ones(len(candidates), bool)
    while len(chosen) < min(k, len(candidates)):
        value = np.where(left, (1 - diversity) * worth - diversity * nearest, -np.inf)
        place = int(value.argmax())
        chosen.append(place)
        left[place] = False
        nearest = np.maximum(nearest, overlap[place])
    return candidates[chosen]


def shared_contents(artifact: Artifact, bundles: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each two of these bundles the share of their items that both have."""
    contents = artifact.contents[bundles]
    both = np.asarray((contents @ contents.T).todense(), np.float64)
    sizes = both.diagonal()
    return both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1)


def diversity_cost(
    artifact: Artifact, wanted: Pairs, k: int = 20, shares: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
) -> dict[str, dict[str, float]]:
    """What diversity costs: for these pairs' users the recall at k, and how much their lists' neighbours share."""
    users = np.unique(wanted[:, 0])
    found: dict[str, dict[str, float]] = {}
    for share in shares:
        recalls, shared = [], []
        for user in users.tolist():
            listed = np.array([place.bundle for place in recommend(artifact, user, k, diversity=share)])
            recalls.append(np.isin(of_left(wanted, user), listed).mean())
            both = shared_contents(artifact, listed)
            shared.append(np.diagonal(both, 1).mean() if len(listed) > 1 else 0.0)
        found[f"{share:g}"] = {"recall@20": float(np.mean(recalls)), "shared contents": float(np.mean(shared))}
    return found


def recommend_all(
    artifact: Artifact, out: Path, k: int = 20, progress: Callable[[int], None] = lambda users: None
) -> int:
    """Every user's k best bundles that she has not chosen, as a Parquet file; gives the number of rows."""
    require_k(artifact, k)
    users = np.arange(artifact.about.users)
    known = _Known(artifact)
    ranking = rank(known, users, k, exclude=artifact.chosen, progress=progress)
    user, place = np.nonzero(ranking >= 0)
    bundle = ranking[user, place]
    frame = pl.DataFrame(
        {
            "user": _ids(artifact.users.ids, user),
            "place": (place + 1).astype(np.int32),
            "bundle": _ids(artifact.bundles.ids, bundle),
        }
    )
    content = BytesIO()
    frame.write_parquet(content)
    write_atomic(out, content.getvalue())
    return len(frame)


class _Known(Recommender):
    """The artifact's recommender without the spare bundle."""

    def __init__(self, artifact: Artifact) -> None:
        self.inner, self.bundles = artifact.recommender, artifact.about.bundles

    def scores(self, users: Tensor) -> Tensor:
        return self.inner.scores(users)[:, : self.bundles]


def _ids(ids: tuple[str, ...] | None, numbers: NDArray[np.int64]) -> pl.Series:
    if ids is None:
        return pl.Series(numbers)
    return pl.Series(ids).gather(numbers)


def chosen_by(artifact: Artifact, user: int) -> NDArray[np.int32]:
    """The bundles that a user has chosen."""
    return of_left(artifact.chosen, user)


def of_left(pairs: NDArray[np.int32], left: int) -> NDArray[np.int32]:
    """The right nodes of a left one, in sorted pairs."""
    start, end = np.searchsorted(pairs[:, 0], [left, left + 1])
    return pairs[start:end, 1]


def require_k(artifact: Artifact, k: int) -> None:
    """Refuse a list that is longer than there are bundles."""
    if not 1 <= k <= artifact.about.bundles:
        raise InputError(f"top {k}: expected 1 to {artifact.about.bundles}, as many bundles as there are")
