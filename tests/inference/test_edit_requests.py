import numpy as np
import pytest

from clbr import InputError
from clbr.inference.artifact import Artifact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.recommend import of_left


def test_edits_that_cannot_be_are_refused_in_words(artifact: Artifact) -> None:
    has = int(of_left(artifact.graph.ui.pairs, 3)[0])
    lacks = int(np.setdiff1d(np.arange(240), of_left(artifact.graph.ui.pairs, 3))[0])
    for options, message in (
        ({"add_items": (has,)}, f"user 3 has item {has} already, so adding it would change nothing"),
        ({"drop_items": (lacks,)}, f"user 3 does not have item {lacks} and cannot lose it; user 3 has "),
        ({"add_items": (lacks, lacks)}, f"item {lacks} is added twice"),
        ({"add_items": (lacks,), "drop_items": (lacks,)}, f"item {lacks} is added and dropped: choose one"),
    ):
        with pytest.raises(InputError, match=message):
            history_edits(artifact, 3, **options)  # type: ignore[arg-type]
    inside = int(of_left(artifact.graph.bi.pairs, 5)[0])
    with pytest.raises(InputError, match=f"bundle 5 has item {inside} already"):
        contents_edits(artifact, 5, add_items=(inside,))
