"""Edits by id, as they are asked for, become edits by index. One that cannot be made raises an error that names it."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from clbr.data.frames import read_pairs
from clbr.data.pairs import SIDES, Kind, Relation, neighbours
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS, EdgeEdits, without_effect
from clbr.inference.artifact import Artifact

Ids = Sequence[str | int]
Edits = Mapping[str, Mapping[str, Sequence[Sequence[str | int]]]]
"""Edits by id: {"add": {"ui": [[user, item], ...]}, "drop": {"bi": [[bundle, item], ...]}}."""


def edit_history(
    artifact: Artifact,
    user: int,
    *,
    add_items: Ids = (),
    drop_items: Ids = (),
    add_bundles: Ids = (),
    drop_bundles: Ids = (),
    edits: Edits | None = None,
) -> EdgeEdits:
    """Edits of a user's items and bundles, or those of `edits`."""
    add: dict[Relation, Ids] = {"ui": add_items, "ub": add_bundles}
    drop: dict[Relation, Ids] = {"ui": drop_items, "ub": drop_bundles}
    return _make_edits(artifact, user, add, drop, edits)


def edit_contents(
    artifact: Artifact, bundle: int, *, add_items: Ids = (), drop_items: Ids = (), edits: Edits | None = None
) -> EdgeEdits:
    """Edits of a bundle's items, or those of `edits`."""
    return _make_edits(artifact, bundle, {"bi": add_items}, {"bi": drop_items}, edits)


def _make_edits(
    artifact: Artifact, left: int, add: dict[Relation, Ids], drop: dict[Relation, Ids], edits: Edits | None
) -> EdgeEdits:
    """Edits as node indices. Contradictions, known pairs to add and missing pairs to drop raise an error by id."""
    if edits is None:
        sides = [
            {r: [(left, artifact.nodes[SIDES[r][1]].index(id)) for id in ids] for r, ids in side.items()}
            for side in (add, drop)
        ]
    elif any([*add.values(), *drop.values()]):
        raise InputError("`edits` holds all edits: leave the single ones out", "edits")
    else:
        sides = _parse_edits(artifact, edits)
    for relation in RELATIONS:
        _check_edits(artifact, relation, sides[0].get(relation, []), sides[1].get(relation, []))
    added, dropped = ({r: np.array(pairs, np.int32).reshape(-1, 2) for r, pairs in side.items()} for side in sides)
    return EdgeEdits(added, dropped)


def _parse_edits(artifact: Artifact, edits: Edits) -> list[dict[Relation, list[tuple[int, int]]]]:
    """Edits by id as edits by index: additions first, then drops."""
    _check_keys("edits", edits, ("add", "drop"))
    sides: list[dict[Relation, list[tuple[int, int]]]] = []
    for side in ("add", "drop"):
        given = edits.get(side, {})
        _check_keys(f"edits, {side}", given, RELATIONS)
        sides.append({r: _parse_pairs(artifact, r, given[r], f"edits, {side}, {r}") for r in RELATIONS if r in given})
    return sides


def _check_keys(where: str, given: object, known: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: found {given!r:.40}, expected an object with the keys {', '.join(known)}", "edits")
    if unknown := set(given) - set(known):
        raise InputError(f"{where}: unknown key '{min(unknown, key=str)}', expected {', '.join(known)}", "edits")


def _parse_pairs(artifact: Artifact, relation: Relation, given: object, where: str) -> list[tuple[int, int]]:
    left, right = (artifact.nodes[kind] for kind in SIDES[relation])
    return [(left.index(one), right.index(other)) for one, other in read_pairs(given, where)]


def _check_edits(
    artifact: Artifact, relation: Relation, add: Sequence[tuple[int, int]], drop: Sequence[tuple[int, int]]
) -> None:
    """Raise an error that names the first pair which cannot be added or dropped."""
    left_kind, right_kind = SIDES[relation]
    right_nodes, pairs = artifact.nodes[right_kind], artifact.graph.edges(relation).pairs
    for what, given in (("added", add), ("dropped", drop)):
        if twice := [pair for pair, count in Counter(given).items() if count > 1]:
            raise InputError(f"{right_kind} {right_nodes.id(twice[0][1])} is {what} twice; once is enough")
    if both := set(add) & set(drop):
        raise InputError(f"{right_kind} {right_nodes.id(min(both)[1])} is both added and dropped: choose one")
    for left, right in add:
        if right in neighbours(pairs, left):
            named = f"{right_kind} {right_nodes.id(right)}"
            raise InputError(f"{_owner(artifact, left_kind, left)} has {named} already: adding it changes nothing")
    for left, right in drop:
        known = neighbours(pairs, left)
        if right not in known:
            owner, named = _owner(artifact, left_kind, left), f"{right_kind} {right_nodes.id(right)}"
            some = ", ".join(right_nodes.id(int(node)) for node in known[:5])
            has = f"{some}{' and more' if len(known) > 5 else ''}" if len(known) else "none"
            raise InputError(f"{owner} does not have {named}, so it cannot be dropped; its {right_kind}s: {has}")


def _owner(artifact: Artifact, kind: Kind, index: int) -> str:
    """The left node of an edit, for messages."""
    nodes = artifact.nodes[kind]
    return f"{kind} {nodes.id(index)}" if index < len(nodes) else f"the unseen {kind}"


def ineffective(artifact: Artifact, edits: EdgeEdits) -> list[str]:
    """Which edits have no effect because the model does not use their relation, in words."""
    model, used = artifact.about.model, type(artifact.model).relations
    return [
        without_effect(model, relation) for relation in RELATIONS if relation not in used and edits.touches(relation)
    ]
