import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from clbr import InputError, World
from clbr.experiments.cell_run import keep_share
from clbr.experiments.cells import VariantCell
from clbr.experiments.report.comparisons import compare
from clbr.experiments.report.degrees import class_name, degrees
from clbr.experiments.report.drawing import Drawn, add_legend, is_log, new_figure, positions
from clbr.experiments.report.embeddings import coordinates, embeddings
from clbr.experiments.report.figures import curves, lines, surface
from clbr.experiments.report.results import Results
from clbr.experiments.spec import Spec
from clbr.experiments.store import PerUser
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training.run_folder import BEST, write_model
from invented import cells, done, fill, spec

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_legend_of_four_variants_is_within_the_figure(columns: int) -> None:
    figure = new_figure(1, columns)
    axes = figure.subplots(1, columns, squeeze=False)
    for name in ("original", "clbr", "computation", "edge dropout"):
        axes[0, 0].plot([0, 1], [0, 1], label=name)
    add_legend(figure, axes.flat)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.width


def results_of(plan: Spec, tiny: World, folder: Path, level: object = lambda one: 0.3) -> Results:
    variant_cells = cells(plan, tiny.dataset)
    return Results(plan, tiny.dataset, variant_cells, fill(folder, tiny.dataset, variant_cells, level))  # type: ignore[arg-type]


def panels(drawn: Drawn) -> int:
    ElementTree.fromstring(drawn.svg)  # well-formed
    return len(re.findall(rf'id="{drawn.name}-axes_\d+"', drawn.svg))


def varied(**vary: object) -> dict[str, object]:
    return {"original": {}, "clbr": {"paradigm": "clbr", "vary": [vary]}}


def test_lines_have_a_panel_for_each_setting_and_metric_and_a_dotted_reference(tiny: World, tmp_path: Path) -> None:
    variants = varied(ratio_ub=[0.01, 0.1, 0.3])
    variants["clbr"]["vary"].append({"sampler": ["heuristic", "stochastic"]})  # type: ignore[index]
    plan = spec(variants=variants, figure="lines", metrics=["recall@20", "ndcg@20"])
    drawn = lines(results_of(plan, tiny, tmp_path / "c"))
    assert drawn is not None
    assert panels(drawn) == 4
    assert drawn.svg.count("stroke-dasharray: 1.2") == 4 + 1  # four panels, and the legend
    assert len(drawn.grid.rows) == 6
    assert "3 seeds" in drawn.grid.caption
    assert "<dc:date>" not in drawn.svg


def test_lines_have_panels_of_each_models_own_settings(tiny: World, tmp_path: Path) -> None:
    """Models at different levels in one panel would flatten each other's lines."""
    variants = varied(ratio_ub=[0.1, 0.3])
    variants["sampled"] = {"paradigm": "clbr", "models": ["bgcn"], "vary": [{"tau": [0.5, 1.0]}]}
    plan = spec(models=["lightgcn", "bgcn"], variants=variants, figure="lines", metrics=["recall@20"])
    drawn = lines(results_of(plan, tiny, tmp_path / "c"))
    assert drawn is not None
    assert panels(drawn) == 3
    assert drawn.svg.count("stroke: #8a8a8a") >= 2  # sampled is the second variant, alone in its panel as in the legend
    assert drawn.svg.count("<!-- lightgcn, R@20 (%) -->") == drawn.svg.count("<!-- bgcn, R@20 (%) -->") == 1


def test_lines_have_at_most_three_panels_in_a_row_and_curves_four(tiny: World, tmp_path: Path) -> None:
    variants = varied(ratio_ub=[0.1])
    variants["clbr"]["vary"] += [{name: [0.5]} for name in ("tau", "omega_u", "omega_b")]  # type: ignore[index]
    results = results_of(spec(variants=variants, figure="lines", metrics=["recall@20"]), tiny, tmp_path / "c")
    for drawn, count, inches in ((lines(results), 4, 3 * 2.5), (curves(results), 5, 4 * 1.9)):
        assert drawn is not None and panels(drawn) == count
        assert f'width="{72 * inches:g}pt"' in drawn.svg


def test_lines_need_a_varied_setting(tiny: World, tmp_path: Path) -> None:
    plan = spec(variants=varied(tau=[0.5, 1.0]), figure="lines")
    assert lines(results_of(plan, tiny, tmp_path / "c", lambda one: None if one.point else 0.3)) is None


def test_a_surface_has_every_number_in_it_and_a_dash_where_there_is_none(tiny: World, tmp_path: Path) -> None:
    plan = spec(
        variants=varied(omega_u=[0.1, 1.0], omega_b=[0.1, 1.0]), figure="surface", metrics=["recall@20"], seeds=2
    )

    def level(one: VariantCell) -> float | None:
        return None if one.point == {"omega_u": 1.0, "omega_b": 1.0} else 0.3 + 0.1 * one.point.get("omega_u", 0)

    results = results_of(plan, tiny, tmp_path / "c", level)
    drawn = surface(results, compare(results))
    assert drawn is not None
    assert panels(drawn) == 1
    written = re.findall(r"<!-- ([\d.-]+) -->", drawn.svg)
    assert [row[2].text for row in drawn.grid.rows][3] == "-"
    for row in drawn.grid.rows:
        assert row[2].text.partition(" ±")[0] in written
    assert drawn.grid.rows[2][2].bold
    assert "original: R@20 " in drawn.grid.caption
    assert (
        "Bold: significantly different from original, higher or lower, at the level 0.05 (two-sided t-test"
        in drawn.grid.caption
    )


def test_a_surface_leaves_out_a_model_that_was_not_run(tiny: World, tmp_path: Path) -> None:
    variants = varied(omega_u=[0.1, 1.0], omega_b=[0.1, 1.0])
    plan = spec(models=["lightgcn", "bgcn"], variants=variants, figure="surface", metrics=["recall@20"], seeds=1)
    results = results_of(plan, tiny, tmp_path / "c", lambda one: 0.3 if one.model == "lightgcn" else None)
    drawn = surface(results, compare(results))
    assert drawn is not None and panels(drawn) == 1
    assert {row[0].text.partition(",")[0] for row in drawn.grid.rows} == {"lightgcn"}


def test_error_bars_are_explained_if_there_are_any(tiny: World, tmp_path: Path) -> None:
    for seeds in (1, 2):
        plan = spec(variants=varied(tau=[0.5, 1.0]), figure="lines", seeds=seeds)
        drawn = lines(results_of(plan, tiny, tmp_path / str(seeds)))
        assert drawn is not None and ("Bars: standard deviation" in drawn.grid.caption) == (seeds == 2)


def test_another_varied_setting_than_the_share_has_its_own_line(tiny: World, tmp_path: Path) -> None:
    variants = varied(share=[0.2, 1.0], tau=[0.5, 1.0])
    variants["original"] = {"vary": [{"share": [0.2, 1.0]}]}
    by_share, by_users, _ = degrees(
        results_of(spec(variants=variants, figure="degrees", seeds=1), tiny, tmp_path / "c")
    )
    for text in ("clbr, tau 0.5", "clbr, tau 1"):
        assert f"<!-- {text} -->" in by_share.svg
    assert panels(by_users) == 4


def test_curves_have_a_panel_for_each_group_and_a_line_for_each_seed(tiny: World, tmp_path: Path) -> None:
    drawn = curves(results_of(spec(), tiny, tmp_path / "c"))
    assert drawn is not None
    assert panels(drawn) == 2
    assert len(drawn.grid.rows) == 6
    assert [cell.text for cell in drawn.grid.rows[0]] == ["lightgcn, original, seed 0", "4", "3", "30.00"]


def test_gains_by_degree_are_those_of_the_nodes_of_that_degree(tiny: World, tmp_path: Path) -> None:
    """Planted: with views, users with 4 to 7 training bundles gain 10 points, and pairs of unseen bundles are all found."""
    shares = [{"share": [0.2, 1.0]}]
    plan = spec(
        variants={"original": {"vary": shares}, "clbr": {"paradigm": "clbr", "vary": shares}}, figure="degrees", seeds=2
    )
    dataset = tiny.dataset
    results = results_of(plan, tiny, tmp_path / "c")
    users = np.unique(dataset.test[:, 0])
    for one in cells(plan, dataset):
        train = keep_share(dataset, one.cell.share).train
        bundles_of = np.bincount(train[:, 0], minlength=len(dataset.users))[users]
        users_of = np.bincount(train[:, 1], minlength=len(dataset.bundles))[dataset.test[:, 1]]
        values = np.full(len(users), 0.3)
        found = np.zeros(len(dataset.test), bool)
        if one.variant == "clbr":
            values[(bundles_of >= 4) & (bundles_of < 8)] += 0.1
            found = users_of < 2
        record, tested = done(one.cell, dataset, 0.3)
        results.store.write(record, PerUser(tested.metrics | {"recall@20": values}, found))
    by_share, by_users, by_bundles = degrees(results)
    assert panels(by_share) == 4
    assert panels(by_users) == 2
    for row in by_users.grid.rows:
        assert row[4].text == ("+10.00 ± 0.00" if row[1].text == "4-7" else "+0.00 ± 0.00")
    assert {row[1].text for row in by_users.grid.rows} >= {"1", "2-3", "4-7"}
    assert sum(int(row[2].text) for row in by_users.grid.rows if "share 0.2" in row[0].text) == len(users)
    for row in by_bundles.grid.rows:
        assert row[4].text == ("+100.00 ± 0.00" if row[1].text in ("0", "1") else "+0.00 ± 0.00")


def test_axes_are_logarithmic_where_values_span_much() -> None:
    assert is_log([0.01, 0.3])
    assert not is_log([0.1, 1.0])
    assert not is_log([0.0, 1.0])
    assert positions([0.1, 5]) == ([0.1, 5.0], True)
    assert positions([True, False]) == ([0.0, 1.0], False)
    assert [class_name(kind) for kind in (0, 1, 2, 7)] == ["0", "1", "2-3", "64+"]


def test_embeddings_are_computed_once_and_need_the_weights_until_then(tiny: World, tmp_path: Path) -> None:
    pytest.importorskip("openTSNE")
    plan = spec(models=["crosscbr"], figure="embeddings", seeds=1)
    results = results_of(plan, tiny, tmp_path / "c")
    variant_cells = cells(plan, tiny.dataset)
    with pytest.raises(InputError, match="no such file, and the figure needs the weights"):
        embeddings(results)
    for one in variant_cells:
        path = results.store.run_folder(one.cell) / BEST
        path.parent.mkdir(parents=True)
        write_model(path, make_model("crosscbr", {"dim": 4}, tiny.dataset, torch_generator(0, "init")))
    with pytest.raises(InputError, match="not the weights of this model"):
        embeddings(results)
    results.store.folder.joinpath("embeddings").mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for one in variant_cells:  # as if computed before
        names = [f"{kind} {stage}" for kind in ("users", "bundles", "items") for stage in ("initial", "propagated")]
        points = {name: rng.standard_normal((50, 2)).astype(np.float32) for name in names}
        np.savez(results.store.folder / "embeddings" / f"{one.cell.key}.npz", **points)  # type: ignore[arg-type]
    (drawn,) = embeddings(results)
    assert panels(drawn) == 12
    assert len(re.findall(r"M (\d+\.\d\d? \d+\.\d\d?)\nL \1\b", drawn.svg)) == 12 * 50  # a dot for each node
    assert len(drawn.grid.rows) == 6
    (results.store.folder / "embeddings" / f"{variant_cells[0].cell.key}.npz").write_bytes(b"?")
    with pytest.raises(InputError, match="is missing or damaged; delete it"):
        embeddings(results)
    results.store.write(*done(variant_cells[0].cell, tiny.dataset, 0.4))  # trained again: other vectors
    with pytest.raises(InputError, match="not the weights of this model"):
        embeddings(results)


def test_tsne_is_repeatable_and_separates_planted_groups(tmp_path: Path) -> None:
    pytest.importorskip("openTSNE")
    from clbr.experiments.report.embeddings import _project

    rng = np.random.default_rng(0)
    vectors = np.concatenate([rng.standard_normal((20, 5)), 20 + rng.standard_normal((20, 5))]).astype(np.float32)
    places = _project(vectors)
    assert np.array_equal(places, _project(vectors))
    one, other = places[:20], places[20:]
    within = max(np.ptp(part, axis=0).max() for part in (one, other))
    assert np.linalg.norm(one.mean(axis=0) - other.mean(axis=0)) > within / 2
    with pytest.raises(InputError, match="too few"):
        _project(vectors[:3])


def test_coordinates_are_of_the_trained_table_and_of_the_embeddings(
    tiny: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = spec(models=["lightgcn"], variants={"original": {}}, figure="embeddings", seeds=1)
    results = results_of(plan, tiny, tmp_path / "c")
    (variant_cell,) = cells(plan, tiny.dataset)
    path = results.store.run_folder(variant_cell.cell) / BEST
    path.parent.mkdir(parents=True)
    model = make_model("lightgcn", {}, tiny.dataset, torch_generator(0, "init"))
    write_model(path, model)
    monkeypatch.setattr("clbr.experiments.report.embeddings.require", lambda module, extra: None)
    monkeypatch.setattr("clbr.experiments.report.embeddings._project", lambda vectors: vectors[:, :2])
    places = coordinates(results, variant_cell.cell)
    assert set(places) == {"users initial", "users propagated", "bundles initial", "bundles propagated"}
    assert np.array_equal(places["users initial"], model.users.detach().numpy()[:, :2])  # type: ignore[operator, union-attr]
    assert not np.array_equal(places["users propagated"], places["users initial"])
    path.unlink()  # the coordinates are in the store now
    assert np.array_equal(coordinates(results, variant_cell.cell)["bundles initial"], places["bundles initial"])
