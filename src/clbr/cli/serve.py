"""clbr serve."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clbr.cli.options import Threads, parse_changes
from clbr.cli.recommend import ArtifactFolder
from clbr.errors import InputError, require

if TYPE_CHECKING:
    from socket import socket

    from clbr.inference.artifact import About
    from clbr.service.limits import Limits
    from clbr.service.pages import ServiceConfig
    from clbr.service.words import Words

TOKEN = "CLBR_TOKEN"
MIN_TOKEN = 16
Log = Literal["info", "warning", "error"]
EXAMPLE = "Example: clbr serve artifact --words reader,list,book"


def serve(
    artifact: ArtifactFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; other than this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    token_file: Annotated[
        Path | None, typer.Option(help=f"A file with the token; or set {TOKEN}.", show_default=False)
    ] = None,
    words: Annotated[
        str, typer.Option(help="What users, bundles and items are called; irregular plurals after a slash.")
    ] = "reader,list,item",
    report: Annotated[
        Path | None, typer.Option(help="A page that clbr experiment report made.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with limits of the service.", show_default=False)
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, a limit; goes before the file's.")
    ] = None,
    log: Annotated[Log, typer.Option(help="Level of the log; info: every request.")] = "info",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer; they share the artifact.")] = 1,
    threads: Threads = None,
) -> None:
    """Answer over HTTP, and serve the page: recommendations, what-if, audiences, explanations.

    ARTIFACT may be a link: when it points to another artifact, the service swaps to it without dropping a request. POST
    /admin/reload does the same. Ctrl-C stops after the running requests.
    """
    for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
        require(package, "serve")
    from clbr.service.words import Words

    token = _token(token_file, host)
    if report is not None and not report.is_file():
        raise InputError(f"--report {report}: no such file; clbr experiment report makes one")
    run(
        artifact,
        host=host,
        port=port,
        token=token,
        words=Words.parse(words),
        report=report,
        limits=_limits(config, change or []),
        log=log,
        workers=workers,
        threads=threads,
    )


def run(
    artifact: Path,
    *,
    host: str = "127.0.0.1",
    port: int,
    token: str | None = None,
    words: "Words",
    report: Path | None = None,
    limits: "Limits | None" = None,
    log: Log = "info",
    workers: int = 1,
    threads: int | None = None,
    browse: bool = False,
) -> None:
    """Listen until a signal to stop; open a browser, if asked to and if the output is a terminal."""
    import signal

    from clbr.inference.artifact import open_artifact
    from clbr.service.app import make_app
    from clbr.service.limits import DEFAULT
    from clbr.service.pages import ServiceConfig
    from clbr.service.server import configure_logs, make_server
    from clbr.service.worker import Worker
    from clbr.training.runtime import use_threads

    use_threads(threads)
    open_artifact(artifact)  # a folder without an artifact is an error at once
    config = ServiceConfig(artifact, token, words, report, limits or DEFAULT)
    configure_logs(log)
    if workers > 1:
        _run_workers(config, host, port, log, workers, threads, browse)
        return
    failures: list[str] = []

    def started(reason: str) -> None:
        if reason:
            failures.append(reason)
            server.should_exit = True
        else:
            _announce(worker.current.artifact.about, host, listener.getsockname()[1], browse)

    with _listen(host, port) as listener:
        worker = Worker(artifact, config.limits, started)
        server = make_server(make_app(config, worker), host, port, config.limits)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # after the graceful stop, exit with 0
        server.run(sockets=[listener])
    if failures:
        raise InputError(failures[0])


def _run_workers(
    config: "ServiceConfig", host: str, port: int, log: Log, workers: int, threads: int | None, browse: bool
) -> None:
    """Listen with several processes; without a number of threads they share the cores."""
    import torch

    from clbr.service.member import Member
    from clbr.service.supervisor import Supervisor

    with _listen(host, port) as listener:
        member = Member(config, listener, log, threads or max(1, torch.get_num_threads() // workers))
        Supervisor(member, workers).run(lambda about: _announce(about, host, listener.getsockname()[1], browse))


def _announce(about: "About", host: str, port: int, browse: bool) -> None:
    """Say where the service answers, and show the page if asked to."""
    import webbrowser
    from threading import Thread

    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    typer.echo(f"{about.model} on {about.data} answers at {address}  (Ctrl-C stops)")
    sys.stdout.flush()
    if browse and sys.stdout.isatty():
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # one in a terminal would block


def _listen(host: str, port: int) -> "socket":
    from socket import AF_INET, AF_INET6, create_server

    try:
        return create_server((host, port), family=AF_INET6 if ":" in host else AF_INET, backlog=2048)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port} ({error.strerror}); try another --port or --host"
        ) from None


def _limits(file: Path | None, changes: list[str]) -> "Limits":
    """The limits of a file, with those that were typed over them."""
    from clbr.service.limits import Limits

    found = Limits.from_toml(file) if file else Limits()
    return Limits.make(found.model_dump() | parse_changes(changes), "--set") if changes else found


def _token(file: Path | None, host: str) -> str | None:
    """The token, from a file or the environment: everyone on the machine can read a command line."""
    if file is not None:
        from clbr.files import read_bytes

        token, place = read_bytes(file).decode("utf-8", "replace").strip(), str(file)
    elif TOKEN in os.environ:
        token, place = os.environ[TOKEN].strip(), TOKEN
    elif host in ("127.0.0.1", "::1", "localhost"):
        return None
    else:
        raise InputError(
            f"--host {host}: others could reach the service, so it needs a token: set {TOKEN}, or give --token-file, "
            f"with at least {MIN_TOKEN} characters that nobody can guess"
        )
    if len(token) < MIN_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(f"{place}: expected a token of at least {MIN_TOKEN} ASCII characters, without spaces")
    return token
