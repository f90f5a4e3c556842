"""The command line: one function per command. It parses, calls the library and prints."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from clbr.cli.baselines import baselines
from clbr.cli.compare import compare, models
from clbr.cli.data import app as data_app
from clbr.cli.demo import demo
from clbr.cli.experiment import app as experiment_app
from clbr.cli.find import find, show_node
from clbr.cli.recommend import export, recommend, similar
from clbr.cli.serve import EXAMPLE as SERVE_EXAMPLE
from clbr.cli.serve import serve
from clbr.cli.theory import EXAMPLE as THEORY_EXAMPLE
from clbr.cli.theory import theory
from clbr.cli.train import EXAMPLE, evaluate, train
from clbr.cli.tune import EXAMPLE as TUNE_EXAMPLE
from clbr.cli.tune import tune
from clbr.cli.update import EXAMPLE as UPDATE_EXAMPLE
from clbr.cli.update import update
from clbr.cli.views import EXAMPLE as VIEWS_EXAMPLE
from clbr.cli.views import views
from clbr.cli.whatif import audience, explain, suggest, whatif
from clbr.errors import InputError

app = typer.Typer(
    help="Bundle recommendation with counterfactual learning.",
    epilog="Begin with: clbr demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.add_typer(experiment_app, name="experiment")
app.command(epilog=EXAMPLE)(train)
app.command(epilog="Example: clbr evaluate runs/first --split test --k 20,40")(evaluate)
app.command(epilog="Example: clbr compare runs/bgcn-0 runs/bgcn-1 runs/crosscbr-0 runs/crosscbr-1")(compare)
app.command(epilog="Example: clbr models shop")(models)
app.command(epilog=TUNE_EXAMPLE)(tune)
app.command(epilog=VIEWS_EXAMPLE)(views)
app.command(epilog=THEORY_EXAMPLE)(theory)
app.command(epilog="Example: clbr export runs/first --out artifact")(export)
app.command(epilog=UPDATE_EXAMPLE)(update)
app.command(epilog="Example: clbr recommend artifact --user 17 --k 10")(recommend)
app.command(epilog="Example: clbr whatif artifact --user 17 --drop-item 3 --add-bundle 5")(whatif)
app.command(epilog="Example: clbr audience artifact --bundle 5 --swap 3=8")(audience)
app.command(epilog="Example: clbr explain artifact --user 17 --bundle 5")(explain)
app.command(epilog="Example: clbr suggest artifact --bundle 5")(suggest)
app.command(epilog="Example: clbr similar artifact --bundle 5")(similar)
app.command(epilog="Example: clbr find artifact garden --kind bundle")(find)
app.command("show", epilog="Example: clbr show artifact --user 17")(show_node)
app.command(epilog=SERVE_EXAMPLE)(serve)
app.command(epilog="Example: clbr baselines shop --k 5,10")(baselines)
app.command(epilog="Example: clbr demo")(demo)


def _version(wanted: bool) -> None:
    if wanted:
        from clbr import __version__

        typer.echo(f"clbr {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _options_of(words: list[str], arguments: Sequence[str]) -> list[str]:
    """The options of the command that was typed which set these arguments of the library."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    names = [
        name for argument in arguments for name in (argument, argument.removesuffix("s"))
    ]  # --item may be repeated
    wanted = list(dict.fromkeys(f"--{name.replace('_', '-')}" for name in names))
    known = {option for parameter in command.params for option in parameter.opts}
    return [option for option in wanted if option in known]


def main() -> None:
    """Run a command; bad input ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal cannot show is escaped
    try:
        app()
    except InputError as error:
        options = _options_of(sys.argv[1:], error.arguments)
        hint = f" ({', '.join(options)})" if options else ""
        typer.echo(f"error: {error}{hint}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of the output has closed it, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # torch raises RuntimeError
            raise
        typer.echo("error: not enough memory for this; try smaller data, --scale or settings", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(f"error: {error.filename or 'output'}: {error.strerror}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(130)
