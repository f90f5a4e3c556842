import csv
import re
import shutil
import subprocess
from dataclasses import replace
from io import StringIO
from pathlib import Path
from statistics import mean, stdev

import pytest

from clbr import BundleDataset, InputError, World
from clbr.experiments.cells import VariantCell
from clbr.experiments.report.comparisons import compare
from clbr.experiments.report.grid import Grid, Text
from clbr.experiments.report.published import published_values, why_incomparable
from clbr.experiments.report.results import Results
from clbr.experiments.report.tables import cost_table, measured_table, p_value_table, percent, published_table, to_csv
from clbr.experiments.spec import Spec
from invented import cells, done, fill, named_youshu, spec


def better(one: VariantCell) -> float:
    return 0.3 if one.variant == "original" else 0.35


def results_of(plan: Spec, dataset: BundleDataset, folder: Path, level: object = better) -> Results:
    variant_cells = cells(plan, dataset)
    return Results(plan, dataset, variant_cells, fill(folder, dataset, variant_cells, level))  # type: ignore[arg-type]


def test_a_row_has_mean_deviation_and_difference_and_is_bold_if_significant(tiny: World, tmp_path: Path) -> None:
    results = results_of(spec(), tiny.dataset, tmp_path / "c")
    grid = measured_table(results, compare(results))
    assert grid.columns == ["model", "variant", "seeds", "R@20", "NDCG@20", "R@40", "NDCG@40"]
    base, clbr = grid.rows
    values, others = ([100 * value for value in group.values("recall@20")] for group in results.groups)
    assert base[3] == Text(f"{mean(values):.2f} ± {stdev(values):.2f}")
    assert clbr[3] == Text(f"{mean(others):.2f} ± {stdev(others):.2f} (+{mean(others) - mean(values):.2f})", bold=True)
    assert base[2] == Text("3")
    assert "tiny, test, 480 users, 3 seeds" in grid.caption
    assert "level 0.05" in grid.caption
    assert "for 4 comparisons" in grid.caption


def test_p_values_are_shown_for_what_was_compared(tiny: World, tmp_path: Path) -> None:
    results = results_of(spec(), tiny.dataset, tmp_path / "c")
    comparisons = compare(results)
    grid = p_value_table(results, comparisons)
    assert grid is not None
    ((name, first, *_),) = grid.rows
    assert (name.text, first) == ("lightgcn, clbr", Text(f"{comparisons[1, 'recall@20'].p.both:.2g}", bold=True))
    assert p_value_table(results, {}) is None


def test_cells_that_were_not_run_or_failed_are_shown_as_such(tiny: World, tmp_path: Path) -> None:
    variants = {
        "original": {},
        "broken": {"settings": {"learning_rate": 9.0}},
        "later": {"settings": {"learning_rate": 8.0}},
    }

    def level(one: VariantCell) -> float | str | None:
        if one.variant == "original":
            return 0.3 if one.cell.config.seed else None
        return "the loss is nan" if one.variant == "broken" else None

    results = results_of(spec(variants=variants), tiny.dataset, tmp_path / "c", level)
    grid = measured_table(results, compare(results))
    assert [row[2].text for row in grid.rows] == ["2 of 3", "0 of 3", "0 of 3"]
    assert [row[3].text for row in grid.rows][1:] == ["failed", "-"]
    assert grid.notes == ["Failed: lightgcn, broken, seed 0, 1, 2: the loss is nan"]
    assert len(cost_table(results).rows) == 1
    assert "broken" in to_csv(results, compare(results))


def test_a_report_without_a_finished_cell_is_an_error(small: BundleDataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to report, none of the 6 cells is done$"):
        results_of(spec(), small, tmp_path / "a", lambda one: None)
    with pytest.raises(InputError, match="6 failed, for example: it broke"):
        results_of(spec(), small, tmp_path / "b", lambda one: "it broke")


def test_the_cost_of_a_cell_at_several_points_counts_once(tiny: World, tmp_path: Path) -> None:
    variants = {"original": {}, "clbr": {"paradigm": "clbr", "vary": [{"tau": [1.0]}, {"views": [4]}]}}
    grid = cost_table(results_of(spec(variants=variants, seeds=1), tiny.dataset, tmp_path / "c"))
    assert len(grid.rows) == 3
    assert "Total: 25 s" in grid.caption


def test_the_cost_includes_selection_models_that_are_in_no_row(tiny: World, tmp_path: Path) -> None:
    variants = {"original": {}, "clbr": {"paradigm": "clbr", "settings": {"learning_rate": 0.02}}}
    plan = spec(variants=variants, seeds=1)
    variant_cells = cells(plan, tiny.dataset)
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, better)
    assert "selection" not in cost_table(Results(plan, tiny.dataset, variant_cells, store)).caption
    selection = variant_cells[1].cell.selection_cell
    assert selection is not None
    store.write(*done(selection, tiny.dataset, 0.3))
    caption = cost_table(Results(plan, tiny.dataset, variant_cells, store)).caption
    assert "Total: 25 s, and 12 s for selection models that are in no row." in caption


def test_another_constraint_than_the_papers_has_a_note(tiny: World, tmp_path: Path) -> None:
    youshu = named_youshu(tiny.dataset)
    for name, notes in (
        ("adaptive", []),
        ("contrastive", ["Constraint contrastive, not the paper's adaptive one: bgcn, clbr."]),
    ):
        variants = {"original": {}, "clbr": {"paradigm": "clbr", "settings": {"constraint": name}}}
        plan = spec(models=["bgcn"], variants=variants, published="overall", seeds=1)
        grid = published_table(results_of(plan, youshu, tmp_path / name, lambda one: 0.25))
        assert grid is not None and grid.notes == notes


def test_published_results_are_compared_with_those_on_the_same_data_only(tiny: World, tmp_path: Path) -> None:
    plan = spec(models=["bgcn", "lightgcn"], published="overall", seeds=1)
    youshu = named_youshu(tiny.dataset)
    grid = published_table(results_of(plan, youshu, tmp_path / "a", lambda one: 0.25))
    assert grid is not None
    assert [[cell.text for cell in row[:2]] for row in grid.rows] == [["bgcn", "original"], ["bgcn", "clbr"]]
    assert grid.columns[2:5] == ["R@20", "published", "difference"]
    here, there, difference = (cell.text for cell in grid.rows[1][2:5])
    assert there == "24.74 ± 0.63"
    assert difference == f"{float(here) - 24.74:+.2f}"
    for number, (name, why) in enumerate(
        (("tiny", "no results on tiny"), ("Youshu", "another size"), ("NetEasePartial", "not comparable"))
    ):
        other = replace(tiny.dataset, name=name)
        assert why in why_incomparable(other)
        results = results_of(plan, other, tmp_path / str(number), lambda one: 0.25)
        assert published_table(results) is None
        assert why in measured_table(results, compare(results)).caption


def test_the_caption_says_that_a_part_of_a_data_set_is_not_comparable(tiny: World, tmp_path: Path) -> None:
    results = results_of(spec(), replace(tiny.dataset, name="NetEasePartial"), tmp_path / "c")
    assert "NetEasePartial is a part of NetEase" in measured_table(results, compare(results)).caption


def test_the_papers_results_are_found_by_model_and_variant() -> None:
    assert published_values("overall", "NetEase", "crosscbr", "casr")["ndcg@40"] == pytest.approx((0.05699, 0.0003))
    assert published_values("augmentation", "Youshu", "bgcn", "stochastic bi")["ndcg@20"].mean == pytest.approx(0.1368)
    assert published_values("augmentation", "Youshu", "bgcn", "stochastic bi")["ndcg@20"].sd is None
    assert published_values("augmentation", "Youshu", "bgcn", "original")["recall@20"] == pytest.approx(
        (0.2269, 0.0063)
    )
    assert published_values("constraint", "NetEase", "bgcn", "adaptive")["recall@20"].mean == pytest.approx(0.0633)
    assert published_values("constraint", "NetEase", "bgcn", "anything") == {}
    assert published_values("overall", "Youshu", "lightgcn", "original") == {}


def test_the_csv_has_every_digit_and_every_row(tiny: World, tmp_path: Path) -> None:
    plan = spec(models=["bgcn"], published="overall")
    results = results_of(plan, named_youshu(tiny.dataset), tmp_path / "c")
    comparisons = compare(results)
    rows = list(csv.DictReader(StringIO(to_csv(results, comparisons))))
    assert len(rows) == 2 * 4
    row = rows[4]
    assert (row["data"], row["model"], row["variant"], row["metric"], row["seeds"]) == (
        "Youshu",
        "bgcn",
        "clbr",
        "recall@20",
        "3",
    )
    assert float(row["mean"]) == results.groups[1].mean("recall@20")
    assert (float(row["p"]), float(row["p_by_user"])) == comparisons[1, "recall@20"].p[:2]
    assert float(row["difference_to_published"]) == pytest.approx(float(row["mean"]) - 0.2474)
    assert rows[0]["p"] == rows[0]["difference"] == ""


def test_names_are_never_read_as_markup() -> None:
    nasty = "<b>&a_b|c*d\\e#{f}$%~^</b>"
    grid = Grid(nasty, nasty, [nasty], [[Text(nasty, True)]], notes=[nasty])
    assert "<b>&a" not in grid.html()
    assert grid.html().count("&lt;b&gt;&amp;a") == 4
    table = grid.markdown().splitlines()[2:5]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 2 for line in table)
    latex = grid.latex("t")
    assert not re.search(r"(?<!\\)[_#%&](?!\w*\\\\)", latex.replace(" \\\\", ""))
    assert r"\&a\_b|c*d\textbackslash{}e\#\{f\}\$\%\textasciitilde{}\textasciicircum{}" in latex


def test_columns_can_share_an_upper_header(tiny: World, tmp_path: Path) -> None:
    plan = spec(models=["bgcn"], published="overall", seeds=1, metrics=["recall@20", "ndcg@20"])
    grid = published_table(results_of(plan, named_youshu(tiny.dataset), tmp_path / "c", lambda one: 0.25))
    assert grid is not None
    upper, lower = re.findall(r"<tr>(<t[hd] .*?)</tr>", grid.html())[:2]
    assert re.findall(r'colspan="(\d)">(.*?)<', upper) == [("2", ""), ("3", "R@20"), ("3", "NDCG@20")]
    assert re.findall(r">([^<]+)<", lower) == ["model", "variant", *2 * ["here", "published", "difference"]]
    latex = grid.latex("overall")
    assert r" &  & \multicolumn{3}{c}{R@20} & \multicolumn{3}{c}{NDCG@20} \\" in latex
    assert r"\cmidrule(lr){3-5}\cmidrule(lr){6-8}" in latex
    assert Grid("t", "", ["", "seeds"], [], 1).lower_headers == ["", "seeds"]
    assert grid.markdown().splitlines()[2].startswith("| model | variant | R@20 | published | difference | NDCG@20 |")


def test_a_latex_table_fits_the_text_and_has_a_label(tmp_path: Path) -> None:
    grid = Grid("What & why", "", [f"column {n}" for n in range(20)], [[Text("1000.00 ± 10.00")] * 20] * 2)
    latex = grid.latex("my_spec")
    assert r"\label{tab:my-spec:what-why}" in latex
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None:
        pytest.skip("no pdflatex at hand")
    document = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}" + latex + r"\end{document}"
    (tmp_path / "a.tex").write_text(document)
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout


def test_percentages_have_two_decimals_and_no_negative_zero() -> None:
    assert percent(0.12346, 0.001) == "12.35 ± 0.10"
    assert percent(-0.00001, signed=True) == "+0.00"
    assert percent(-0.01, signed=True) == "-1.00"
    assert Grid("", "", [""], [[Text("-1.00 (-2.00) a-1")]]).latex("t").count("$-$") == 2
