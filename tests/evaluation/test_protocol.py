from dataclasses import replace
from math import log2

import numpy as np
import polars
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clbr.data.dataset import BundleDataset, Nodes
from clbr.errors import InputError
from clbr.evaluation.protocol import BestBaseline, evaluate
from clbr.models.registry import baseline_scorer
from clbr.simulation.world import World
from conftest import Fixed, make_dataset


def test_metrics_equal_those_worked_out_by_hand(small: BundleDataset) -> None:
    """Popularity 1, 3, 1, 0. User 0 has bundles 0 and 1, is offered 2, 3 and chose 3;
    user 1 has 1, is offered 0, 2 and chose 2 and 3. User 2 has no test pair."""
    result = evaluate(baseline_scorer("popularity", small), small, split="test", ks=(2,))
    assert result.users.tolist() == [0, 1]
    assert result.per_user["recall@2"].tolist() == [1.0, 0.5]
    assert result["recall@2"] == 0.75
    assert result.per_user["ndcg@2"].tolist() == pytest.approx([1 / log2(3), (1 / log2(3)) / (1 + 1 / log2(3))])
    assert result["coverage@2"] == 3 / 4
    assert result["popularity@2"] == pytest.approx((0.5 + 1.0) / 2)


def test_validation_pairs_are_masked_on_test_only_on_request(small: BundleDataset) -> None:
    scorer = baseline_scorer("popularity", small)
    assert evaluate(scorer, small, split="test", ks=(1,))["recall@1"] == 0.0
    masked = evaluate(scorer, small, split="test", ks=(1,), mask_validation=True)
    assert masked.per_user["recall@1"].tolist() == [1.0, 0.5]  # without the validation pairs (0, 2) and (1, 0)


def test_masked_pairs_are_excluded_in_addition_to_the_training_pairs(small: BundleDataset) -> None:
    """All but the first two training pairs are withheld: user 1 is recommended bundle 1 unless it is masked."""
    fewer, scorer = replace(small, train=small.train[:2]), baseline_scorer("popularity", small)
    assert evaluate(scorer, fewer, split="test", ks=(1,)).ranking.tolist() == [[2], [1]]
    assert evaluate(scorer, fewer, split="test", ks=(1,), masked=small.train).ranking.tolist() == [[2], [0]]
    both = evaluate(scorer, fewer, split="test", ks=(1,), masked=small.train, mask_validation=True)
    assert both.ranking.tolist() == [[3], [2]]


def test_validation_is_evaluated_on_validation_pairs(small: BundleDataset) -> None:
    result = evaluate(baseline_scorer("popularity", small), small, split="validation", ks=(1,))
    assert result.per_user["recall@1"].tolist() == [1.0, 1.0]


def test_at_most_max_users_are_ranked_always_the_same_ones(tiny: World) -> None:
    scorer = baseline_scorer("popularity", tiny.dataset)
    full = evaluate(scorer, tiny.dataset, split="validation", max_users=10_000)
    some, again = (evaluate(scorer, tiny.dataset, split="validation", max_users=50) for _ in range(2))
    assert len(some.users) == 50 and some.users.tolist() == again.users.tolist() == sorted(set(some.users.tolist()))
    at = np.searchsorted(full.users, some.users)
    assert some.per_user["recall@20"].tolist() == full.per_user["recall@20"][at].tolist()


def test_a_k_above_the_number_of_bundles_finds_every_pair(small: BundleDataset) -> None:
    assert evaluate(baseline_scorer("popularity", small), small, split="test", ks=(50,))["recall@50"] == 1.0


@pytest.mark.parametrize("wrong", [{"split": "train"}, {"split": "all"}, {"ks": ()}, {"ks": (0, 5)}])
def test_a_wrong_split_or_k_and_a_split_without_pairs_are_rejected(
    small: BundleDataset, wrong: dict[str, object]
) -> None:
    with pytest.raises(InputError):
        evaluate(baseline_scorer("popularity", small), small, **({"split": "test"} | wrong))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no validation pairs"):
        evaluate(baseline_scorer("popularity", small), make_dataset(validation=np.empty((0, 2))), split="validation")


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
        ranks = [rank for rank, bundle in enumerate(candidates[:k], start=1) if bundle in wanted[user]]
        results["recall"].append(len(ranks) / len(wanted[user]))
        ideal = sum(1 / log2(rank + 1) for rank in range(1, min(k, len(wanted[user])) + 1))
        results["ndcg"].append(sum(1 / log2(rank + 1) for rank in ranks) / ideal)
        results["hit"].append(float(bool(ranks)))
        results["mrr"].append(1 / ranks[0] if ranks else 0.0)
        precisions = [found / rank for found, rank in enumerate(ranks, start=1)]
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


def test_it_equals_the_slow_implementation_on_a_simulated_world(tiny: World) -> None:
    scorer = baseline_scorer("popularity", tiny.dataset)
    scores = scorer.scores(torch.arange(600)).numpy()
    result = evaluate(scorer, tiny.dataset, split="test", ks=(20,))
    for name, values in slow_evaluation(scores, tiny.dataset, 20).items():
        assert result.per_user[f"{name}@20"].tolist() == pytest.approx(values), name


def test_a_frame_has_a_row_for_each_metric(small: BundleDataset) -> None:
    result = evaluate(baseline_scorer("popularity", small), small, split="test", ks=(2,))
    frame = result.to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == ["metric", "value"]
    assert dict(frame.iter_rows()) == result.means


def test_a_frame_sets_the_baseline_beside_each_value(small: BundleDataset) -> None:
    result = evaluate(baseline_scorer("EASE", small), small, split="test", ks=(2,))
    best = BestBaseline(name="EASE", settings={"l2": 500.0}, metric="recall@20", means={"recall@2": 0.8})
    beside = replace(result, baseline=best)
    below = "this model is below the best baseline, EASE (l2 500): recall@2 75.00 against 80.00 percent."
    assert repr(beside).endswith(below)
    frame = beside.to_frame()
    assert frame.columns == ["metric", "value", "baseline", "baseline_value"]
    assert frame["baseline"].unique().to_list() == ["EASE (l2 500)"]
    values = dict(zip(frame["metric"], frame["baseline_value"], strict=True))
    assert values == dict.fromkeys(result.means) | {"recall@2": 0.8}
    with pytest.raises(InputError, match="unknown backend 'excel'"):
        replace(beside, backend="excel").to_frame()


def test_a_frame_is_a_pandas_frame_on_request(small: BundleDataset) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    result = evaluate(baseline_scorer("popularity", small), small, split="test", ks=(2,))
    frame = replace(result, backend="pandas").to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["metric", "value"]


def test_progress_is_reported_after_each_block(small: BundleDataset) -> None:
    done: list[int] = []
    evaluate(baseline_scorer("popularity", small), small, split="test", block=1, on_progress=done.append)
    assert done == [1, 2]
