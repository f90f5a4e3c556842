"""What if a user's history were different? Edits of the data in, the user's list before and after out.

The edited graph is propagated anew. If the model names its own vectors, the trained parameters follow the edits as they
would in retraining, to first order (influence.py, own_vectors.py); otherwise they stay fixed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.config import whole_number
from clbr.data.pairs import neighbours
from clbr.evaluation.ranking import top
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.inference.answers import Move, RankedBundle, WhatIf
from clbr.inference.artifact import Artifact
from clbr.inference.cold_start import filled
from clbr.inference.edits_by_id import Edits, Ids, edit_history, ineffective
from clbr.inference.influence import InfluenceStep
from clbr.inference.own_vectors import move_own_vectors, moved_users
from clbr.inference.stopping import check_stop
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings

BLOCK = 1024
"""Users whose scores are held at once."""
CACHED_BUNDLES = 64
"""Bundles whose ranks are cached."""


@dataclass(frozen=True)
class State:
    """The graph and the model's vectors on it, before or after edits."""

    artifact: Artifact
    graph: BundleGraph
    embeddings: Embeddings
    cached_ranks: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def users(self) -> Tensor:
        """User vectors, all levels joined."""
        return self.embeddings.joined("users")

    @cached_property
    def bundles(self) -> Tensor:
        """Bundle vectors, all levels joined."""
        return self.embeddings.joined("bundles")

    @cached_property
    def influence(self) -> InfluenceStep:
        """The step of the model's parameters after edits of this graph."""
        assert isinstance(self.artifact.model, Encoder)
        return InfluenceStep(self.artifact.model, self.graph)

    def scores(self, user: int) -> Tensor:
        """Scores of all bundles, the unseen one included."""
        return self.bundles @ self.users[user]

    def ranking(self, user: int, k: int) -> list[int]:
        """The user's k best bundles that the user has not chosen in this graph."""
        scores = self.scores(user)
        scores[[self.artifact.unseen_bundle, *neighbours(self.graph.ub.pairs, user)]] = -torch.inf
        found = top(scores[None], k)[0]
        return [bundle for bundle in found.tolist() if bundle >= 0]

    def rank(self, user: int, bundle: int) -> int:
        """The rank of a bundle in a user's list; bundles that the user has chosen are not ranked."""
        return self.rank_in(self.scores(user), user, bundle)

    def rank_in(self, scores: Tensor, user: int, bundle: int) -> int:
        """The rank of a bundle by a user's scores, which are overwritten."""
        own = scores[bundle].clone()
        scores[[self.artifact.unseen_bundle, *neighbours(self.graph.ub.pairs, user)]] = -torch.inf
        return 1 + int((scores > own).sum() + (scores[:bundle] == own).sum())

    def ranks(self, bundle: int) -> NDArray[np.int64]:
        """The rank of a bundle in each user's list; 0 where the user has chosen it. The latest are cached."""
        if bundle not in self.cached_ranks:
            while len(self.cached_ranks) >= CACHED_BUNDLES:  # drop the oldest
                self.cached_ranks.pop(next(iter(self.cached_ranks)), None)
            self.cached_ranks[bundle] = self._ranks(bundle)
        return self.cached_ranks[bundle]

    def _ranks(self, bundle: int) -> NDArray[np.int64]:
        ranks = torch.empty(self.artifact.about.users, dtype=torch.int64)
        for start, scores, chosen in self.score_blocks():
            own = scores[:, bundle].clone()[:, None]
            scores[chosen[:, 0], chosen[:, 1]] = -torch.inf
            scores[:, self.artifact.unseen_bundle] = -torch.inf
            above = (scores[:, :bundle] >= own).sum(1) + (scores[:, bundle + 1 :] > own).sum(1)  # lower index wins ties
            ranks[start : start + len(scores)] = 1 + above
            ranks[start + chosen[chosen[:, 1] == bundle, 0]] = 0
        return ranks.numpy()

    def score_blocks(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Everyone's scores in blocks: first user, (n, bundles + 1) scores, (row, bundle) pairs of chosen bundles."""
        users, pairs = self.artifact.about.users, self.graph.ub.pairs
        for start in range(0, users, BLOCK):
            check_stop()
            end = min(start + BLOCK, users)
            scores = self.users[start:end] @ self.bundles.T
            first, last = np.searchsorted(pairs[:, 0], [start, end])
            yield start, scores, torch.from_numpy(pairs[first:last].astype(np.int64)) - torch.tensor([start, 0])

    def audience(self, bundle: int, k: int) -> NDArray[np.int64]:
        """The users who have a bundle among their first k, in order, without those who have chosen it."""
        ranks = self.ranks(bundle)
        return np.flatnonzero((ranks > 0) & (ranks <= k))


def factual_state(artifact: Artifact) -> State:
    """The training graph and the model's vectors on it."""
    artifact.require_whatif()
    if "factual" not in artifact.__dict__:
        artifact.__dict__["factual"] = State(artifact, artifact.graph, artifact.embeddings)
    state: State = artifact.__dict__["factual"]
    return state


def edited_state(artifact: Artifact, edits: EdgeEdits) -> State:
    """The edited graph and the model's vectors on it, with parameters that follow the edits."""
    artifact.require_whatif()
    check_stop()
    before, after, influence = artifact.graph, edits.apply(artifact.graph), factual_state(artifact).influence
    moved = moved_users(influence.model, edits, before, after)
    model, embeddings = influence.follow(edits, after)
    vectors = filled(model, embeddings, after)
    vectors = move_own_vectors(influence.model, moved, (before, artifact.embeddings), (after, vectors))
    return State(artifact, after, vectors)


def whatif(
    artifact: Artifact,
    user: str | int,
    *,
    add_items: Ids = (),
    drop_items: Ids = (),
    add_bundles: Ids = (),
    drop_bundles: Ids = (),
    edits: Edits | None = None,
    k: int = 20,
) -> WhatIf:
    """A user's list before and after edits of the user's history, or of anything (`edits`)."""
    artifact.require_whatif()
    index = artifact.users.index(user)
    changed = edit_history(
        artifact,
        index,
        add_items=add_items,
        drop_items=drop_items,
        add_bundles=add_bundles,
        drop_bundles=drop_bundles,
        edits=edits,
    )
    k = list_length(artifact, k)
    old, new = factual_state(artifact), edited_state(artifact, changed)
    before, after = old.ranking(index, k), new.ranking(index, k)
    scores_before, scores_after = old.scores(index), new.scores(index)
    rank_before, rank_after = (
        {bundle: rank for rank, bundle in enumerate(ranking, start=1)} for ranking in (before, after)
    )
    moves = [
        Move(
            **artifact.node("bundle", bundle).model_dump(),
            rank_before=rank_before.get(bundle),
            rank_after=rank_after.get(bundle),
            score_before=float(scores_before[bundle]),
            score_after=float(scores_after[bundle]),
        )
        for bundle in dict.fromkeys([*after, *before])
    ]
    return WhatIf(
        user=artifact.node("user", index),
        k=k,
        before=_ranked(artifact, before, scores_before),
        after=_ranked(artifact, after, scores_after),
        moves=moves,
        warnings=ineffective(artifact, changed),
        caveat=artifact.caveat,
    )


def _ranked(artifact: Artifact, bundles: Sequence[int], scores: Tensor) -> list[RankedBundle]:
    return [
        RankedBundle(**artifact.node("bundle", bundle).model_dump(), rank=rank, score=float(scores[bundle]))
        for rank, bundle in enumerate(bundles, start=1)
    ]


def list_length(artifact: Artifact, k: int) -> int:
    """The length of a list of k bundles: k, or the number of bundles if there are fewer."""
    return min(whole_number(k, "k"), artifact.about.bundles)
