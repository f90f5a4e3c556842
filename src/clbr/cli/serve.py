"""clbr serve."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clbr.cli.answers import ArtifactFolder
from clbr.cli.train import Threads
from clbr.errors import InputError, require

if TYPE_CHECKING:
    from clbr.service.words import Words

TOKEN = "CLBR_TOKEN"
SHORTEST = 16
Log = Literal["info", "warning", "error"]
EXAMPLE = "Example: clbr serve desk --words reader,list,book"


def serve(
    artifact: ArtifactFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Where to listen; other than on this machine a token is needed.")] = (
        "127.0.0.1"
    ),
    token_file: Annotated[
        Path | None, typer.Option(help=f"A file that holds the token; or set {TOKEN}.", show_default=False)
    ] = None,
    words: Annotated[
        str, typer.Option(help="What people call users, bundles and items; plurals after a slash.")
    ] = "reader,list,item",
    report: Annotated[
        Path | None, typer.Option(help="A report that clbr experiment report made, to show.", show_default=False)
    ] = None,
    log: Annotated[Log, typer.Option(help="What is logged; info: every request.")] = "info",
    threads: Threads = None,
) -> None:
    """Answer over HTTP, and serve a page to ask from: recommend, what if, why.

    ARTIFACT may be a link: when it points to another artifact, that one is taken without dropping a request. POST
    /admin/reload does the same. Ctrl-C stops when what is being answered is answered.
    """
    for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
        require(package, "serve")
    from clbr.service.words import Words

    token = _token(token_file)
    if host not in ("127.0.0.1", "::1", "localhost") and token is None:
        raise InputError(
            f"--host {host}: others could reach it, so it needs a token: set {TOKEN}, or give --token-file, with at "
            f"least {SHORTEST} letters that nobody can guess"
        )
    if report is not None and not report.is_file():
        raise InputError(f"--report {report}: no file there; clbr experiment report makes one")
    named = Words.parse(words)
    run(artifact, host=host, port=port, token=token, words=named, report=report, log=log, threads=threads)


def run(
    artifact: Path,
    *,
    host: str = "127.0.0.1",
    port: int,
    token: str | None = None,
    words: "Words",
    report: Path | None = None,
    log: Log = "info",
    threads: int | None = None,
    browse: bool = False,
) -> None:
    """Listen until told to stop; open a browser on it, if asked to and if someone is there to see it."""
    import signal
    import socket
    import webbrowser
    from threading import Thread

    from clbr.service.app import ServiceConfig, make_app
    from clbr.service.logs import configure
    from clbr.service.server import make_server
    from clbr.service.worker import Worker
    from clbr.training.runtime import use_threads

    use_threads(threads)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port} ({error.strerror}); try another --port or --host"
        ) from None
    with listening:
        desk = Worker(artifact)
        server = make_server(make_app(ServiceConfig(artifact, token, words, report), desk), host, port)
        about = desk.now.artifact.about
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        typer.echo(f"{about.model} on {about.data} answers at {address}  (Ctrl-C stops)")
        configure(log)
        if browse and sys.stdout.isatty():
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # one in the terminal would wait
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # when all is answered, leave as others do
        server.run(sockets=[listening])


def _token(file: Path | None) -> str | None:
    """The token, never from the command line: everyone on the machine can read that."""
    if file is not None:
        from clbr.files import read_bytes

        token, place = read_bytes(file).decode("utf-8", "replace").strip(), str(file)
    elif TOKEN in os.environ:
        token, place = os.environ[TOKEN].strip(), TOKEN
    else:
        return None
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(f"{place}: expected a token of at least {SHORTEST} plain letters or digits, without spaces")
    return token
