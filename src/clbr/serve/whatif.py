"""What if? An artefact and edits in, the difference out. Exact for the trained parameters: propagated anew.

The parameters stay as they were trained: the answer is what the model makes of another history or of other contents,
not what a model trained on them would make.
"""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, Relation
from clbr.data.read import read_bytes
from clbr.errors import InputError
from clbr.graph.bundle_graph import BundleGraph
from clbr.models.interface import Embeddings
from clbr.models.registry import find_model
from clbr.serve.artefact import Artefact
from clbr.serve.recommend import Place, best, of_left, refuse_k
from clbr.serve.segments import SEGMENTS, segment_users
from clbr.views.edits import EdgeEdits

BLOCK = 1024
"""Users whose scores are held at once."""
KEPT = 64
"""Bundles whose places are kept, should they be asked for again."""
NAMES = {"ub": "user-bundle", "ui": "user-item", "bi": "bundle-item"}


@dataclass(frozen=True)
class State:
    """The graph and the model's vectors on it, before or after edits."""

    artefact: Artefact
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
        users, spare = self.artefact.about.users, self.artefact.spare_bundle
        chosen = self.graph.ub.pairs
        places = torch.empty(users, dtype=torch.int64)
        for start in range(0, users, BLOCK):
            end = min(start + BLOCK, users)
            scores = self.users[start:end] @ self.bundles.T  # (n, bundles)
            own = scores[:, bundle].clone()[:, None]
            first, last = np.searchsorted(chosen[:, 0], [start, end])
            mine = torch.from_numpy(chosen[first:last].astype(np.int64))
            scores[mine[:, 0] - start, mine[:, 1]] = -torch.inf
            scores[:, spare] = -torch.inf  # it is in nobody's way
            above = (scores[:, :bundle] >= own).sum(1) + (scores[:, bundle + 1 :] > own).sum(1)  # each looked at once
            places[start:end] = 1 + above
            places[mine[mine[:, 1] == bundle, 0]] = 0
        return places.numpy()

    def ranking(self, user: int, k: int) -> list[Place]:
        """Her k best bundles that she has not chosen here."""
        return best(self.artefact, self.scores(user), k, chosen=of_left(self.graph.ub.pairs, user))


def factual(artefact: Artefact) -> State:
    """Things as they are."""
    artefact.refuse_questions()
    if "factual" not in artefact.__dict__:
        artefact.__dict__["factual"] = State(artefact, artefact.graph, artefact.embeddings)
    state: State = artefact.__dict__["factual"]
    return state


def edited(artefact: Artefact, edits: EdgeEdits) -> State:
    """Things as they would be."""
    artefact.refuse_questions()
    graph = edits.apply(artefact.graph)
    return State(artefact, graph, artefact.encode(graph))


def idle(artefact: Artefact, edits: EdgeEdits) -> list[str]:
    """What of the edits cannot have an effect, in words."""
    looked_at = find_model(artefact.about.model).relations
    return [
        f"{artefact.about.model} does not look at {name} pairs: editing them is without effect"
        for relation, name in NAMES.items()
        if edits.touches(relation) and relation not in looked_at  # type: ignore[arg-type]
    ]


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


def ask_user(artefact: Artefact, user: int, edits: EdgeEdits, k: int = 20) -> UserAnswer:
    """What a user would be recommended after the edits."""
    refuse_k(artefact, k)
    then, now = factual(artefact), edited(artefact, edits)
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


def ask_bundle(artefact: Artefact, bundle: int, edits: EdgeEdits, k: int = 20) -> BundleAnswer:
    """Whom a bundle would be recommended to after the edits."""
    refuse_k(artefact, k)
    then, now = factual(artefact), edited(artefact, edits)
    before, after = audience(then, bundle, k), audience(now, bundle, k)
    segment = segment_users(artefact.chosen, artefact.about.users)
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


def history_edits(
    artefact: Artefact,
    user: int,
    *,
    add_items: tuple[int, ...] = (),
    drop_items: tuple[int, ...] = (),
    add_bundles: tuple[int, ...] = (),
    drop_bundles: tuple[int, ...] = (),
) -> EdgeEdits:
    """Edits of what a user has; those that contradict each other, or what she has, are refused by name."""
    _refuse_contradiction(artefact, "item", add_items, drop_items)
    _refuse_contradiction(artefact, "bundle", add_bundles, drop_bundles)
    whose = f"user {artefact.users.id(user)}" if user != artefact.spare_user else "the newcomer"
    for kind, pairs, add, drop in (
        ("item", artefact.graph.ui.pairs, add_items, drop_items),
        ("bundle", artefact.graph.ub.pairs, add_bundles, drop_bundles),
    ):
        _refuse_held(artefact, kind, of_left(pairs, user), add, drop, whose)
    return EdgeEdits(
        add={"ui": _pairs(user, add_items), "ub": _pairs(user, add_bundles)},
        drop={"ui": _pairs(user, drop_items), "ub": _pairs(user, drop_bundles)},
    )


def contents_edits(
    artefact: Artefact, bundle: int, *, add_items: tuple[int, ...] = (), drop_items: tuple[int, ...] = ()
) -> EdgeEdits:
    """Edits of what is in a bundle; those that contradict each other, or its contents, are refused by name."""
    _refuse_contradiction(artefact, "item", add_items, drop_items)
    whose = f"bundle {artefact.bundles.id(bundle)}" if bundle != artefact.spare_bundle else "the new bundle"
    _refuse_held(artefact, "item", of_left(artefact.graph.bi.pairs, bundle), add_items, drop_items, whose)
    return EdgeEdits(add={"bi": _pairs(bundle, add_items)}, drop={"bi": _pairs(bundle, drop_items)})


def read_edits(artefact: Artefact, path: Path) -> EdgeEdits:
    """Edits of a JSON file: {"add": {"ui": [[user id, item id], ...]}, "drop": ...}; ids as the outside knows them.

    Refused by name: unknown ids, a pair twice, adding one that is there, dropping one that is not.
    """
    content = read_bytes(path)
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a file of edits (not JSON)") from None
    try:
        _refuse_other_keys("key", told, ("add", "drop"))
        edits: dict[str, dict[Relation, Pairs]] = {"add": {}, "drop": {}}
        for side, given in told.items():
            _refuse_other_keys("relation", given, tuple(NAMES))
            edits[side] = {relation: _known_pairs(artefact, side, relation, pairs) for relation, pairs in given.items()}
    except InputError as error:
        raise InputError(f"{path}: not a file of edits ({error})") from None
    return EdgeEdits(**edits)


def _refuse_other_keys(what: str, told: object, known: tuple[str, ...]) -> None:
    expected = f"expected {{{', '.join(known)}}}"
    if not isinstance(told, dict):
        raise InputError(f"{expected}, found {json.dumps(told)[:40]}")
    if strange := set(told) - set(known):
        raise InputError(f"unknown {what} '{min(strange)}', known: {', '.join(known)}")


def _known_pairs(artefact: Artefact, side: str, relation: Relation, told: object) -> Pairs:
    """The numbers of pairs of ids; one that cannot be added or dropped is refused by its ids."""
    kinds = {"u": artefact.users, "b": artefact.bundles, "i": artefact.items}
    left, right = (kinds[letter] for letter in relation)
    there = artefact.graph.edges(relation).pairs
    found: dict[tuple[int, int], None] = {}
    for given in told if isinstance(told, list) else [told]:
        if not isinstance(given, list) or len(given) != 2 or not all(type(id) in (str, int) for id in given):
            raise InputError(f"{side}, {relation}: expected pairs of ids, found {json.dumps(given)[:40]}")
        pair = left.index(str(given[0])), right.index(str(given[1]))
        named = f"{left.kind} {given[0]} and {right.kind} {given[1]}"
        if pair in found:
            raise InputError(f"{side}: {named} are there twice")
        if side == "add" and pair[1] in of_left(there, pair[0]):
            raise InputError(f"{named} are a pair already and cannot be added")
        if side == "drop" and pair[1] not in of_left(there, pair[0]):
            raise InputError(f"{named} are no pair and cannot be dropped")
        found[pair] = None
    return np.array(list(found), np.int32).reshape(-1, 2)


def _pairs(left: int, rights: tuple[int, ...]) -> Pairs:
    return np.array([(left, right) for right in rights], np.int32).reshape(-1, 2)


def _refuse_contradiction(artefact: Artefact, kind: str, add: tuple[int, ...], drop: tuple[int, ...]) -> None:
    nodes = artefact.nodes(kind)  # type: ignore[arg-type]
    for what, given in (("added", add), ("dropped", drop)):
        if len(set(given)) < len(given):
            twice = next(node for node in given if given.count(node) > 1)
            raise InputError(f"{kind} {nodes.id(twice)} is {what} twice; once is enough")
    if both := set(add) & set(drop):
        raise InputError(f"{kind} {nodes.id(min(both))} is added and dropped: choose one")


def _refuse_held(
    artefact: Artefact, kind: str, held: NDArray[np.int32], add: tuple[int, ...], drop: tuple[int, ...], whose: str
) -> None:
    nodes = artefact.nodes(kind)  # type: ignore[arg-type]
    if there := [node for node in add if node in held]:
        raise InputError(f"{whose} has {kind} {nodes.id(there[0])} already, so adding it would change nothing")
    if missing := [node for node in drop if node not in held]:
        known = ", ".join(nodes.id(int(node)) for node in held[:5])
        has = f"has {known}{' and more' if len(held) > 5 else ''}" if len(held) else "has none"
        raise InputError(f"{whose} does not have {kind} {nodes.id(missing[0])} and cannot lose it; {whose} {has}")
