"""Someone, or something, never seen: the spare user with her choices, the spare bundle with its contents."""

from collections.abc import Sequence

from clbr.errors import InputError
from clbr.inference.artifact import Artifact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.whatif import State, edited


def newcomer(artifact: Artifact, items: Sequence[int] = (), bundles: Sequence[int] = ()) -> State:
    """Things as they would be if someone with these choices were there: `scores(artifact.unseen_user)` are hers."""
    artifact.require_whatif()
    if not items and not bundles:
        raise InputError("of someone never seen nothing is known: give items or bundles that she likes")
    edits = history_edits(artifact, artifact.unseen_user, add_items=tuple(items), add_bundles=tuple(bundles))
    return edited(artifact, edits)


def new_bundle(artifact: Artifact, items: Sequence[int]) -> State:
    """Things as they would be with a new bundle of these items: `audience(state, artifact.unseen_bundle, k)` is its."""
    artifact.require_whatif()
    if not items:
        raise InputError("of a bundle never seen its contents are needed: give items")
    return edited(artifact, contents_edits(artifact, artifact.unseen_bundle, add_items=tuple(items)))
