"""Recommendation lists: for a user, for an unseen user, for several users. Those of many users are in lists.py."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, neighbours, positions
from clbr.errors import InputError
from clbr.evaluation.ranking import ranked_blocks, top
from clbr.graph.edits import EdgeEdits
from clbr.inference.answers import RankedBundle, RecommendationBatch, Recommendations
from clbr.inference.artifact import Artifact
from clbr.inference.edits_by_id import edit_history
from clbr.inference.index import BLOCK as INDEX_BLOCK
from clbr.inference.stopping import check_stop
from clbr.inference.whatif import BLOCK, edited_state, list_length
from clbr.models.base import Scorer

BATCH_BLOCK = 64
"""Users of a batch who are scored at once: between two blocks the batch can be stopped."""
POOL = 5
"""Diversity chooses among so many times as many bundles as are wanted."""


def recommend(
    artifact: Artifact,
    user: str | int | None = None,
    *,
    likes_items: Sequence[str | int] = (),
    likes_bundles: Sequence[str | int] = (),
    k: int = 20,
    keep_chosen: bool = False,
    allow: Collection[str | int] | None = None,
    deny: Collection[str | int] = (),
    diversity: float = 0.0,
) -> Recommendations:
    """The k best bundles of a user, or of an unseen user who likes some items or bundles.

    Bundles that the user has chosen are left out unless `keep_chosen`. Only bundles of `allow` are listed, if it is
    given, and none of `deny`. `diversity` from 0 to 1 trades score for bundles that share fewer items.
    """
    if (user is None) != bool(likes_items or likes_bundles):
        raise InputError("expected a user, or what an unseen user likes: exactly one of the two", "user", "likes_items")
    k = list_length(artifact, k)
    allowed = None if allow is None else [artifact.bundles.index(bundle) for bundle in allow]
    denied = [artifact.bundles.index(bundle) for bundle in deny]
    index: int | None = None
    if user is not None:
        index = artifact.users.index(user)
        if not diversity and allowed is None and artifact.index is not None and artifact.index.answers(k):
            blocks = list_blocks(artifact, np.array([index]), k, keep_chosen=keep_chosen, deny=denied)
            ranking, listed = next(blocks)
            known = ranking[0] >= 0
            return _answer(artifact, index, k, ranking[0, known].tolist(), listed[0, known].tolist())
        scores = artifact.scorer.scores(torch.tensor([index]))[0]
        chosen: Collection[int] = neighbours(artifact.graph.ub.pairs, index)
    else:
        edits, chosen = _likes(artifact, likes_items, likes_bundles)
        scores = edited_state(artifact, edits).scores(artifact.unseen_user)
    chosen = () if keep_chosen else chosen
    found, values = best(artifact, scores, k, exclude=chosen, allow=allowed, deny=denied, diversity=diversity)
    return _answer(artifact, index, k, found, values)


def _likes(
    artifact: Artifact, items: Sequence[str | int], bundles: Sequence[str | int]
) -> tuple[EdgeEdits, Collection[int]]:
    """The edges of an unseen user, and the bundles among them."""
    artifact.require_whatif()
    edits = edit_history(artifact, artifact.unseen_user, add_items=items, add_bundles=bundles)
    return edits, [artifact.bundles.index(bundle) for bundle in bundles]


def recommend_batch(artifact: Artifact, users: Sequence[str | int], k: int = 20) -> RecommendationBatch:
    """The lists of several users, scored together."""
    k = list_length(artifact, k)
    indices = [artifact.users.index(user) for user in users]
    ranking, scores = _rank_known(artifact, np.array(indices, np.int64), k)
    lists = [
        _answer(artifact, index, k, row[row >= 0].tolist(), values[row >= 0].tolist())
        for index, row, values in zip(indices, ranking, scores, strict=True)
    ]
    return RecommendationBatch(lists=lists)


def best(
    artifact: Artifact,
    scores: Tensor,
    k: int,
    *,
    exclude: Collection[int] = (),
    allow: Collection[int] | None = None,
    deny: Collection[int] = (),
    diversity: float = 0.0,
) -> tuple[list[int], list[float]]:
    """The k best bundles by (bundles + 1,) scores, and their scores."""
    k = list_length(artifact, k)
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity {diversity}: expected a number from 0 (by score alone) to 1", "diversity")
    scores = scores.clone()
    scores[[artifact.unseen_bundle, *exclude, *deny]] = -torch.inf
    if allow is not None:
        others = torch.ones(len(scores), dtype=torch.bool)
        others[list(allow)] = False
        scores[others] = -torch.inf
    wanted = k if not diversity else min(POOL * k, artifact.about.bundles)
    found = top(scores[None], wanted)[0]
    found = found[found >= 0]
    if diversity and len(found):
        found = _diverse(artifact, found, scores[found], k, diversity)
    return found.tolist(), scores[found].tolist()


def _diverse(artifact: Artifact, candidates: Tensor, scores: Tensor, k: int, diversity: float) -> Tensor:
    """Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): score less overlap with the bundles above.

    Scores are scaled to [0, 1] over the candidates. The overlap of two bundles is the Jaccard index of their items.
    """
    overlap = shared_contents(artifact, candidates.numpy())
    spread = float(scores.max() - scores.min()) or 1.0
    relevance = ((scores - scores.min()) / spread).numpy()
    chosen: list[int] = []
    nearest = np.zeros(len(candidates))
    free = np.ones(len(candidates), bool)
    while len(chosen) < min(k, len(candidates)):
        value = np.where(free, (1 - diversity) * relevance - diversity * nearest, -np.inf)
        position = int(value.argmax())
        chosen.append(position)
        free[position] = False
        nearest = np.maximum(nearest, overlap[position])
    return candidates[chosen]


def shared_contents(artifact: Artifact, bundles: NDArray[np.int64]) -> NDArray[np.float64]:
    """The Jaccard index of the items of every two of these bundles."""
    contents = artifact.contents[bundles]
    both = np.asarray((contents @ contents.T).todense(), np.float64)
    sizes = both.diagonal()
    return both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1)


def diversity_cost(
    artifact: Artifact, wanted: Pairs, k: int = 20, diversities: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
) -> dict[str, dict[str, float]]:
    """Recall at k for these pairs, and the overlap of neighbours in a list, by diversity."""
    users = np.unique(wanted[:, 0])
    found: dict[str, dict[str, float]] = {}
    for diversity in diversities:
        recalls, shared = [], []
        for user in users.tolist():
            scores = artifact.scorer.scores(torch.tensor([user]))[0]
            chosen = neighbours(artifact.graph.ub.pairs, user)
            listed = np.array(best(artifact, scores, k, exclude=chosen, diversity=diversity)[0])
            recalls.append(np.isin(neighbours(wanted, user), listed).mean())
            both = shared_contents(artifact, listed)
            shared.append(np.diagonal(both, 1).mean() if len(listed) > 1 else 0.0)
        found[f"{diversity:g}"] = {"recall@20": float(np.mean(recalls)), "shared contents": float(np.mean(shared))}
    return found


def _rank_known(artifact: Artifact, users: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Each user's k best bundles that the user has not chosen, (n, k) with -1 for none, and their scores."""
    blocks = []
    for found in list_blocks(artifact, users, k, block=BATCH_BLOCK):
        check_stop()
        blocks.append(found)
    if not blocks:
        return np.empty((0, k), np.int64), np.empty((0, k), np.float32)
    ranking, scores = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return ranking, scores


def list_blocks(
    artifact: Artifact,
    users: NDArray[np.int64],
    k: int,
    *,
    keep_chosen: bool = False,
    allow: Collection[int] | None = None,
    deny: Collection[int] = (),
    block: int | None = None,
    on_progress: Callable[[int], None] = lambda users: None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """The lists of users block by block, as `ranked_blocks` gives them: by the artifact's index, or exactly without it.

    Lists that are longer than the index is good for, those of `allow` and those that it cannot fill are exact, too.
    """
    chosen = artifact.graph.ub
    rows = np.empty(0, np.int64) if keep_chosen else np.unique(users)
    exclude = chosen.pairs[positions(chosen.pattern.pointers, rows)[1]]  # only those of the users who are asked for
    hidden = torch.full((artifact.about.bundles,), allow is not None)
    hidden[list(allow or ())] = False
    hidden[list(deny)] = True
    scorer = KnownScorer(artifact, hidden if hidden.any() else None)
    index = artifact.index
    if index is None or allow is not None or not index.answers(k):
        yield from ranked_blocks(scorer, users, k, exclude=exclude, block=block, on_progress=on_progress)
        return
    denied, size = np.flatnonzero(hidden.numpy()), block or INDEX_BLOCK
    for start in range(0, len(users), size):
        some = users[start : start + size]
        ranking, scores = index.rank(some, k, keep_chosen=keep_chosen, deny=denied)
        short = np.flatnonzero((ranking < 0).any(axis=1))
        if len(short):
            exact = ranked_blocks(scorer, some[short], k, exclude=exclude)
            ranking[short], scores[short] = (np.concatenate(parts) for parts in zip(*exact, strict=True))
        yield ranking, scores
        on_progress(start + len(some))


def score_pairs(artifact: Artifact, users: Sequence[str | int], bundles: Sequence[str | int]) -> NDArray[np.float32]:
    """The scores of user-bundle pairs, in their order."""
    rows = [artifact.users.index(user) for user in users]
    columns = np.array([artifact.bundles.index(bundle) for bundle in bundles], np.int64)
    if len(rows) != len(columns):
        raise InputError(f"{len(rows)} users and {len(columns)} bundles: expected pairs, as many of each")
    distinct, at = np.unique(np.array(rows, np.int64), return_inverse=True)
    found = np.empty(len(rows), np.float32)
    for begin in range(0, len(distinct), BLOCK):
        some = distinct[begin : begin + BLOCK]
        scores = artifact.scorer.scores(torch.from_numpy(some)).cpu().numpy()
        mine = np.flatnonzero((at >= begin) & (at < begin + len(some)))
        found[mine] = scores[at[mine] - begin, columns[mine]]
    return found


class KnownScorer(Scorer):
    """The artifact's scores without the unseen bundle: what is served. Bundles of `hidden` are never listed."""

    def __init__(self, artifact: Artifact, hidden: Tensor | None = None) -> None:
        self.inner, self.bundles, self.hidden = artifact.scorer, artifact.about.bundles, hidden

    def scores(self, users: Tensor) -> Tensor:
        """For n users an (n, bundles) tensor."""
        found = self.inner.scores(users)[:, : self.bundles]
        return found if self.hidden is None else found.masked_fill(self.hidden, -torch.inf)


def _answer(
    artifact: Artifact, user: int | None, k: int, bundles: Sequence[int], scores: Sequence[float]
) -> Recommendations:
    names = artifact.bundles.names
    ranked = [
        RankedBundle(id=artifact.bundles.id(bundle), name=names[bundle] if names else None, rank=rank, score=score)
        for rank, (bundle, score) in enumerate(zip(bundles, scores, strict=True), start=1)
    ]
    return Recommendations(user=None if user is None else artifact.node("user", user), k=k, recommended=ranked)
