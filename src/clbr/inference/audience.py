"""A bundle's audience: the users who have it among their first k, before and after edits of its contents."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clbr.config import whole_number
from clbr.data.describe import SEGMENTS, segment_users
from clbr.errors import InputError
from clbr.inference.answers import Audience, NewBundleAudience, RankedUser, SegmentAudience
from clbr.inference.artifact import Artifact
from clbr.inference.edits_by_id import Edits, Ids, edit_contents, ineffective
from clbr.inference.whatif import edited_state, factual_state, list_length

MAX_USERS = 50
"""Users of an audience, or who enter or leave it, listed at most unless asked for more."""


def audience(
    artifact: Artifact,
    bundle: str | int,
    *,
    add_items: Ids = (),
    drop_items: Ids = (),
    swap: Sequence[tuple[str | int, str | int]] = (),
    edits: Edits | None = None,
    k: int = 20,
    max_users: int | None = MAX_USERS,
) -> Audience:
    """The users who have a bundle among their first k, before and after edits of its contents, or of anything.

    `swap` holds (old item, new item) pairs. At most `max_users` of those who enter and leave are listed; None: all.
    """
    artifact.require_whatif()
    index = artifact.bundles.index(bundle)
    add, drop = [*add_items, *(new for _, new in swap)], [*drop_items, *(old for old, _ in swap)]
    changed = edit_contents(artifact, index, add_items=add, drop_items=drop, edits=edits)
    k, listed = list_length(artifact, k), _listed(max_users)
    before = factual_state(artifact).audience(index, k)
    after = edited_state(artifact, changed).audience(index, k)
    segment = segment_users(artifact.graph.ub.pairs, artifact.about.users)
    segments = {
        name: SegmentAudience(
            users=int((segment == number).sum()),
            before=int((segment[before] == number).sum()),
            after=int((segment[after] == number).sum()),
        )
        for number, name in enumerate(SEGMENTS)
    }
    entered, left = np.setdiff1d(after, before), np.setdiff1d(before, after)
    return Audience(
        bundle=artifact.node("bundle", index),
        k=k,
        users=artifact.about.users,
        before=len(before),
        after=len(after),
        segments=segments,
        entered=[artifact.node("user", int(user)) for user in entered[:listed]],
        left=[artifact.node("user", int(user)) for user in left[:listed]],
        entered_count=len(entered),
        left_count=len(left),
        warnings=ineffective(artifact, changed),
        caveat=artifact.caveat,
    )


def new_bundle_audience(
    artifact: Artifact, items: Ids, *, k: int = 20, max_users: int | None = MAX_USERS
) -> NewBundleAudience:
    """The users in whose lists an unseen bundle of these items would rank best.

    At most `max_users` of those who have it among their first k are listed; None: all.
    """
    artifact.require_whatif()
    if not items:
        raise InputError("an unseen bundle needs items: name at least one", "items")
    k, listed = list_length(artifact, k), _listed(max_users)
    state = edited_state(artifact, edit_contents(artifact, artifact.unseen_bundle, add_items=items))
    ranks = state.ranks(artifact.unseen_bundle)
    best, audience = ranks.argsort(kind="stable"), int((ranks <= k).sum())

    def ranked(users: NDArray[np.int64]) -> list[RankedUser]:
        return [RankedUser(**artifact.node("user", int(u)).model_dump(), rank=int(ranks[u])) for u in users]

    return NewBundleAudience(
        items=[artifact.node("item", artifact.items.index(item)) for item in items],
        k=k,
        users=artifact.about.users,
        audience=audience,
        best=ranked(best[:k]),
        members=ranked(best[:audience][:listed]),
        caveat=artifact.caveat,
    )


def _listed(max_users: int | None) -> int | None:
    return None if max_users is None else whole_number(max_users, "max_users", least=0)
