"""What if? An artifact and edits in, the difference out. Exact for the trained parameters: propagated anew.

The parameters stay as they were trained: the answer is what the model makes of another history or of other contents,
not what a model trained on them would make.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.describe import SEGMENTS, segment_users
from clbr.graph.edits import RELATIONS, EdgeEdits, without_effect
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import Artifact
from clbr.inference.recommend import Place, best, of_left, require_k
from clbr.models.base import Embeddings
from clbr.models.registry import find_model

BLOCK = 1024
"""Users whose scores are held at once."""
KEPT = 64
"""Bundles whose places are kept, should they be asked for again."""


@dataclass(frozen=True)
class State:
    """The graph and the model's vectors on it, before or after edits."""

    artifact: Artifact
    graph: BundleGraph
    embeddings: Embeddings
    found_places: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def users(self) -> Tensor:
        """All levels' vectors of users."""
        return self.embeddings.joined("users")

    @cached_property
    def bundles(self) -> Tensor:
        """All levels' vectors of bundles."""
        return self.embeddings.joined("bundles")

    def scores(self, user: int) -> Tensor:
        """Of all bundles, the spare one included."""
        return self.bundles @ self.users[user]

    def places(self, bundle: int) -> NDArray[np.int64]:
        """Where a bundle stands in each user's list, from 1; 0 where she has chosen it. Kept for a while.

        Bundles that a user has chosen are in nobody's way. Of equal scores the lower bundle stands first, as in every
        list.
        """
        if bundle not in self.found_places:
            while len(self.found_places) >= KEPT:  # the oldest goes, so that questions never fill the memory
                self.found_places.pop(next(iter(self.found_places)), None)
            self.found_places[bundle] = self._places(bundle)
        return self.found_places[bundle]

    def _places(self, bundle: int) -> NDArray[np.int64]:
        places = torch.empty(self.artifact.about.users, dtype=torch.int64)
        for start, scores, mine in self.blocks():
            own = scores[:, bundle].clone()[:, None]
            scores[mine[:, 0], mine[:, 1]] = -torch.inf
            scores[:, self.artifact.unseen_bundle] = -torch.inf  # it is in nobody's way
            above = (scores[:, :bundle] >= own).sum(1) + (scores[:, bundle + 1 :] > own).sum(1)  # each looked at once
            places[start : start + len(scores)] = 1 + above
            places[start + mine[mine[:, 1] == bundle, 0]] = 0
        return places.numpy()

    def blocks(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Everyone's scores, some users at a time.

        Gives the first of them, their (n, bundles) scores, and (row, bundle) pairs of what they have chosen.
        """
        users, chosen = self.artifact.about.users, self.graph.ub.pairs
        for start in range(0, users, BLOCK):
            end = min(start + BLOCK, users)
            scores = self.users[start:end] @ self.bundles.T
            first, last = np.searchsorted(chosen[:, 0], [start, end])
            yield start, scores, torch.from_numpy(chosen[first:last].astype(np.int64)) - torch.tensor([start, 0])

    def ranking(self, user: int, k: int) -> list[Place]:
        """Her k best bundles that she has not chosen here."""
        return best(self.artifact, self.scores(user), k, chosen=of_left(self.graph.ub.pairs, user))


def factual(artifact: Artifact) -> State:
    """Things as they are."""
    artifact.require_whatif()
    if "factual" not in artifact.__dict__:
        artifact.__dict__["factual"] = State(artifact, artifact.graph, artifact.embeddings)
    state: State = artifact.__dict__["factual"]
    return state


def edited(artifact: Artifact, edits: EdgeEdits) -> State:
    """Things as they would be."""
    artifact.require_whatif()
    graph = edits.apply(artifact.graph)
    return State(artifact, graph, artifact.encode(graph))


def idle(artifact: Artifact, edits: EdgeEdits) -> list[str]:
    """What of the edits cannot have an effect, in words."""
    model = artifact.about.model
    ignored = [relation for relation in RELATIONS if relation not in find_model(model).relations]
    return [without_effect(model, relation) for relation in ignored if edits.touches(relation)]


@dataclass(frozen=True)
class Move:
    """A bundle in a user's list, before and after; a place counts from 1 and is None beyond what was asked for."""

    bundle: int
    before: int | None
    after: int | None
    score_before: float
    score_after: float


@dataclass(frozen=True)
class UserAnswer:
    """A user's list before and after, and how each bundle of either moved; those of the later list first."""

    user: int
    before: list[Place]
    after: list[Place]
    moves: list[Move]


def ask_user(artifact: Artifact, user: int, edits: EdgeEdits, k: int = 20) -> UserAnswer:
    """What a user would be recommended after the edits."""
    require_k(artifact, k)
    then, now = factual(artifact), edited(artifact, edits)
    before, after = then.ranking(user, k), now.ranking(user, k)
    was = {place.bundle: number for number, place in enumerate(before, start=1)}
    is_now = {place.bundle: number for number, place in enumerate(after, start=1)}
    old, new = then.scores(user), now.scores(user)
    moves = [
        Move(bundle, was.get(bundle), is_now.get(bundle), float(old[bundle]), float(new[bundle]))
        for bundle in [*is_now, *(bundle for bundle in was if bundle not in is_now)]
    ]
    return UserAnswer(user, before, after, moves)


@dataclass(frozen=True)
class Change:
    """How many of a segment's users have the bundle in their lists."""

    users: int
    before: int
    after: int


@dataclass(frozen=True)
class BundleAnswer:
    """The users who have a bundle in their first k, before and after."""

    bundle: int
    k: int
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    segments: dict[str, Change]

    @property
    def entered(self) -> NDArray[np.int64]:
        """Who has it only after the edits."""
        return np.setdiff1d(self.after, self.before)

    @property
    def left(self) -> NDArray[np.int64]:
        """Who had it only before them."""
        return np.setdiff1d(self.before, self.after)


def ask_bundle(artifact: Artifact, bundle: int, edits: EdgeEdits, k: int = 20) -> BundleAnswer:
    """Whom a bundle would be recommended to after the edits."""
    require_k(artifact, k)
    then, now = factual(artifact), edited(artifact, edits)
    before, after = audience(then, bundle, k), audience(now, bundle, k)
    segment = segment_users(artifact.chosen, artifact.about.users)
    segments: dict[str, Change] = {
        name: Change(
            int((segment == number).sum()),
            int((segment[before] == number).sum()),
            int((segment[after] == number).sum()),
        )
        for number, name in enumerate(SEGMENTS)
    }
    return BundleAnswer(bundle, k, before, after, segments)


def audience(state: State, bundle: int, k: int) -> NDArray[np.int64]:
    """The users who have a bundle among their first k, in order. Whoever has chosen it is not among them."""
    places = state.places(bundle)
    return np.flatnonzero((places > 0) & (places <= k))
