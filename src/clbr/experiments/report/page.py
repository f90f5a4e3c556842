"""The report of a specification: Markdown, CSV, LaTeX, SVG figures, and one HTML page without external files."""

import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from clbr.errors import InputError
from clbr.experiments.report import tables
from clbr.experiments.report.comparisons import Comparisons, compare, compare_pairs
from clbr.experiments.report.degrees import degrees
from clbr.experiments.report.drawing import Drawn
from clbr.experiments.report.embeddings import embeddings
from clbr.experiments.report.figures import curves, lines, surface
from clbr.experiments.report.grid import Grid, to_markdown
from clbr.experiments.report.provenance import counts_of, environment, settings
from clbr.experiments.report.results import Results
from clbr.experiments.report.tables import to_csv
from clbr.files import write_atomic


class Report:
    """The tables and figures of a specification's results. Equal results give identical files.

    `commands` are the command lines that made the results and the report. `on_progress(done, total)` is called while
    embeddings are computed.
    """

    def __init__(
        self,
        results: Results,
        commands: Sequence[str],
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.results, self.commands = results, commands
        self.comparisons = compare(results)
        self.grids = [tables.measured_table(results, self.comparisons)]
        if published := tables.published_table(results):
            self.grids.append(published)
        self.pairwise = compare_pairs(results) if results.spec.pairs else {}
        pairs = tables.pairs_table(results, self.pairwise)
        self.pairs = [pairs] if pairs else []
        self.cost = tables.cost_table(results)
        self.figures = _figures(results, self.comparisons, on_progress)
        self.curves = curves(results)

    def files(self, name: str) -> dict[str, bytes]:
        """Return the content of all files of the report, by file name."""
        grids = [*self.grids, *self.pairs, self.cost]
        spec, drawn = self.results.spec, [*self.figures, *([self.curves] if self.curves else [])]
        heading = "".join(f"{text}\n\n" for text in (f"# {to_markdown(spec.title)}", to_markdown(spec.about)) if text)
        figures = [one.grid.markdown(f"{name}-{one.name}.svg") for one in drawn]
        commands = "## Made by\n\n```\n" + "\n".join(self.commands) + "\n```\n\n" + environment(self.results).markdown()
        texts = {
            f"{name}.md": heading + "\n".join([*(grid.markdown() for grid in grids), *figures, commands]),
            f"{name}.csv": to_csv(self.results, self.comparisons),
            f"{name}.tex": "% needs \\usepackage{booktabs,graphicx}\n" + "\n".join(grid.latex(name) for grid in grids),
            f"{name}.html": self.page(),
        }
        texts |= {f"{name}-{one.name}.svg": one.svg for one in drawn}
        return {file: text.encode() for file, text in texts.items()}

    def page(self) -> str:
        """Return the HTML page, which needs no network and no scripts."""
        results, tests = self.results, tables.p_value_table(self.results, self.comparisons)
        sections = {
            "results": ("Results", _table(self.grids[0]) + (_folded("Tests", _table(tests)) if tests else "")),
            "pairs": ("Pair by pair", "".join(map(_table, self.pairs))),
            "paper": ("Compared with the paper", "".join(map(_table, self.grids[1:]))),
            "figures": ("Figures", "".join(map(_figure, self.figures))),
            "training": ("Training", _figure(self.curves) if self.curves else ""),
            "cost": ("Cost", _table(self.cost)),
            "settings": ("Settings", "".join(_folded(label, _pre(text)) for label, text in settings(results))),
            "made": ("Made by", _pre("\n".join(self.commands)) + _table(environment(results))),
        }
        shown = {key: section for key, section in sections.items() if section[1]}
        return _template().substitute(
            title=escape(results.spec.title),
            data=escape(results.dataset.name),
            about=escape(results.spec.about),
            summary=escape(self._summary()),
            nav=" ".join(f'<a href="#{key}">{title}</a>' for key, (title, _) in shown.items()),
            main="\n".join(
                f'<section id="{key}">\n<h2>{title}</h2>\n{body}\n</section>' for key, (title, body) in shown.items()
            ),
        )

    def _summary(self) -> str:
        """Return the data, the number of seeds and of cells that are done or failed, as text."""
        results = self.results
        cells = [(one.cell, group) for group in results.groups for one in group.cells]
        failed = {cell.key for cell, group in cells if cell.config.seed in group.failed}
        counts = f"{len(results.records)} of {len({cell.key for cell, _ in cells})} cells done, {len(failed)} failed"
        return f"{counts_of(results.dataset)}. {results.seeds}; {counts}."

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write all files into a folder, which is created; files with other names are kept. Return their paths."""
        contents = self.files(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror}); choose another folder", "to") from None
        for file, content in contents.items():
            write_atomic(folder / file, content)
        return [folder / file for file in contents]


def _figures(results: Results, comparisons: Comparisons, on_progress: Callable[[int, int], None]) -> list[Drawn]:
    draw: dict[str | None, Callable[[], list[Drawn]]] = {
        "lines": lambda: [one for one in [lines(results)] if one],
        "surface": lambda: [one for one in [surface(results, comparisons)] if one],
        "degrees": lambda: degrees(results),
        "embeddings": lambda: embeddings(results, on_progress),
        None: list,
    }
    return draw[results.spec.figure]()


def _table(grid: Grid) -> str:
    return f"<p class='caption'>{escape(grid.caption)}</p>\n{grid.html()}\n"


def _figure(drawn: Drawn) -> str:
    """Return the figure, its caption, and its numbers in a folded section."""
    svg = drawn.svg[drawn.svg.index("<svg") :]  # without the XML declaration
    # Larger than in print on a wide screen; on a narrow one it scrolls and is not shrunk.
    size = re.search(r'width="([\d.]+)pt" height="[\d.]+pt"', svg)
    assert size is not None
    width = float(size[1])
    label = f'role="img" aria-label="{escape(drawn.grid.title)}"'
    svg = svg.replace(size[0], f'{label} style="width: {1.2 * width:.0f}pt; min-width: {0.9 * width:.0f}pt"', 1)
    caption = f"<figcaption><b>{escape(drawn.grid.title)}.</b> {escape(drawn.grid.caption)}</figcaption>"
    return f'<figure><div class="scroll">{svg}</div>{caption}{_folded("Numbers", drawn.grid.html())}</figure>\n'


def _folded(label: str, body: str) -> str:
    return f"<details><summary>{escape(label)}</summary>\n{body}</details>\n"


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>\n"


def _template() -> Template:
    return Template(files("clbr.experiments.report").joinpath("page.html").read_text(encoding="utf-8"))
