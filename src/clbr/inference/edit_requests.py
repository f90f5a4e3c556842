"""Edits as people give them: of a user's history, of a bundle's contents, or of anything from a file.

What contradicts itself or the data is refused here, by the ids that people know.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Pairs, Relation
from clbr.errors import InputError
from clbr.files import read_bytes
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.inference.artifact import Artifact
from clbr.inference.recommend import of_left


def history_edits(
    artifact: Artifact,
    user: int,
    *,
    add_items: tuple[int, ...] = (),
    drop_items: tuple[int, ...] = (),
    add_bundles: tuple[int, ...] = (),
    drop_bundles: tuple[int, ...] = (),
) -> EdgeEdits:
    """Edits of what a user has; those that contradict each other, or what she has, are refused by name."""
    _refuse_contradiction(artifact, "item", add_items, drop_items)
    _refuse_contradiction(artifact, "bundle", add_bundles, drop_bundles)
    whose = f"user {artifact.users.id(user)}" if user != artifact.unseen_user else "the newcomer"
    for kind, pairs, add, drop in (
        ("item", artifact.graph.ui.pairs, add_items, drop_items),
        ("bundle", artifact.graph.ub.pairs, add_bundles, drop_bundles),
    ):
        _refuse_held(artifact, kind, of_left(pairs, user), add, drop, whose)
    return EdgeEdits(
        add={"ui": _pairs(user, add_items), "ub": _pairs(user, add_bundles)},
        drop={"ui": _pairs(user, drop_items), "ub": _pairs(user, drop_bundles)},
    )


def contents_edits(
    artifact: Artifact, bundle: int, *, add_items: tuple[int, ...] = (), drop_items: tuple[int, ...] = ()
) -> EdgeEdits:
    """Edits of what is in a bundle; those that contradict each other, or its contents, are refused by name."""
    _refuse_contradiction(artifact, "item", add_items, drop_items)
    whose = f"bundle {artifact.bundles.id(bundle)}" if bundle != artifact.unseen_bundle else "the new bundle"
    _refuse_held(artifact, "item", of_left(artifact.graph.bi.pairs, bundle), add_items, drop_items, whose)
    return EdgeEdits(add={"bi": _pairs(bundle, add_items)}, drop={"bi": _pairs(bundle, drop_items)})


def read_edits(artifact: Artifact, path: Path) -> EdgeEdits:
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
            _refuse_other_keys("relation", given, RELATIONS)
            edits[side] = {relation: _known_pairs(artifact, side, relation, pairs) for relation, pairs in given.items()}
    except InputError as error:
        raise InputError(f"{path}: not a file of edits ({error})") from None
    return EdgeEdits(**edits)


def _refuse_other_keys(what: str, told: object, known: tuple[str, ...]) -> None:
    expected = f"expected {{{', '.join(known)}}}"
    if not isinstance(told, dict):
        raise InputError(f"{expected}, found {json.dumps(told)[:40]}")
    if strange := set(told) - set(known):
        raise InputError(f"unknown {what} '{min(strange)}', known: {', '.join(known)}")


def _known_pairs(artifact: Artifact, side: str, relation: Relation, told: object) -> Pairs:
    """The numbers of pairs of ids; one that cannot be added or dropped is refused by its ids."""
    kinds = {"u": artifact.users, "b": artifact.bundles, "i": artifact.items}
    left, right = (kinds[letter] for letter in relation)
    there = artifact.graph.edges(relation).pairs
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


def _refuse_contradiction(artifact: Artifact, kind: str, add: tuple[int, ...], drop: tuple[int, ...]) -> None:
    nodes = artifact.nodes(kind)  # type: ignore[arg-type]
    for what, given in (("added", add), ("dropped", drop)):
        if len(set(given)) < len(given):
            twice = next(node for node in given if given.count(node) > 1)
            raise InputError(f"{kind} {nodes.id(twice)} is {what} twice; once is enough")
    if both := set(add) & set(drop):
        raise InputError(f"{kind} {nodes.id(min(both))} is added and dropped: choose one")


def _refuse_held(
    artifact: Artifact, kind: str, held: NDArray[np.int32], add: tuple[int, ...], drop: tuple[int, ...], whose: str
) -> None:
    nodes = artifact.nodes(kind)  # type: ignore[arg-type]
    if there := [node for node in add if node in held]:
        raise InputError(f"{whose} has {kind} {nodes.id(there[0])} already, so adding it would change nothing")
    if missing := [node for node in drop if node not in held]:
        known = ", ".join(nodes.id(int(node)) for node in held[:5])
        has = f"has {known}{' and more' if len(held) > 5 else ''}" if len(held) else "has none"
        raise InputError(f"{whose} does not have {kind} {nodes.id(missing[0])} and cannot lose it; {whose} {has}")
