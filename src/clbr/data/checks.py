"""Why a file could not be read: found line by line, once the fast reader has given up."""

import codecs
from pathlib import Path

from clbr.data.dataset import Nodes
from clbr.data.pairs import Pairs
from clbr.errors import InputError


def explain_pairs(path: Path, content: bytes, left: Nodes, right: Nodes, otherwise: str) -> InputError:
    """The first faulty line of a file of pairs, in words; `otherwise` if every line looks right."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        fault = _fault(line.removesuffix(b"\r"), number, left, right)
        if fault:
            return InputError(f"{path}, line {number}: {fault}")
    return InputError(f"{path}: cannot be read ({otherwise.splitlines()[0]})")


def explain_size(path: Path, content: bytes) -> InputError:
    """What is wrong with a size file."""
    shown = content[:60].decode("utf-8", "replace").strip()
    return InputError(f"{path}, line 1: found '{shown}', expected three whole numbers: users, bundles, items")


def explain_shared(one: Path, other: Path, shared: Pairs) -> InputError:
    """Which pair stands in two splits, and on which lines."""
    user, bundle = shared[0].tolist()
    places = []
    for path in (one, other):
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
        numbers = ([int(field) for field in line.split()] for line in lines)
        places.append(next(n for n, pair in enumerate(numbers, start=1) if pair == [user, bundle]))
    return InputError(
        f"{other}, line {places[1]}: user {user} and bundle {bundle} are a pair in {one.name}, line {places[0]}, too "
        f"({len(shared):,} such): a pair belongs to one split; delete it from the others"
    )


def whole_number(text: str) -> bool:
    """Whether a text is a plain whole number, without sign or space."""
    return text.isascii() and text.isdigit()


def fault_of_id(value: str) -> str | None:
    """What keeps a text from being a plain whole number; None if nothing does."""
    if whole_number(value):
        return "is too large for an id" if len(value) > 18 else None
    if not value.strip():
        return "is empty"
    if whole_number(value.removeprefix("-")):
        return "is negative"
    try:
        float(value)
    except ValueError:
        return "is not a number"
    return "is not a whole number"


def _fault(line: bytes, number: int, left: Nodes, right: Nodes) -> str | None:
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
        if fault := fault_of_id(value):
            return f"{nodes.kind} id '{value[:60]}' {fault}; {expected}"
        if int(value) >= len(nodes):
            return f"{nodes.kind} id {value} is beyond the {len(nodes)} {nodes.kind}s of the size file; {expected}"
    return None
