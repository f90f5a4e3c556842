"""Builds docs/cli.md, the reference of all commands, from their own help: python docs/build_cli.py [FILE]."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from clbr.cli import app

PAGE = Path(__file__).parent / "cli.md"
INTRODUCTION = """# Commands

All commands with their options. This page is made from the help of the program (`make docs`); `clbr COMMAND --help`
shows the same text.

- `DATA` is a data folder ([data](data.md)), `RUN` a run folder ([training](training.md)), `ARTIFACT` a recommender
  folder ([answers](answers.md)), `SPEC` a specification of an experiment ([experiments](experiments.md)).
- Wrong input ends with one line on the standard error stream that says what was found and what to do, and with exit
  code 2. Nothing that exists is changed then.
- `--json` prints JSON on the standard output stream, and nothing else there.
"""


def build_page() -> str:
    """Return the page as Markdown."""
    root: Any = typer.main.get_command(app)
    commands = list(_commands(root, "clbr", None))
    index = [f"- [`{path}`](#{path.replace(' ', '-')}): {_help(command)[0]}" for path, command, _ in commands]
    parts = [INTRODUCTION, "\n".join(index) + "\n"]
    parts += [_section(path, command, context) for path, command, context in commands]
    return "\n".join(parts)


def _commands(command: Any, path: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, command and context of each command that is no group."""
    context = command.context_class(command, info_name=path.rpartition(" ")[2], parent=parent)
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}", context)
    if not hasattr(command, "commands"):
        yield path, command, context


def _section(path: str, command: Any, context: Any) -> str:
    """Return usage, description, parameters and example of one command."""
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"## {path}", "", "```", usage, "```", "", "\n\n".join(_help(command)), ""]
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            name, text = record
            lines.append(f"- `{name}`: {' '.join(text.split())}")
    example = (command.epilog or "").removeprefix("Example: ")
    lines += ["", "```sh no-run", example, "```"] if example else []
    return "\n".join(lines) + "\n"


def _help(command: Any) -> list[str]:
    """Return the paragraphs of a command's description."""
    return [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]


def main(file: str | Path = PAGE) -> None:
    """Write the page."""
    Path(file).write_text(build_page(), encoding="utf-8")
    print(f"{file}: written")


if __name__ == "__main__":
    main(*sys.argv[1:])
