from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clbr.errors import InputError
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_requests import contents_edits
from clbr.inference.recommend import of_left
from clbr.inference.suggest import suggest
from clbr.inference.whatif import ask_bundle

K = 5


def held(artifact: Artifact, bundle: int) -> list[int]:
    return of_left(artifact.graph.bi.pairs, bundle).tolist()


def audience(artifact: Artifact, bundle: int, add: tuple[int, ...], drop: tuple[int, ...]) -> int:
    edits = contents_edits(artifact, bundle, add_items=add, drop_items=drop)
    return len(ask_bundle(artifact, bundle, edits, K).after)


@pytest.mark.parametrize("model", ["crosscbr", "bgcn"])
def test_every_suggestion_holds_exactly_and_gains(artifact_of: Callable[[str], Path], model: str) -> None:
    artifact = open_artifact(artifact_of(model))
    seen = 0
    for bundle in range(0, artifact.about.bundles, 10):
        found = suggest(artifact, bundle, K)
        assert found.audience == audience(artifact, bundle, (), ())
        sizes = [one.audience for one in found.best]
        assert sizes == sorted(sizes, reverse=True)
        for one in found.best:
            assert one.swap.old in held(artifact, bundle) and one.swap.new not in held(artifact, bundle)
            assert one.audience == audience(artifact, bundle, (one.swap.new,), (one.swap.old,)) > found.audience
        seen += len(found.best)
    assert seen > 0


def test_suggestions_are_better_than_swaps_by_chance(artifact: Artifact) -> None:
    draw = np.random.default_rng(0)
    suggested, by_chance = [], []
    for bundle in range(0, artifact.about.bundles, 4):
        inside = held(artifact, bundle)
        others = np.setdiff1d(np.arange(artifact.about.items), inside)
        now = audience(artifact, bundle, (), ())
        swaps = [(int(draw.choice(others)), int(draw.choice(inside))) for _ in range(8)]
        by_chance.append(max(audience(artifact, bundle, (new,), (old,)) for new, old in swaps) - now)
        best = suggest(artifact, bundle, K).best
        suggested.append(best[0].audience - now if best else 0)
    assert np.mean(suggested) > np.mean(by_chance)


def test_suggestions_go_on_from_edits(artifact: Artifact) -> None:
    bundle = next(b for b in range(artifact.about.bundles) if suggest(artifact, b, K).best)
    first = suggest(artifact, bundle, K).best[0]
    found = suggest(artifact, bundle, K, add_items=(first.swap.new,), drop_items=(first.swap.old,))
    assert found.audience == first.audience
    for one in found.best:
        assert one.swap.new != first.swap.old  # what was taken out is not offered again
        add = {first.swap.new, one.swap.new} - {one.swap.old}
        drop = {first.swap.old, one.swap.old} - {first.swap.new}
        assert one.audience == audience(artifact, bundle, tuple(add), tuple(drop)) > found.audience


def test_a_bundle_without_contents_has_nothing_to_swap(artifact: Artifact) -> None:
    bundle = 0
    assert suggest(artifact, bundle, K, drop_items=tuple(held(artifact, bundle))).best == []


def test_a_model_that_does_not_look_into_bundles_says_so(artifact_of: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="lightgcn does not look at what is in a bundle"):
        suggest(open_artifact(artifact_of("lightgcn")), 0, K)
