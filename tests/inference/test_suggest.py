from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clbr.errors import InputError
from clbr.inference.artifact import Artefact, open_artefact
from clbr.inference.edit_requests import contents_edits
from clbr.inference.recommend import of_left
from clbr.inference.suggest import suggest
from clbr.inference.whatif import ask_bundle

K = 5


def held(artefact: Artefact, bundle: int) -> list[int]:
    return of_left(artefact.graph.bi.pairs, bundle).tolist()


def audience(artefact: Artefact, bundle: int, add: tuple[int, ...], drop: tuple[int, ...]) -> int:
    edits = contents_edits(artefact, bundle, add_items=add, drop_items=drop)
    return len(ask_bundle(artefact, bundle, edits, K).after)


@pytest.mark.parametrize("model", ["crosscbr", "bgcn"])
def test_every_suggestion_holds_exactly_and_gains(artefact_of: Callable[[str], Path], model: str) -> None:
    artefact = open_artefact(artefact_of(model))
    seen = 0
    for bundle in range(0, artefact.about.bundles, 10):
        found = suggest(artefact, bundle, K)
        assert found.audience == audience(artefact, bundle, (), ())
        sizes = [one.audience for one in found.best]
        assert sizes == sorted(sizes, reverse=True)
        for one in found.best:
            assert one.swap.old in held(artefact, bundle) and one.swap.new not in held(artefact, bundle)
            assert one.audience == audience(artefact, bundle, (one.swap.new,), (one.swap.old,)) > found.audience
        seen += len(found.best)
    assert seen > 0


def test_suggestions_are_better_than_swaps_by_chance(artefact: Artefact) -> None:
    draw = np.random.default_rng(0)
    suggested, by_chance = [], []
    for bundle in range(0, artefact.about.bundles, 4):
        inside = held(artefact, bundle)
        others = np.setdiff1d(np.arange(artefact.about.items), inside)
        now = audience(artefact, bundle, (), ())
        swaps = [(int(draw.choice(others)), int(draw.choice(inside))) for _ in range(8)]
        by_chance.append(max(audience(artefact, bundle, (new,), (old,)) for new, old in swaps) - now)
        best = suggest(artefact, bundle, K).best
        suggested.append(best[0].audience - now if best else 0)
    assert np.mean(suggested) > np.mean(by_chance)


def test_suggestions_go_on_from_edits(artefact: Artefact) -> None:
    bundle = next(b for b in range(artefact.about.bundles) if suggest(artefact, b, K).best)
    first = suggest(artefact, bundle, K).best[0]
    found = suggest(artefact, bundle, K, add_items=(first.swap.new,), drop_items=(first.swap.old,))
    assert found.audience == first.audience
    for one in found.best:
        assert one.swap.new != first.swap.old  # what was taken out is not offered again
        add = {first.swap.new, one.swap.new} - {one.swap.old}
        drop = {first.swap.old, one.swap.old} - {first.swap.new}
        assert one.audience == audience(artefact, bundle, tuple(add), tuple(drop)) > found.audience


def test_a_bundle_without_contents_has_nothing_to_swap(artefact: Artefact) -> None:
    bundle = 0
    assert suggest(artefact, bundle, K, drop_items=tuple(held(artefact, bundle))).best == []


def test_a_model_that_does_not_look_into_bundles_says_so(artefact_of: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="lightgcn does not look at what is in a bundle"):
        suggest(open_artefact(artefact_of("lightgcn")), 0, K)
