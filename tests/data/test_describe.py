import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clbr import BundleDataset, InputError, Nodes, describe
from clbr.data.describe import SEGMENTS, Degrees, plot, segment_users
from conftest import make_dataset


def test_counts_densities_and_degrees_are_those_worked_out_by_hand(small: BundleDataset) -> None:
    found = describe(small)
    assert [found.count(what) for what in ("users", "bundles", "items")] == [3, 4, 5]
    assert [found.count(what) for what in ("user_bundle", "user_item", "bundle_item")] == [10, 4, 6]
    assert found.relations["user_bundle"].density == 10 / 12
    assert found.relations["user_item"].left == Degrees(median=1.0, p90=1.8, max=2)  # degrees 2, 1, 1
    assert found.relations["bundle_item"].right == Degrees(median=1.0, p90=1.6, max=2)  # degrees 1, 2, 1, 1, 1
    assert found.split == {"train": 5, "validation": 2, "test": 3}


def test_cold_nodes_are_counted_on_training_pairs() -> None:
    dataset = make_dataset(users=Nodes("user", 5), ui=np.array([[3, 0]]))
    assert describe(dataset).cold == {
        "users without a training bundle": 2,
        "users without an item": 4,
        "users without either": 1,
        "bundles without a training user": 1,
        "bundles without an item": 0,
    }


def test_json_holds_everything_on_one_line(small: BundleDataset) -> None:
    text = describe(small).to_json()
    assert "\n" not in text
    content = json.loads(text)
    assert content["relations"]["user_item"] == {
        "pairs": 4, "density": 4 / 15, "left": {"median": 1.0, "p90": 1.8, "max": 2},
        "right": {"median": 1.0, "p90": 1.0, "max": 1},
    }  # fmt: skip
    assert content["published"] is None


def test_youshu_has_fewer_pairs_than_published_and_says_why(real: Callable[[str], BundleDataset]) -> None:
    found = describe(real("Youshu"))
    assert found.published is not None
    assert found.published.differences == {"user_bundle": (49_351, 51_377)}
    assert "a pair counts once here" in found.published.note
    assert found.cold["users without a training bundle"] == 8_039 - 2_959
    assert found.cold["bundles without a training user"] == 646
    assert found.cold["users without an item"] == 33


def test_a_partial_copy_says_that_it_is_not_comparable(real: Callable[[str], BundleDataset]) -> None:
    found = describe(real("NetEasePartial"))
    assert found.published is not None
    assert "not comparable" in found.published.note
    assert set(found.published.differences) == {"user_bundle", "user_item", "bundle_item"}
    assert found.cold["bundles without an item"] == 35


def test_another_data_set_with_a_published_name_is_recognised() -> None:
    published = describe(make_dataset(name="Youshu")).published
    assert published is not None
    assert not published.agrees
    assert "not the published data set" in published.note


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_degrees_and_held_out_shares_are_plotted(small: BundleDataset, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"degrees{suffix}"
    datasets = [small, make_dataset(name="other")]
    plot(datasets, [describe(dataset) for dataset in datasets], path)
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_plot_of_an_unknown_format_is_an_error(small: BundleDataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in .png, .svg, .pdf"):
        plot([small], [describe(small)], tmp_path / "degrees.bmp")


def test_users_are_heavy_or_light_by_the_median_of_those_with_bundles_and_cold_without() -> None:
    chosen = np.array([[0, 0], [1, 0], [1, 1], [3, 0], [3, 1], [3, 2]])  # degrees 1, 2, 0, 3, 0; median of some: 2
    assert [SEGMENTS[segment] for segment in segment_users(chosen, 5)] == ["light", "light", "cold", "heavy", "cold"]
    assert [SEGMENTS[segment] for segment in segment_users(chosen[:0], 2)] == ["cold", "cold"]
