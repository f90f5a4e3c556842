from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from clbr import InputError, Recommender, load_recommender
from clbr.data.pairs import neighbours

K = 5


def contents(recommender: Recommender, bundle: int) -> list[int]:
    return neighbours(recommender.artifact.graph.bi.pairs, bundle).tolist()


def audience(recommender: Recommender, bundle: int, add: Sequence[object], drop: Sequence[object]) -> int:
    return recommender.audience(bundle, add_items=add, drop_items=drop, k=K).after  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["crosscbr", "bgcn", "bundlegt", "multicbr", "trilevel"])
def test_every_suggestion_holds_exactly_and_gains(artifact_of: Callable[[str], Path], model: str) -> None:
    recommender = load_recommender(artifact_of(model))
    seen = 0
    for bundle in range(0, 150, 10):
        found = recommender.suggest(bundle, k=K)
        assert found.audience == audience(recommender, bundle, (), ())
        sizes = [swap.audience for swap in found.swaps]
        assert sizes == sorted(sizes, reverse=True)
        inside = [str(item) for item in contents(recommender, bundle)]
        for swap in found.swaps:
            assert swap.old.id in inside and swap.new.id not in inside
            assert swap.audience == audience(recommender, bundle, [swap.new.id], [swap.old.id]) > found.audience
            assert swap.gain == swap.audience - found.audience
        seen += len(found.swaps)
    assert seen > 0


def test_suggestions_are_better_than_random_swaps(recommender: Recommender) -> None:
    draw = np.random.default_rng(0)
    suggested, by_chance = [], []
    for bundle in range(0, 150, 4):
        inside = contents(recommender, bundle)
        others = np.setdiff1d(np.arange(240), inside)
        now = audience(recommender, bundle, (), ())
        swaps = [(int(draw.choice(others)), int(draw.choice(inside))) for _ in range(8)]
        by_chance.append(max(audience(recommender, bundle, [new], [old]) for new, old in swaps) - now)
        best = recommender.suggest(bundle, k=K).swaps
        suggested.append(best[0].gain if best else 0)
    assert np.mean(suggested) > np.mean(by_chance)


def test_suggestions_go_on_from_edits(recommender: Recommender) -> None:
    bundle = next(b for b in range(150) if recommender.suggest(b, k=K).swaps)
    first = recommender.suggest(bundle, k=K).swaps[0]
    found = recommender.suggest(bundle, k=K, add_items=[first.new.id], drop_items=[first.old.id])
    assert found.audience == first.audience
    for swap in found.swaps:
        assert swap.new.id != first.old.id  # an item that was dropped is not suggested again
        add = {first.new.id, swap.new.id} - {swap.old.id}
        drop = {first.old.id, swap.old.id} - {first.new.id}
        assert swap.audience == audience(recommender, bundle, [*add], [*drop]) > found.audience


def test_a_bundle_without_contents_has_nothing_to_swap(recommender: Recommender) -> None:
    assert recommender.suggest(0, k=K, drop_items=contents(recommender, 0)).swaps == []


def test_a_model_that_does_not_use_contents_says_so(artifact_of: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="lightgcn does not use a bundle's contents"):
        load_recommender(artifact_of("lightgcn")).suggest(0, k=K)
