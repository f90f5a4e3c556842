"""A table of texts, and how it is written: Markdown, LaTeX, HTML."""

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

FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"


@dataclass(frozen=True)
class Text:
    """What stands in a cell."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: the first `names` columns name things, the others are numbers.

    `over` has an upper head for each column, "" for none; equal neighbours share it. With one row of heads only
    the column that is called like it stands for it.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    names: int = 1
    notes: Sequence[str] = ()
    over: Sequence[str] = ()

    @property
    def heads(self) -> list[tuple[str, int]]:
        """The upper heads, and how many columns each spans."""
        return [(text, len(list(same))) for text, same in groupby(self.over)]

    @property
    def lower(self) -> list[str]:
        """The columns' names below their upper heads."""
        over = self.over or [""] * len(self.columns)
        pairs = zip(self.columns, over, strict=True)
        return ["here" if above and column == above else column for column, above in pairs]

    def markdown(self, picture: str = "") -> str:
        """A heading, the picture that shows the table if there is one, the table, the caption, the notes."""
        title = to_markdown(self.title)
        lines = [f"## {title}", "", *([f"![{title}]({quote(picture)})", ""] if picture else [])]
        lines.append(_line(to_markdown(column) for column in self.columns))
        lines.append(_line("---" if index < self.names else "---:" for index in range(len(self.columns))))
        for row in self.rows:
            lines.append(
                _line(f"**{to_markdown(cell.text)}**" if cell.bold else to_markdown(cell.text) for cell in row)
            )
        lines += ["", to_markdown(self.caption), *(f"\n- {to_markdown(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def latex(self, name: str) -> str:
        """A table for the packages booktabs and graphicx, made smaller where it is wider than the text.

        Its label is made of a name, such as that of the file, and its title.
        """
        kinds = "l" * self.names + "r" * (len(self.columns) - self.names)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.title)}. {_latex(self.caption)}}}"]
        lines += [rf"\label{{tab:{_slug(name)}:{_slug(self.title)}}}", r"\small"]
        lines += [rf"{FITTED}{{\begin{{tabular}}{{{kinds}}}", r"\toprule"]
        if self.over:
            lines += _tex_heads(self.heads)
        lines += [_tex_line([_latex(text) for text in self.lower]), r"\midrule"]
        for row in self.rows:
            lines.append(_tex_line([rf"\textbf{{{_latex(c.text)}}}" if c.bold else _latex(c.text) for c in row]))
        lines += [r"\bottomrule", r"\end{tabular}}"]
        lines += [rf"\par\footnotesize {_latex(note)}" for note in self.notes]
        lines.append(r"\end{table}")
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The table alone, and its notes."""
        head = "".join(f'<th scope="col"{_side(i, self.names)}>{escape(c)}</th>' for i, c in enumerate(self.lower))
        if self.over:
            spans = (
                f'<th scope="colgroup" colspan="{n}">{escape(text)}</th>' if text else f'<td colspan="{n}"></td>'
                for text, n in self.heads
            )
            head = f"{''.join(spans)}</tr>\n<tr>{head}"
        body = []
        for row in self.rows:
            cells = []
            for index, cell in enumerate(row):
                text = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
                opened = '<th scope="row"' if index == 0 else f"<td{_side(index, self.names)}"
                cells.append(f"{opened}>{text}</{'th' if index == 0 else 'td'}>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        opened = '<table class="wide">' if self.over else "<table>"
        table = f"{opened}<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(body) + "\n</tbody></table>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        scrolls = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">{table}</div>'
        return scrolls + (f'<ul class="notes">{notes}</ul>' if notes else "")


def plain(rows: Sequence[Sequence[str]]) -> list[list[Text]]:
    """Texts none of which stands out."""
    return [[Text(text) for text in row] for row in rows]


def _side(index: int, names: int) -> str:
    return "" if index < names else ' class="number"'


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex_heads(heads: Sequence[tuple[str, int]]) -> list[str]:
    cells, rules, end = [], "", 0
    for text, columns in heads:
        end += columns
        cells.append(rf"\multicolumn{{{columns}}}{{c}}{{{_latex(text)}}}" if text else " & " * (columns - 1))
        rules += rf"\cmidrule(lr){{{end - columns + 1}-{end}}}" if text else ""
    return [_tex_line(cells), rules]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _tex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def to_markdown(text: str) -> str:
    """A text that means nothing but itself."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    written = "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", written)  # a minus, not a hyphen
