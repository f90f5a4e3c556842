"""Grid: a table of texts, written as Markdown, LaTeX or HTML."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from urllib.parse import quote

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
} | {letter: f"\\{letter}" for letter in "&%$#_{}"}

SHRINK_TO_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"


@dataclass(frozen=True)
class Text:
    """The text of a table cell."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Grid:
    """A table with a title and a caption. The first `name_columns` columns are names, the others are numbers.

    `upper` is an upper header row: a text for each column, "" for none. Equal neighbours are one header that spans
    several columns. Markdown has one header row only and leaves it out.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    name_columns: int = 1
    notes: Sequence[str] = ()
    upper: Sequence[str] = ()

    @property
    def upper_headers(self) -> list[tuple[str, int]]:
        """The headers of the upper row, and how many columns each of them spans."""
        return [(text, len(list(same))) for text, same in groupby(self.upper)]

    @property
    def lower_headers(self) -> list[str]:
        """The columns' names below the upper row; "here" for a column with the name of its upper header."""
        upper = self.upper or [""] * len(self.columns)
        pairs = zip(self.columns, upper, strict=True)
        return ["here" if above and column == above else column for column, above in pairs]

    def markdown(self, picture: str = "") -> str:
        """Return a heading, the picture with these numbers (if there is one), the table, the caption and the notes."""
        title = to_markdown(self.title)
        lines = [f"## {title}", "", *([f"![{title}]({quote(picture)})", ""] if picture else [])]
        lines.append(_line(to_markdown(column) for column in self.columns))
        lines.append(_line("---" if index < self.name_columns else "---:" for index in range(len(self.columns))))
        for row in self.rows:
            lines.append(
                _line(f"**{to_markdown(cell.text)}**" if cell.bold else to_markdown(cell.text) for cell in row)
            )
        lines += ["", to_markdown(self.caption), *(f"\n- {to_markdown(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def latex(self, name: str) -> str:
        """Return a table for the packages booktabs and graphicx. A table wider than the text is scaled down.

        Its label is made from `name`, for instance that of the file, and the title.
        """
        alignment = "l" * self.name_columns + "r" * (len(self.columns) - self.name_columns)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.title)}. {_latex(self.caption)}}}"]
        lines += [rf"\label{{tab:{_slug(name)}:{_slug(self.title)}}}", r"\small"]
        lines += [rf"{SHRINK_TO_FIT}{{\begin{{tabular}}{{{alignment}}}", r"\toprule"]
        if self.upper:
            lines += _latex_headers(self.upper_headers)
        lines += [_latex_line([_latex(text) for text in self.lower_headers]), r"\midrule"]
        for row in self.rows:
            lines.append(_latex_line([rf"\textbf{{{_latex(c.text)}}}" if c.bold else _latex(c.text) for c in row]))
        lines += [r"\bottomrule", r"\end{tabular}}"]
        lines += [rf"\par\footnotesize {_latex(note)}" for note in self.notes]
        lines.append(r"\end{table}")
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Return the table and its notes."""
        head = "".join(
            f'<th scope="col"{_alignment(i, self.name_columns)}>{escape(c)}</th>'
            for i, c in enumerate(self.lower_headers)
        )
        if self.upper:
            spans = (
                f'<th scope="colgroup" colspan="{n}">{escape(text)}</th>' if text else f'<td colspan="{n}"></td>'
                for text, n in self.upper_headers
            )
            head = f"{''.join(spans)}</tr>\n<tr>{head}"
        body = []
        for row in self.rows:
            cells = []
            for index, cell in enumerate(row):
                text = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
                opened = '<th scope="row"' if index == 0 else f"<td{_alignment(index, self.name_columns)}"
                cells.append(f"{opened}>{text}</{'th' if index == 0 else 'td'}>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        opened = '<table class="wide">' if self.upper else "<table>"
        table = f"{opened}<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(body) + "\n</tbody></table>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        scrolls = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">{table}</div>'
        return scrolls + (f'<ul class="notes">{notes}</ul>' if notes else "")


def plain_rows(rows: Sequence[Sequence[str]]) -> list[list[Text]]:
    """Return rows of texts, none of them bold."""
    return [[Text(text) for text in row] for row in rows]


def _alignment(index: int, name_columns: int) -> str:
    return "" if index < name_columns else ' class="number"'


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex_headers(headers: Sequence[tuple[str, int]]) -> list[str]:
    cells, rules, end = [], "", 0
    for text, columns in headers:
        end += columns
        cells.append(rf"\multicolumn{{{columns}}}{{c}}{{{_latex(text)}}}" if text else " & " * (columns - 1))
        rules += rf"\cmidrule(lr){{{end - columns + 1}-{end}}}" if text else ""
    return [_latex_line(cells), rules]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def to_markdown(text: str) -> str:
    """Return the text with all Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    written = "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", written)  # a minus sign, not a hyphen
