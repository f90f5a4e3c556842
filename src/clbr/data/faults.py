"""Messages for faulty data files and ids. Files are checked line by line after the fast reader has failed."""

import codecs
from pathlib import Path

import polars as pl

from clbr.data.dataset import Nodes
from clbr.data.pairs import Pairs
from clbr.errors import InputError


def explain_pairs(path: Path, content: bytes, left: Nodes, right: Nodes, reason: str) -> InputError:
    """An error that names the first faulty line of a file of pairs; it gives `reason` if every line is right."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        fault = _explain_line(line.removesuffix(b"\r"), number, left, right)
        if fault:
            return InputError(f"{path}, line {number}: {fault}")
    return InputError(f"{path}: cannot be read ({reason.splitlines()[0]})")


def explain_size(path: Path, content: bytes) -> InputError:
    """An error for a size file that does not hold three whole numbers."""
    shown = content[:60].decode("utf-8", "replace").strip()
    return InputError(f"{path}, line 1: found '{shown}', expected three whole numbers: users, bundles, items")


def explain_shared(one: Path, other: Path, shared: Pairs) -> InputError:
    """An error that names a pair of two splits, and its line (its row in Parquet) in each table."""
    user, bundle = shared[0].tolist()
    (here, at), (there, before) = (_find_pair(path, user, bundle) for path in (other, one))
    return InputError(
        f"{here}, {at}: user {user} and bundle {bundle} are a pair in {there.relative_to(one.parent)}, {before}, too "
        f"({len(shared):,} such): a pair belongs to one split; delete it from the others"
    )


def _find_pair(path: Path, user: int, bundle: int) -> tuple[Path, str]:
    """The file of a table of user-bundle pairs that holds this pair, and where it does."""
    if path.suffix == ".txt":
        rows = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
        pairs = ([int(field) for field in row.split()] for row in rows)
        return path, f"line {next(n for n, pair in enumerate(pairs, start=1) if pair == [user, bundle])}"
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        table = pl.scan_parquet(file, glob=False).with_row_index("row", offset=1)
        found = table.filter(user=user, bundle=bundle).select("row").collect()
        if found.height:
            return file, f"row {found.item(0, 0)}"
    raise InputError(f"{path}: was changed while it was read; try again")


def explain_row(file: Path, row: int, value: int | None, nodes: Nodes) -> InputError:
    """An error for an id of a Parquet file that is missing or out of range."""
    if value is None:
        fault = f"empty {nodes.kind} id"
    elif value < 0:
        fault = f"{nodes.kind} id '{value}' is negative"
    else:
        fault = f"{nodes.kind} id {value} is beyond the {len(nodes)} {nodes.kind}s of the size file"
    return InputError(f"{file}, row {row}: {fault}; expected a whole number from 0 to {len(nodes) - 1}")


def explain_id(value: str) -> str | None:
    """Why a text is not a whole number that can be an id; None if it is one."""
    if _is_whole_number(value):
        return "is too large for an id" if len(value) > 18 else None
    if not value.strip():
        return "is empty"
    if _is_whole_number(value.removeprefix("-")):
        return "is negative"
    try:
        float(value)
    except ValueError:
        return "is not a number"
    return "is not a whole number"


def _is_whole_number(text: str) -> bool:
    """Whether a text holds digits only: no sign, no space."""
    return text.isascii() and text.isdigit()


def _explain_line(line: bytes, number: int, left: Nodes, right: Nodes) -> str | None:
    pair = f"a {left.kind} id and {'an' if right.kind == 'item' else 'a'} {right.kind} id, separated by a tab"
    try:
        values = line.decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return f"bytes that are not UTF-8 text; expected {pair}"
    if len(values) != 2:
        found = "an empty line" if values == [""] else f"{len(values)} column{'s' * (len(values) != 1)}"
        return f"found {found} ('{line.decode()[:60]}'), expected {pair}"
    if number == 1 and not any(character.isdigit() for character in line.decode()):
        return f"'{values[0]}' and '{values[1]}' look like a header; this layout has none: delete the line"
    for value, nodes in zip(values, (left, right), strict=True):
        expected = f"expected a whole number from 0 to {len(nodes) - 1}"
        if fault := explain_id(value):
            return f"{nodes.kind} id '{value[:60]}' {fault}; {expected}"
        if int(value) >= len(nodes):
            return f"{nodes.kind} id {value} is beyond the {len(nodes)} {nodes.kind}s of the size file; {expected}"
    return None
