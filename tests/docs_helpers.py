"""Reading Markdown pages: blocks, code spans, links, and the commands that they name."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from clbr.cli import app
from conftest import ROOT

README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", *DOCS, *sorted((ROOT / "results").glob("*.md"))]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FOLDERS = "src|docs|experiments|benchmarks|results|tests|clbr"


@dataclass(frozen=True)
class Block:
    """A fenced block; `words` is the first line after the language: a file's name, or no-run."""

    language: str
    words: tuple[str, ...]
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    """The fenced blocks of a language."""
    found = []
    for info, text in FENCE.findall(page.read_text()):
        name, *words = info.split() or [""]
        if name == language:
            found.append(Block(name, tuple(words), text))
    return found


def runnable(page: Path, language: str) -> list[str]:
    """The texts of the blocks of a language that are run as they are."""
    return [block.text for block in blocks(page, language) if not block.words]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell block, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            assert words[0] == "clbr", f"{line}: a checked block holds commands of clbr only"
            yield words[1:]


def spans(page: Path) -> list[str]:
    """The inline code of a page, each on one line."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", FENCE.sub("", page.read_text()))]


def links(page: Path) -> list[str]:
    """The targets of links and pictures that are in the project."""
    targets = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text()))
    return [target for target in targets if "://" not in target]


def paths(text: str) -> list[str]:
    """The paths of the project in a text, from the root on."""
    found = re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./*-]*)", text)
    return [re.sub(r"^clbr/", "src/clbr/", path.rstrip(".")) for path in found]


def exists(path: str) -> bool:
    """Whether a path, or anything that fits its pattern, exists. Runs are not kept: their records are."""
    if run := re.fullmatch(r"(results/.+)/runs/([\w-]+)", path):
        return run[2] == "RUN" or (ROOT / run[1] / "cells" / f"{run[2]}.json").exists()
    return any(ROOT.glob(path.rstrip("/"))) if "*" in path else (ROOT / path).exists()


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def root_command() -> Any:
    """The tree of all commands."""
    return typer.main.get_command(app)


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and the words after its name."""
    command, rest = root_command(), list(words)
    while rest and not rest[0].startswith("-") and (children := getattr(command, "commands", None)):
        assert rest[0] in children, f"no command '{rest[0]}'"
        command, rest = children[rest[0]], rest[1:]
    return command, rest


def options_of(command: Any) -> set[str]:
    """The options of a command."""
    return {"--help", *(option for one in command.params for option in (*one.opts, *one.secondary_opts))}


@cache
def all_options() -> set[str]:
    """The options of all commands."""
    waiting, found = [root_command()], set[str]()
    while waiting:
        command = waiting.pop()
        found |= options_of(command)
        waiting += getattr(command, "commands", {}).values()
    return found


def parse_command(words: list[str]) -> None:
    """Parse a command without running it; a wrong argument, option or value raises an error."""
    command, rest = find_command(words)
    assert not hasattr(command, "commands"), f"{' '.join(words)}: is a group of commands"
    command.make_context(words[0], rest)


def resolve(name: str) -> object:
    """What a dotted name of the package means."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)
