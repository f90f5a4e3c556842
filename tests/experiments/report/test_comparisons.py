"""The significance tests: at their level if nothing differs, and able to find what differs."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from clbr import BundleDataset, World
from clbr.evaluation.metrics import Headline
from clbr.evaluation.significance import paired_p
from clbr.experiments.cells import Cell, VariantCell
from clbr.experiments.report.comparisons import LEVEL, Comparison, compare, compare_pairs
from clbr.experiments.report.grid import Text
from clbr.experiments.report.results import Results
from clbr.experiments.report.tables import measured_table, pairs_table, to_csv
from clbr.experiments.spec import Spec
from clbr.experiments.store import PerUser, Record, Store
from invented import cells, done, fill, spec

VARIANTS = {"original": {}} | {f"copy {n}": {"settings": {"patience": 30 + n}} for n in range(4)}


class RandomStore(Store):
    """A store in memory: users differ, every training shifts all users a little, and one variant has a gain."""

    def __init__(
        self, variant_cells: list[VariantCell], users: int, rng: np.random.Generator, gain: float = 0.0
    ) -> None:
        super().__init__(Path("nowhere"))
        level = rng.random(users)
        self.tests: dict[str, PerUser] = {}
        for one in variant_cells:
            probability = np.clip(level + gain * (one.variant == "copy 0") + 0.04 * rng.standard_normal(), 0, 1)
            values = (rng.random(users) < probability).astype(float)
            self.tests[one.cell.key] = PerUser({"recall@20": values}, np.zeros(10 * users, bool))

    def read(self, cell: Cell) -> Record:
        value = float(self.tests[cell.key].metrics["recall@20"].mean())
        return Record.model_construct(key=cell.key, state="done", test={"recall@20": value}, config=cell.config)

    def read_per_user(self, cell: Cell) -> PerUser:
        return self.tests[cell.key]


def plan(seeds: int) -> Spec:
    return spec(variants=VARIANTS, models=["bprmf"], seeds=seeds, metrics=["recall@20"])


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_copies_of_the_same_model_differ_significantly_at_about_the_level(tiny: World, seeds: int) -> None:
    """Four copies compared with the reference: at most 5 % of the tables have any error, by either test."""
    rng, tables = np.random.default_rng(0), 300
    variant_cells = cells(plan(seeds), tiny.dataset)
    both = by_user = by_seed = 0
    for _ in range(tables):
        found = compare(
            Results(plan(seeds), tiny.dataset, variant_cells, RandomStore(variant_cells, 480, rng))
        ).values()
        assert len(found) == 4
        both += any(one.is_significant for one in found)
        by_user += any(one.p.users is not None and one.p.users < LEVEL for one in found)
        by_seed += any(one.is_significant_across_seeds for one in found)
    assert 0.005 < both / tables < 0.085
    assert by_user / tables > 0.3  # the result of a test that ignores seeds
    assert by_seed == 0 if seeds < 10 else 0.01 < by_seed / tables < 0.085


def test_one_seed_is_never_bold(tiny: World) -> None:
    variant_cells = cells(plan(1), tiny.dataset)
    results = Results(
        plan(1), tiny.dataset, variant_cells, RandomStore(variant_cells, 480, np.random.default_rng(0), gain=0.5)
    )
    found = compare(results)[1, "recall@20"]
    assert (found.is_significant, found.p.both, found.p.seeds, found.tested) == (False, None, None, 0)
    assert found.p.users is not None
    assert found.p.users < 1e-9
    caption = measured_table(results, compare(results)).caption
    assert "Bold is not used with one seed: such a test is valid for these trained models only." in caption
    assert "Holm" not in caption
    line = next(
        one for one in csv.DictReader(StringIO(to_csv(results, compare(results)))) if one["variant"] == "copy 0"
    )
    assert (line["p"], float(line["p_by_user"])) == ("", found.p.users)


def test_points_with_the_same_cells_are_corrected_for_once(tiny: World, tmp_path: Path) -> None:
    def compared(vary: list[dict[str, list[object]]]) -> list[Comparison]:
        variants = {"original": {}, "clbr": {"paradigm": "clbr", "vary": vary}}
        plan = spec(variants=variants, metrics=["recall@20"])
        variant_cells = cells(plan, tiny.dataset)
        store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: 0.3)
        return list(compare(Results(plan, tiny.dataset, variant_cells, store)).values())

    two = compared([{"tau": [0.5, 1.0]}])
    four = compared([{"tau": [0.5, 1.0]}, {"views": [4]}, {"lambda_u": [1.0]}])  # three times the default
    assert four == [*two, two[1], two[1]]
    assert four[0].tested == 2


def test_a_known_difference_is_found_and_only_that(tiny: World) -> None:
    variant_cells = cells(plan(10), tiny.dataset)
    store = RandomStore(variant_cells, 480, np.random.default_rng(1), gain=0.2)
    results = Results(plan(10), tiny.dataset, variant_cells, store)
    found = {results.groups[number].variant: one for (number, _), one in compare(results).items()}
    assert found["copy 0"].is_significant
    assert found["copy 0"].is_significant_across_seeds
    assert found["copy 0"].difference == pytest.approx(0.18, abs=0.04)
    assert not any(one.is_significant for variant, one in found.items() if variant != "copy 0")


def test_every_two_rows_are_compared_if_the_specification_asks_for_it(tiny: World, tmp_path: Path) -> None:
    names, levels = ["bprmf", "lightgcn", "crosscbr"], {"bprmf": 0.3, "lightgcn": 0.5, "crosscbr": 0.5}
    plan = spec(models=names, variants={"original": {}}, reference_model="lightgcn", metrics=["recall@20"], pairs=True)
    variant_cells = cells(plan, tiny.dataset)
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: levels[one.model])
    results = Results(plan, tiny.dataset, variant_cells, store)
    pairwise = compare_pairs(results)
    assert list(pairwise) == [(0, 1, "recall@20"), (0, 2, "recall@20"), (1, 2, "recall@20")]
    first = pairwise[0, 1, "recall@20"]
    assert first.difference == pytest.approx(compare(results)[0, "recall@20"].difference)
    assert first.is_significant and not pairwise[1, 2, "recall@20"].is_significant
    assert {one.tested for one in pairwise.values()} == {3}
    grid = pairs_table(results, pairwise)
    assert grid is not None
    assert [row[0].text for row in grid.rows] == ["bprmf, original", "bprmf, original", "lightgcn, original"]
    assert [row[1].text for row in grid.rows] == ["lightgcn, original", "crosscbr, original", "crosscbr, original"]
    p = first.p.both
    assert p is not None and grid.rows[0][3] == Text(f"{100 * first.difference:.2f} (p {p:.2g})", bold=True)
    one_seed = Results(plan, tiny.dataset, [cell for cell in variant_cells if cell.cell.config.seed == 0], store)
    grid = pairs_table(one_seed, compare_pairs(one_seed))
    assert grid is not None and grid.caption.endswith("With one seed nothing is tested.")
    assert not any("p " in cell.text for row in grid.rows for cell in row[3:])
    assert pairs_table(results, {}) is None


def test_values_are_those_of_the_seeds_that_are_done_in_both(tiny: World, tmp_path: Path) -> None:
    plan, metric = spec(seeds=3), Headline.__args__[0]  # type: ignore[attr-defined]
    variant_cells = cells(plan, tiny.dataset)
    skipped = {("original", 2), ("clbr", 0)}
    store = fill(
        tmp_path / "c", tiny.dataset, variant_cells,
        lambda one: None if (one.variant, one.cell.config.seed) in skipped else 0.3 + 0.1 * one.cell.config.seed,
    )  # fmt: skip
    results = Results(plan, tiny.dataset, variant_cells, store)
    tested = compare(results)[1, metric]
    base, mine = (done(one.cell, tiny.dataset, 0.4)[1].metrics[metric] for one in variant_cells[2:4])  # seed 1 of both
    assert tested.difference == pytest.approx(mine.mean() - base.mean(), abs=1e-6)
    raw = paired_p(mine, base)
    assert tested.p.users is not None
    assert raw * 0.999 < tested.p.users <= min(1.0, 4 * raw * 1.001)
    assert tested.p.seeds is None


def test_models_are_compared_with_the_reference_model(tiny: World, tmp_path: Path) -> None:
    plan = spec(models=["bprmf", "lightgcn", "crosscbr"], variants={"original": {}}, reference_model="lightgcn")
    variant_cells = cells(plan, tiny.dataset)
    levels = {"bprmf": 0.3, "lightgcn": 0.5, "crosscbr": 0.6}
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: levels[one.model])
    results = Results(plan, tiny.dataset, variant_cells, store)
    found = {
        (results.groups[number].model, metric): one.difference for (number, metric), one in compare(results).items()
    }
    assert {model for model, _ in found} == {"bprmf", "crosscbr"}
    assert found["bprmf", "recall@20"] == pytest.approx(-0.2, abs=0.02)
    assert found["crosscbr", "recall@20"] == pytest.approx(0.1, abs=0.02)


def test_each_share_is_compared_with_the_reference_at_the_same_share(small: BundleDataset, tmp_path: Path) -> None:
    shares = [{"share": [0.4, 1.0]}]
    variants = {
        "original": {"vary": shares},
        "clbr": {"paradigm": "clbr", "vary": shares},
        "casr": {"paradigm": "casr"},
    }
    variants["fewer"] = {"settings": {"share": 0.4, "learning_rate": 0.5}}
    plan = spec(variants=variants, seeds=1)
    variant_cells = cells(plan, small)
    results = Results(plan, small, variant_cells, fill(tmp_path / "c", small, variant_cells, lambda one: 0.4))
    references = {group.label: results.reference(group) for group in results.groups}
    assert {label: reference and reference.label for label, reference in references.items()} == {
        "lightgcn, original, share 0.4": None,
        "lightgcn, original, share 1": None,
        "lightgcn, clbr, share 0.4": "lightgcn, original, share 0.4",
        "lightgcn, clbr, share 1": "lightgcn, original, share 1",
        "lightgcn, casr": "lightgcn, original, share 1",
        "lightgcn, fewer": "lightgcn, original, share 0.4",
    }


def test_a_varied_setting_is_compared_with_the_only_point_of_the_reference(
    small: BundleDataset, tmp_path: Path
) -> None:
    plan = spec(variants={"original": {}, "clbr": {"paradigm": "clbr", "vary": [{"tau": [0.5, 2.0]}]}}, seeds=1)
    variant_cells = cells(plan, small)
    results = Results(plan, small, variant_cells, fill(tmp_path / "c", small, variant_cells, lambda one: 0.4))
    assert [one and one.variant for one in map(results.reference, results.groups)] == [None, "original", "original"]
