"""The tests that decide what stands in bold: at their level where nothing differs, and they find what does."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from clbr import BundleDataset, World
from clbr.evaluation.metrics import Headline
from clbr.evaluation.significance import paired_p
from clbr.experiments.cells import Cell, VariantCell
from clbr.experiments.report.comparisons import LEVEL, Comparison, compare
from clbr.experiments.report.results import Results
from clbr.experiments.report.tables import measured, to_csv
from clbr.experiments.spec import Spec
from clbr.experiments.store import PerUser, Record, Store
from invented import cells, done, fill, spec

ARMS = {"original": {}} | {f"copy {n}": {"settings": {"patience": 30 + n}} for n in range(4)}


class Drawn(Store):
    """A store in memory: users have tastes of their own, every training shifts them all a little, one arm has a gain."""

    def __init__(self, placed: list[VariantCell], users: int, rng: np.random.Generator, gain: float = 0.0) -> None:
        super().__init__(Path("nowhere"))
        taste = rng.random(users)
        self.tests: dict[str, PerUser] = {}
        for one in placed:
            chance = np.clip(taste + gain * (one.arm == "copy 0") + 0.04 * rng.standard_normal(), 0, 1)
            values = (rng.random(users) < chance).astype(float)
            self.tests[one.cell.key] = PerUser({"recall@20": values}, np.zeros(10 * users, bool))

    def read(self, cell: Cell) -> Record:
        value = float(self.tests[cell.key].metrics["recall@20"].mean())
        return Record.model_construct(key=cell.key, state="done", test={"recall@20": value}, config=cell.config)

    def per_user(self, cell: Cell) -> PerUser:
        return self.tests[cell.key]


def plan(seeds: int) -> Spec:
    return spec(arms=ARMS, models=["bprmf"], seeds=seeds, metrics=["recall@20"])


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_copies_of_the_same_model_are_told_apart_at_about_the_level(tiny: World, seeds: int) -> None:
    """Four copies beside the base arm: a whole table is wrong anywhere 5 % of the time at most, by either test."""
    rng, tables = np.random.default_rng(0), 300
    placed = cells(plan(seeds), tiny.dataset)
    both = by_user = by_seed = 0
    for _ in range(tables):
        found = compare(Results(plan(seeds), tiny.dataset, placed, Drawn(placed, 480, rng))).values()
        assert len(found) == 4
        both += any(one.holds for one in found)
        by_user += any(one.p.users is not None and one.p.users < LEVEL for one in found)
        by_seed += any(one.holds_across_seeds for one in found)
    assert 0.005 < both / tables < 0.085
    assert by_user / tables > 0.3  # what a test that knows nothing of seeds would say
    assert by_seed == 0 if seeds < 10 else 0.01 < by_seed / tables < 0.085


def test_one_seed_never_stands_in_bold(tiny: World) -> None:
    placed = cells(plan(1), tiny.dataset)
    results = Results(plan(1), tiny.dataset, placed, Drawn(placed, 480, np.random.default_rng(0), gain=0.5))
    found = compare(results)[1, "recall@20"]
    assert (found.holds, found.p.both, found.p.seeds, found.tested) == (False, None, None, 0)
    assert found.p.users is not None
    assert found.p.users < 1e-9
    caption = measured(results, compare(results)).caption
    assert "Nothing stands in bold that rests on one seed: these trained models, nothing about others." in caption
    assert "Holm" not in caption
    line = next(one for one in csv.DictReader(StringIO(to_csv(results, compare(results)))) if one["arm"] == "copy 0")
    assert (line["p"], float(line["p_by_user"])) == ("", found.p.users)


def test_points_that_coincide_are_corrected_for_once(tiny: World, tmp_path: Path) -> None:
    def compared(vary: list[dict[str, list[object]]]) -> list[Comparison]:
        arms = {"original": {}, "clbr": {"paradigm": "clbr", "vary": vary}}
        plan = spec(arms=arms, metrics=["recall@20"])
        placed = cells(plan, tiny.dataset)
        store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3)
        return list(compare(Results(plan, tiny.dataset, placed, store)).values())

    apart = compared([{"tau": [0.5, 1.0]}])
    together = compared([{"tau": [0.5, 1.0]}, {"views": [4]}, {"lambda_u": [1.0]}])  # three times the default
    assert together == [*apart, apart[1], apart[1]]
    assert together[0].tested == 2


def test_a_known_difference_is_found_and_only_that(tiny: World) -> None:
    placed = cells(plan(10), tiny.dataset)
    store = Drawn(placed, 480, np.random.default_rng(1), gain=0.2)
    results = Results(plan(10), tiny.dataset, placed, store)
    found = {results.groups[number].arm: one for (number, _), one in compare(results).items()}
    assert found["copy 0"].holds
    assert found["copy 0"].holds_across_seeds
    assert found["copy 0"].difference == pytest.approx(0.18, abs=0.04)
    assert not any(one.holds for arm, one in found.items() if arm != "copy 0")


def test_values_are_those_of_the_seeds_that_both_have_done(tiny: World, tmp_path: Path) -> None:
    plan, metric = spec(seeds=3), Headline.__args__[0]  # type: ignore[attr-defined]
    placed = cells(plan, tiny.dataset)
    skipped = {("original", 2), ("clbr", 0)}
    store = fill(
        tmp_path / "c", tiny.dataset, placed,
        lambda one: None if (one.arm, one.cell.config.seed) in skipped else 0.3 + 0.1 * one.cell.config.seed,
    )  # fmt: skip
    results = Results(plan, tiny.dataset, placed, store)
    tested = compare(results)[1, metric]
    base, mine = (done(one.cell, tiny.dataset, 0.4)[1].metrics[metric] for one in placed[2:4])  # seed 1 of both
    assert tested.difference == pytest.approx(mine.mean() - base.mean(), abs=1e-6)
    raw = paired_p(mine, base)
    assert tested.p.users is not None
    assert raw * 0.999 < tested.p.users <= min(1.0, 4 * raw * 1.001)
    assert tested.p.seeds is None


def test_each_share_is_held_against_the_base_at_the_same_share(small: BundleDataset, tmp_path: Path) -> None:
    shares = [{"share": [0.4, 1.0]}]
    arms = {"original": {"vary": shares}, "clbr": {"paradigm": "clbr", "vary": shares}, "casr": {"paradigm": "casr"}}
    arms["fewer"] = {"settings": {"share": 0.4, "learning_rate": 0.5}}
    plan = spec(arms=arms, seeds=1)
    placed = cells(plan, small)
    results = Results(plan, small, placed, fill(tmp_path / "c", small, placed, lambda one: 0.4))
    bases = {group.label: results.base(group) for group in results.groups}
    assert {label: base and base.label for label, base in bases.items()} == {
        "lightgcn, original, share 0.4": None,
        "lightgcn, original, share 1": None,
        "lightgcn, clbr, share 0.4": "lightgcn, original, share 0.4",
        "lightgcn, clbr, share 1": "lightgcn, original, share 1",
        "lightgcn, casr": "lightgcn, original, share 1",
        "lightgcn, fewer": "lightgcn, original, share 0.4",
    }


def test_whatever_varies_is_held_against_the_only_point_of_the_base(small: BundleDataset, tmp_path: Path) -> None:
    plan = spec(arms={"original": {}, "clbr": {"paradigm": "clbr", "vary": [{"tau": [0.5, 2.0]}]}}, seeds=1)
    placed = cells(plan, small)
    results = Results(plan, small, placed, fill(tmp_path / "c", small, placed, lambda one: 0.4))
    assert [base and base.arm for base in map(results.base, results.groups)] == [None, "original", "original"]
