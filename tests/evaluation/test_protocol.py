from dataclasses import replace
from math import log2

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clbr import BundleDataset, InputError, Nodes, Popularity, World, evaluate
from conftest import Fixed, make_dataset


def test_what_was_worked_out_by_hand(small: BundleDataset) -> None:
    """Popularity 1, 3, 1, 0. User 0 has bundles 0 and 1, is offered 2, 3 and chose 3;
    user 1 has 1, is offered 0, 2 and chose 2 and 3. User 2 has no test pair."""
    result = evaluate(Popularity.fit(small), small, split="test", ks=(2,))
    assert result.users.tolist() == [0, 1]
    assert result.per_user["recall@2"].tolist() == [1.0, 0.5]
    assert result["recall@2"] == 0.75
    assert result.per_user["ndcg@2"].tolist() == pytest.approx([1 / log2(3), (1 / log2(3)) / (1 + 1 / log2(3))])
    assert result["coverage@2"] == 3 / 4
    assert result["popularity@2"] == pytest.approx((0.5 + 1.0) / 2)


def test_tune_pairs_are_left_out_of_the_test_ranking_only_on_demand(small: BundleDataset) -> None:
    model = Popularity.fit(small)
    assert evaluate(model, small, split="test", ks=(1,))["recall@1"] == 0.0
    masked = evaluate(model, small, split="test", ks=(1,), mask_validation=True)
    assert masked.per_user["recall@1"].tolist() == [
        1.0,
        0.5,
    ]  # validation pairs (0, 2) and (1, 0) no longer stand before


def test_masked_pairs_are_left_out_besides_the_training_pairs(small: BundleDataset) -> None:
    """As if all but the first two training pairs had been withheld: user 1 is offered bundle 1 unless it is masked."""
    fewer, model = replace(small, train=small.train[:2]), Popularity.fit(small)
    assert evaluate(model, fewer, split="test", ks=(1,)).ranking.tolist() == [[2], [1]]
    assert evaluate(model, fewer, split="test", ks=(1,), masked=small.train).ranking.tolist() == [[2], [0]]
    both = evaluate(model, fewer, split="test", ks=(1,), masked=small.train, mask_validation=True)
    assert both.ranking.tolist() == [[3], [2]]


def test_tune_is_evaluated_on_tune_pairs(small: BundleDataset) -> None:
    assert evaluate(Popularity.fit(small), small, split="validation", ks=(1,)).per_user["recall@1"].tolist() == [
        1.0,
        1.0,
    ]


def test_a_k_beyond_the_bundles_finds_all_that_is_there(small: BundleDataset) -> None:
    assert evaluate(Popularity.fit(small), small, split="test", ks=(50,))["recall@50"] == 1.0


@pytest.mark.parametrize("wrong", [{"split": "train"}, {"split": "all"}, {"ks": ()}, {"ks": (0, 5)}])
def test_what_cannot_be_evaluated_is_refused(small: BundleDataset, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        evaluate(Popularity.fit(small), small, **({"split": "test"} | wrong))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no validation pairs"):
        evaluate(Popularity.fit(small), make_dataset(validation=np.empty((0, 2))), split="validation")


def slow_evaluation(scores: np.ndarray, dataset: BundleDataset, k: int) -> dict[str, list[float]]:
    """The protocol in plain python, one user at a time, independent of the package's ranking and metrics."""
    train: dict[int, set[int]] = {}
    for user, bundle in dataset.train.tolist():
        train.setdefault(user, set()).add(bundle)
    wanted: dict[int, set[int]] = {}
    for user, bundle in dataset.test.tolist():
        wanted.setdefault(user, set()).add(bundle)
    results: dict[str, list[float]] = {"recall": [], "ndcg": [], "hit": [], "mrr": [], "map": []}
    for user in sorted(wanted):
        candidates = [b for b in range(scores.shape[1]) if b not in train.get(user, set())]
        candidates.sort(key=lambda b: (-scores[user, b], b))
        places = [place for place, bundle in enumerate(candidates[:k], start=1) if bundle in wanted[user]]
        results["recall"].append(len(places) / len(wanted[user]))
        ideal = sum(1 / log2(place + 1) for place in range(1, min(k, len(wanted[user])) + 1))
        results["ndcg"].append(sum(1 / log2(place + 1) for place in places) / ideal)
        results["hit"].append(float(bool(places)))
        results["mrr"].append(1 / places[0] if places else 0.0)
        precisions = [found / place for found, place in enumerate(places, start=1)]
        results["map"].append(sum(precisions) / min(k, len(wanted[user])))
    return results


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 9))
def test_it_equals_an_independent_slow_implementation(seed: int, k: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(4, size=(7, 11), p=[0.25, 0.05, 0.2, 0.5])
    labels[0, 0], labels[0, 1] = 0, 2
    dataset = make_dataset(
        users=Nodes("user", 7),
        bundles=Nodes("bundle", 11),
        train=np.argwhere(labels == 0),
        validation=np.argwhere(labels == 1),
        test=np.argwhere(labels == 2),
    )
    scores = rng.integers(4, size=(7, 11)).astype(np.float32)  # ties everywhere
    result = evaluate(Fixed(torch.from_numpy(scores)), dataset, split="test", ks=(k,), block=block)
    for name, values in slow_evaluation(scores, dataset, k).items():
        assert result.per_user[f"{name}@{k}"].tolist() == pytest.approx(values), name


def test_on_a_whole_world_too(tiny: World) -> None:
    model = Popularity.fit(tiny.dataset)
    scores = np.tile(model.counts.numpy(), (600, 1))
    result = evaluate(model, tiny.dataset, split="test", ks=(20,))
    for name, values in slow_evaluation(scores, tiny.dataset, 20).items():
        assert result.per_user[f"{name}@20"].tolist() == pytest.approx(values), name
