"""Agreement with retraining, measured for a recommender: which edits are made, what changes, and that it is quoted."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import clbr
from clbr import BundleDataset, InputError, Recommender, World
from clbr.data.pairs import neighbours
from clbr.inference.export import run_artifact
from clbr.inference.retraining import SIZES, EditKind, draw_edits, edit_dataset, measure_whatif, served
from clbr.inference.whatif import edited_state, factual_state
from clbr.training.run import start
from clbr.training.run_folder import read_config


@pytest.mark.parametrize("kind", list(SIZES))
def test_each_edited_node_gets_and_loses_as_many_pairs_as_its_kind_says(tiny: World, kind: EditKind) -> None:
    dataset = tiny.dataset
    nodes, edits = draw_edits(dataset, kind, 20)
    edited = edit_dataset(dataset, edits)
    relation, before, after = {
        "items": ("ui", dataset.ui, edited.ui),
        "bundles": ("ub", dataset.train, edited.train),
        "swaps": ("bi", dataset.bi, edited.bi),
        "contents": ("bi", dataset.bi, edited.bi),
    }[kind.partition("-")[0]]
    for node in nodes.tolist():
        old, new = set(neighbours(before, node).tolist()), set(neighbours(after, node).tolist())
        gained, lost = len(new - old), len(old - new)
        assert lost == (0 if kind.endswith("added") else SIZES[kind])
        assert gained == 0 if kind.endswith("dropped") else 0 < gained <= SIZES[kind]
    untouched = ~np.isin(before[:, 0], nodes)
    assert np.array_equal(before[untouched], after[~np.isin(after[:, 0], nodes)])
    assert {name for name in ("ub", "ui", "bi") if edits.touches(name)} == {relation}  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "column"), [("bundles-added", 0), ("contents-added", 1)])
def test_popular_nodes_are_those_with_the_most_choices(tiny: World, kind: EditKind, column: int) -> None:
    nodes, _ = draw_edits(tiny.dataset, kind, 10, popular=True)
    choices = np.bincount(tiny.dataset.train[:, column])
    assert sorted(choices[nodes]) == sorted(choices)[-10:]
    assert not np.array_equal(nodes, draw_edits(tiny.dataset, kind, 10)[0])


def test_a_bundle_that_was_added_is_held_out_no_longer(tiny: World) -> None:
    _, edits = draw_edits(tiny.dataset, "bundles-added", 400)
    edited = edit_dataset(tiny.dataset, edits)
    added = {tuple(pair) for pair in edits.add["ub"].tolist()}
    held_out = {tuple(pair) for pair in np.concatenate([tiny.dataset.validation, tiny.dataset.test]).tolist()}
    assert added & held_out
    left = {tuple(pair) for pair in np.concatenate([edited.validation, edited.test]).tolist()}
    assert left == held_out - added


def agreement_by_hand(dataset: BundleDataset, recommender: Recommender, space: Path) -> tuple[float, float]:
    """Of `items-added`: the mean rank correlation of the answers with each retraining, and of each two retrainings."""
    nodes, edits = draw_edits(dataset, "items-added")
    config, edited = read_config(space / "run"), edit_dataset(dataset, edits)

    def scores(data: BundleDataset, seed: int) -> np.ndarray:
        folder = space / f"{seed}-{data is edited}"
        start(folder, config.model_copy(update={"seed": seed}), data)
        return served(run_artifact(folder, data)).scores(torch.from_numpy(nodes)).numpy()

    retrained = [scores(edited, seed) - scores(dataset, seed) for seed in (1, 2, 3)]
    states = edited_state(recommender.artifact, edits), factual_state(recommender.artifact)
    after, before = (np.stack([state.scores(int(node))[:-1].numpy() for node in nodes]) for state in states)
    plain = [spearmanr(after[row] - before[row], one[row])[0] for one in retrained for row in range(len(nodes))]
    pairs = [(retrained[a][row], retrained[b][row]) for a, b in ((0, 1), (0, 2), (1, 2)) for row in range(len(nodes))]
    return float(np.mean(plain)), float(np.mean([spearmanr(*pair)[0] for pair in pairs]))


def test_an_export_measures_it_and_the_card_and_the_answers_quote_it(tiny: World, tmp_path: Path) -> None:
    clbr.fit(tiny.dataset, "crosscbr", progress=False, epochs=3, learning_rate=0.02, out=tmp_path / "run")
    done: list[int] = []
    clbr.export(tmp_path / "run", tmp_path / "a", data=tiny.dataset, measure_whatif=3, on_progress=done.append)
    assert done == list(range(1, 13))
    opened = clbr.load_recommender(tmp_path / "a")
    measured = opened.artifact.about.whatif_agreement
    assert list(measured) == ["items-added", "bundles-added", "swaps"]
    assert measured["items-added"].users == 200 and measured["items-added"].seeds == 3
    plain, between = agreement_by_hand(tiny.dataset, opened, tmp_path)
    assert measured["items-added"].plain == pytest.approx(plain, abs=1e-6)
    assert measured["items-added"].between == pytest.approx(between, abs=1e-6)
    assert measured["items-added"].corrected == pytest.approx(plain / between**0.5, abs=1e-5)
    assert f"items added {plain / between**0.5:.2f}" in opened.card
    assert "what retraining changes on average" in opened.whatif(3).caveat and opened.whatif(3).caveat in opened.card


def test_two_seeds_are_not_enough(tiny: World, tmp_path: Path) -> None:
    recommender = clbr.fit(tiny.dataset, "lightgcn", progress=False, epochs=1, out=tmp_path / "run")
    with pytest.raises(InputError, match="needs 3 seeds or more"):
        measure_whatif(recommender.artifact, read_config(tmp_path / "run"), tiny.dataset, 2, run_artifact)
