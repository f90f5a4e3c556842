from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import BundleDataset, InputError
from clbr.counterfactual.samplers import Record
from clbr.counterfactual.views import extremes, mean_pass_rates, read_run_views, read_views, summarise, write_views
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.embeddings import Embeddings, Level
from conftest import make_dataset


def pairs(*given: tuple[int, int]) -> np.ndarray:
    return np.array(given, np.int32)


def test_the_summary_of_views_equals_the_values_computed_by_hand(small: BundleDataset) -> None:
    """Training pairs (0,0) (0,1) (1,1) (2,1) (2,2): bundle 3 has no user, user 1 has one bundle."""
    one = EdgeEdits(add={"ub": pairs((0, 3), (2, 3))}, drop={"ub": pairs((1, 1))})
    other = EdgeEdits(add={"ub": pairs((0, 3))})
    (summary,) = summarise(BundleGraph.of(small), [one, other])
    assert (summary.relation, summary.edges) == ("ub", 5)
    assert (summary.added, summary.dropped) == (1.5, 0.5)
    assert summary.additions_to_isolated == 0  # bundle 3 had no edge, but every user had one
    assert summary.nodes == pytest.approx(
        (5 / 7 + 2 / 7) / 2
    )  # users 0, 1, 2 and bundles 1, 3; then user 0 and bundle 3
    assert summary.change == pytest.approx((6 / 5 + 1) / 2)  # bundle 3 by two, the others by one
    assert summary.largest == 2
    assert summary.newly_isolated == 0.5  # user 1, in the first view
    assert summary.newly_connected == 1  # bundle 3, in both
    assert summary.shared == pytest.approx(1 / 3)  # of the first view's three edits


def test_additions_to_users_without_an_edge_are_counted_over_all_views() -> None:
    """User 1 has no bundle: one of the first view's two additions, all of the second's one, belong to user 1."""
    graph = BundleGraph.of(make_dataset(train=np.array([[0, 0], [2, 1]])))
    one, other = EdgeEdits(add={"ub": pairs((0, 3), (1, 2))}), EdgeEdits(add={"ub": pairs((1, 3))})
    (summary,) = summarise(graph, [one, other])
    assert summary.additions_to_isolated == pytest.approx(2 / 3)
    (summary,) = summarise(graph, [EdgeEdits(drop={"ub": pairs((0, 0))})])
    assert summary.additions_to_isolated == 0


def test_pass_rates_are_means_over_the_views_with_evaluated_candidates() -> None:
    records: list[Record] = [
        {"ub": {"pass rate of additions": 0.2, "pass rate of drops": 0.9}, "bi": {"added": 3}},
        {"ub": {"pass rate of additions": 0.4, "pass rate of drops": 0.7}, "bi": {"added": 3}},
    ]
    assert mean_pass_rates(records, "additions") == {"ub": pytest.approx(0.3)}
    assert mean_pass_rates(records, "drops") == {"ub": pytest.approx(0.8)}
    assert mean_pass_rates([{}], "drops") == {}


def test_extremes_are_the_best_additions_then_the_worst_drops(small: BundleDataset) -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]])
    vectors = Embeddings({"only": Level(scores, torch.eye(4))})
    view = EdgeEdits(add={"ub": pairs((0, 2), (1, 3), (0, 3))}, drop={"ub": pairs((2, 2), (0, 1), (0, 0))})
    found = extremes([view, view], vectors, 2)
    assert [(edit.left, edit.right, edit.relevance, edit.added) for edit in found] == [
        (1, 3, 8.0, True),
        (0, 3, 4.0, True),
        (0, 0, 1.0, False),
        (0, 1, 2.0, False),
    ]


def test_views_that_are_written_are_read_back(tmp_path: Path) -> None:
    views = [EdgeEdits(add={"ub": pairs((0, 3))}, drop={"bi": pairs((1, 1))}), EdgeEdits()]
    write_views(tmp_path, views, [{"ub": {"added": 1}, "bi": {"added": 0}}, {}])
    again, records = read_views(tmp_path)
    assert again[0].add["ub"].tolist() == [[0, 3]]
    assert again[0].drop["bi"].tolist() == [[1, 1]]
    assert not any(again[1].touches(relation) for relation in ("ub", "ui", "bi"))
    assert records[0]["ub"]["added"] == 1


def test_damaged_views_are_an_error(tmp_path: Path) -> None:
    write_views(tmp_path, [EdgeEdits()], [{}])
    (tmp_path / "views.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="views.safetensors: not a set of views"):
        read_views(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("views.safetensors", b"\x07", b"\x06"), ("views.json", b"0.5", b"0.6"), ("views.json", b"{", b"[")],
)
def test_changed_views_are_an_error(name: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    """The changed file is still readable, but it does not hold the views that the run was trained with."""
    write_views(tmp_path, [EdgeEdits(add={"ub": pairs((0, 7))})], [{"ub": {"added": 1, "pass rate of additions": 0.5}}])
    content = (tmp_path / name).read_bytes()
    assert old in content
    (tmp_path / name).write_bytes(content.replace(old, new))
    with pytest.raises(InputError, match="the checksum of it and views.json differs from the one written"):
        read_views(tmp_path)


def test_views_of_a_run_without_views_or_with_undrawn_ones_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was trained without views; train a run with the paradigm clbr or casr"):
        read_run_views(tmp_path, expected=False)
    with pytest.raises(InputError, match="has no views yet, .*; resume the training"):
        read_run_views(tmp_path, expected=True)
