"""The report command, and the content of its files."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clbr import World, save
from clbr.experiments.cells import expand
from clbr.experiments.spec import read_spec
from clbr.experiments.store import Store
from invented import fill
from typed import Run, assert_refused, snapshot

pytest.importorskip("matplotlib")
SPEC = """
title = "Tom & <i>Jerry</i>"
about = "Is it <script>alert(1)</script> better?"
models = ["lightgcn"]
seeds = 2
figure = "lines"
[variants.original]
[variants."views & <more>"]
paradigm = "clbr"
vary = [{ tau = [0.5, 1.0] }]
"""


LATER = 'title = "Later"\nmodels = ["lightgcn"]\n[variants.original]\nsettings = { learning_rate = 0.5 }\n'


class Tags(HTMLParser):
    """What a page consists of, and whether every tag is closed."""

    VOID = ("meta", "br", "img", "link", "hr", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def made(tiny: World, tmp_path: Path) -> Path:
    """A specification, its data, and a store with a failed cell and one not run."""
    save(tiny.dataset, tmp_path / "shop")
    path = tmp_path / "s.toml"
    path.write_text(SPEC)
    variant_cells = expand(read_spec(path), "x", tiny.dataset.fingerprint, "tiny", tiny.dataset)
    levels = {(0, 0.5): 0.4, (1, 0.5): 0.41, (0, 1.0): "it <b>broke</b>"}
    fill(
        tmp_path / "cells" / "tiny", tiny.dataset, variant_cells,
        lambda one: levels.get((one.cell.config.seed, one.point["tau"])) if one.point else 0.3,
    )  # fmt: skip
    return tmp_path


WORDS = ("experiment", "report", "s.toml", "--data", "shop")


def test_a_report_is_printed_and_written_and_identical_every_time(run: Run, made: Path) -> None:
    code, out, err = run(*WORDS)
    assert (code, err) == (0, "")
    folder = made / "cells" / "tiny" / "reports" / "s"
    first = snapshot(folder)
    assert set(first) == {"s.html", "s.md", "s.csv", "s.tex", "s-lines.svg", "s-curves.svg"}
    assert "40.30 ± 0.71 (+10.14) *" in out  # near the mean of its seeds' levels, 40 and 41
    assert re.search(r"\d ± \d+\.\d+ \(\+1\d\.\d+\) \*", out)
    assert "Star: significantly different from original" in out
    assert "Failed: lightgcn, views & <more>, tau 1, seed 0: it <b>broke</b>" in out
    assert "0 of 2" in out
    assert run(*WORDS)[0] == 0
    assert snapshot(folder) == first
    assert run(*WORDS, "--to", "elsewhere/deep")[0] == 0
    assert snapshot(made / "elsewhere" / "deep")["s.csv"] == first["s.csv"]


def test_pairs_are_shown_everywhere_if_the_specification_asks_for_them(run: Run, made: Path, tiny: World) -> None:
    plain = (
        'title = "P"\nmodels = ["lightgcn"]\nseeds = 2\n[variants.original]\n[variants.b]\nsettings = {layers = 3}\n'
    )
    (made / "s.toml").write_text(f"pairs = true\n{plain}")
    data, cells = tiny.dataset, made / "cells" / "tiny"
    variant_cells = expand(read_spec(made / "s.toml"), "x", data.fingerprint, "tiny", data)
    fill(cells, data, variant_cells, lambda one: 0.4 if one.variant == "original" else 0.3)
    code, out, err = run(*WORDS)
    assert (code, err) == (0, "")
    caption = "after Holm's correction for 4 comparisons"
    texts = [out, *((cells / "reports" / "s" / f"s.{kind}").read_text() for kind in ("md", "tex"))]
    assert all("Pair by pair" in text and caption in text for text in texts)
    assert "Star: below 0.05" in out and "Bold: below 0.05" in texts[1]
    page = (cells / "reports" / "s" / "s.html").read_text()
    assert '<section id="pairs">' in page and "Holm&#x27;s correction for 4 comparisons" in page
    (made / "s.toml").write_text(plain)
    assert "Pair by pair" not in run(*WORDS)[1]
    assert '<section id="pairs">' not in (cells / "reports" / "s" / "s.html").read_text()


def test_each_specification_with_a_finished_cell_has_a_report(run: Run, made: Path) -> None:
    (made / "t.toml").write_text((made / "s.toml").read_text())
    (made / "later.toml").write_text(LATER)
    reports = made / "cells" / "tiny" / "reports"
    code, out, err = run("experiment", "report", "later.toml", "s.toml", "t.toml", "--data", "shop")
    assert (code, err) == (0, "later.toml: no cell is done, so there is nothing to report\n")
    assert sorted(path.name for path in reports.iterdir()) == ["s", "t"]
    assert "clbr experiment report later.toml s.toml t.toml --data shop" in (reports / "t" / "t.md").read_text()
    assert out.index("s.html") < out.index("t.html")


def test_a_report_that_cannot_be_made_does_not_prevent_the_others(run: Run, made: Path) -> None:
    pytest.importorskip("openTSNE")
    (made / "t.toml").write_text((made / "s.toml").read_text().replace('"lines"', '"embeddings"'))
    code, _, err = run("experiment", "report", "t.toml", "s.toml", "--data", "shop")
    assert code == 2
    assert err.startswith("error: t.toml: ") and "the figure needs the weights" in err and len(err.splitlines()) == 1
    assert [path.name for path in (made / "cells" / "tiny" / "reports").iterdir()] == ["s"]


def test_a_record_of_another_version_prevents_its_own_report_only(run: Run, made: Path, tiny: World) -> None:
    (made / "t.toml").write_text(LATER)
    variant_cells = expand(read_spec(made / "t.toml"), "x", tiny.dataset.fingerprint, "tiny", tiny.dataset)
    fill(made / "cells" / "tiny", tiny.dataset, variant_cells[:1], lambda one: 0.3)
    record = made / "cells" / "tiny" / "cells" / f"{variant_cells[0].cell.key}.json"
    content = json.loads(record.read_text())
    content["config"]["train"]["patience"] = 7
    record.write_text(json.dumps(content))
    code, _, err = run("experiment", "report", "t.toml", "s.toml", "--data", "shop")
    assert code == 2
    assert err.startswith("error: t.toml: ") and "made by another version" in err and len(err.splitlines()) == 1
    assert [path.name for path in (made / "cells" / "tiny" / "reports").iterdir()] == ["s"]


def test_several_specifications_without_a_finished_cell_are_one_error(run: Run, made: Path) -> None:
    for name in ("t", "u"):
        (made / f"{name}.toml").write_text(LATER)
    code, _, err = run("experiment", "report", "t.toml", "u.toml", "--data", "shop")
    assert code == 2
    assert err.startswith("error: t.toml: no cell is done") and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["t.toml", "s.toml", "s.toml"], "cells/tiny/reports/s: two reports cannot share a folder"),
        (["s.toml", "t.toml", "--to", "r"], "r: two reports cannot share a folder"),
    ],
)
def test_two_reports_are_not_written_to_one_place(run: Run, made: Path, words: list[str], why: str) -> None:
    (made / "t.toml").write_text((made / "s.toml").read_text())
    before = snapshot(made)
    code, _, err = run("experiment", "report", *words, "--data", "shop")
    assert code == 2
    assert why in err and len(err.splitlines()) == 1
    assert snapshot(made) == before


def test_the_page_needs_no_other_file_and_reads_no_name_as_markup(run: Run, made: Path) -> None:
    run(*WORDS)
    page = (made / "cells" / "tiny" / "reports" / "s" / "s.html").read_text()
    tags = Tags(page)
    assert tags.open == []
    names = [tag for tag, _ in tags.seen]
    assert not {"script", "link", "img", "iframe", "i"} & set(names)
    for tag, attributes in tags.seen:
        for what in ("src", "href", "xlink:href"):
            assert (attributes.get(what) or "#").startswith("#"), (tag, attributes)
    assert "url(http" not in page
    assert "@import" not in page
    ids = [attributes["id"] for _, attributes in tags.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert names.count("figure") == names.count("figcaption") == 2
    assert "Tom &amp; &lt;i&gt;Jerry&lt;/i&gt;" in page
    assert "clbr experiment run s.toml --data shop" in page
    assert re.search(r"<b>\d+\.\d+ ± \d+\.\d+ \(\+", page)


def test_the_markdown_has_the_numbers_of_every_figure_and_reads_no_name_as_markup(run: Run, made: Path) -> None:
    run(*WORDS)
    text = (made / "cells" / "tiny" / "reports" / "s" / "s.md").read_text()
    assert "<script>" not in text and "\\<script\\>" in text
    heading, picture, below = text.partition("![Training curves](s-curves.svg)")
    assert heading.rstrip().endswith("## Training curves") and picture
    assert "| lightgcn, original, seed 1 | 4 | 3 | " in below


def test_every_caption_names_data_and_seeds_and_the_page_has_its_provenance(run: Run, made: Path, tiny: World) -> None:
    run(*WORDS)
    page = (made / "cells" / "tiny" / "reports" / "s" / "s.html").read_text()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page) + re.findall(
        r"<section.*?<p class='caption'>(.*?)</p>", page, re.S
    )
    assert len(captions) == 5, captions
    for caption in captions:
        assert "tiny, " in caption
        assert "2 seeds" in caption
    parts = (tiny.dataset.fingerprint, "torch", "2.13.0", "abc123", "memory, MiB", "dim = 64", "varied: tau")
    for text in (*parts, "# preset: none", "lightgcn: none"):
        assert text in page, text


def test_a_report_names_no_folder_of_the_machine(run: Run, made: Path) -> None:
    elsewhere = shutil.copytree(made / "shop", made.parent / "elsewhere" / "shop")
    (made / "mine.toml").write_text("[train]\nlearning_rate = 0.001\n")  # the default: the same cells
    spec = made / "s.toml"
    spec.write_text('preset = "mine.toml"\n' + spec.read_text())
    words = ("experiment", "report", spec, "--data", elsewhere, "--out", made / "cells" / "tiny", "--to", made / "r")
    assert run(*words)[0] == 0
    for path in (made / "r").iterdir():
        assert str(made.parent) not in path.read_text(errors="replace"), path.name
    text = (made / "r" / "s.md").read_text()
    assert "clbr experiment report s.toml --data shop --out cells/tiny --to r\n" in text
    assert "mine.toml" in text


def test_options_select_as_they_do_for_run(run: Run, made: Path) -> None:
    assert run(*WORDS, "--where", " tau = 0.5 ", "--to", "spaced")[0] == 0
    code, out, _ = run(*WORDS, "--where", "tau=0.5", "--seeds", "1", "--to", "r")
    assert code == 0
    assert "Failed" not in out
    assert "1 seed." in out
    text = (made / "r" / "s.md").read_text()
    assert "run s.toml --data shop --seeds 1 --where tau=0.5\n" in text
    assert "report s.toml --data shop --seeds 1 --where tau=0.5 --to r\n" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "nowhere"], "nowhere: no cells there, "),
        (
            ["--where", "tau=1.0", "--variants", "views & <more>"],
            "nothing to report, none of the 2 cells is done; 1 failed",
        ),
        (["--models", "bgcn"], "no model 'bgcn'"),
        (["--where", "tau=99"], "tau=99: no cell has this value; tau varies over 0.5, 1.0 (--where)"),
        (["--where", "tau=0.5,,1"], "--where tau=0.5,,1: expected key=value,value, for instance share=0.2,1"),
        (["--where", "tau"], "--where tau: expected key=value,value"),
        (["--where", "=0.5"], "--where =0.5: expected key=value,value"),
        (["--where", "ratio=0.5"], "no varied setting 'ratio'"),
        (["--to", "s.toml"], "s.toml: cannot be written (File exists); choose another folder (--to)"),
        (["--to", "s.toml/below"], "cannot be written"),
    ],
)
def test_bad_input_is_one_error_and_changes_nothing(run: Run, made: Path, more: list[str], message: str) -> None:
    assert_refused(run, made, [*WORDS, *more], message)


def test_cells_of_other_data_or_another_version_are_not_reported(run: Run, made: Path, tiny: World) -> None:
    save(replace(tiny.dataset, ui=tiny.dataset.ui[1:]), made / "other")
    words = ["experiment", "report", "s.toml", "--data", "other", "--out", "cells/tiny"]
    assert_refused(run, made, words, "holds cells of tiny, and tiny is other data; choose another folder (--out)")
    about = made / "cells" / "tiny" / "about.json"
    about.write_text(about.read_text().replace('"layout": 2', '"layout": 1'))
    assert_refused(
        run,
        made,
        list(WORDS),
        "made by another version (layout 1, this version reads layout 2); choose another folder (--out)",
    )


def test_results_of_other_users_are_an_error(run: Run, made: Path, tiny: World) -> None:
    folder = made / "cells" / "tiny" / "cells"
    path = next(iter(sorted(folder.glob("*.npz"))))
    from clbr.experiments.store import PerUser

    store = Store(made / "cells" / "tiny")
    variant_cells = expand(read_spec(made / "s.toml"), "x", tiny.dataset.fingerprint, "tiny", tiny.dataset)
    cell = next(one.cell for one in variant_cells if one.cell.key == path.stem)
    record, tested = store.read(cell), store.read_per_user(cell)
    assert record is not None
    store.write(record, PerUser({name: values[1:] for name, values in tested.metrics.items()}, tested.found))
    assert_refused(run, made, list(WORDS), "has the results of other users")
