"""Someone, or something, never seen: the spare user with her choices, the spare bundle with its contents."""

from collections.abc import Sequence

from clbr.errors import InputError
from clbr.inference.artifact import Artefact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.whatif import State, edited


def newcomer(artefact: Artefact, items: Sequence[int] = (), bundles: Sequence[int] = ()) -> State:
    """Things as they would be if someone with these choices were there: `scores(artefact.spare_user)` are hers."""
    artefact.refuse_questions()
    if not items and not bundles:
        raise InputError("of someone never seen nothing is known: give items or bundles that she likes")
    edits = history_edits(artefact, artefact.spare_user, add_items=tuple(items), add_bundles=tuple(bundles))
    return edited(artefact, edits)


def new_bundle(artefact: Artefact, items: Sequence[int]) -> State:
    """Things as they would be with a new bundle of these items: `audience(state, artefact.spare_bundle, k)` is its."""
    artefact.refuse_questions()
    if not items:
        raise InputError("of a bundle never seen its contents are needed: give items")
    return edited(artefact, contents_edits(artefact, artefact.spare_bundle, add_items=tuple(items)))
