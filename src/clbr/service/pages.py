"""The page and the experiment report: routes that send files."""

import asyncio
import hmac
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_bytes
from time import time

from fastapi import FastAPI, Request, Response

from clbr.service import schemas
from clbr.service.limits import DEFAULT, Limits
from clbr.service.request_error import API, RequestError
from clbr.service.words import Words

PAGE_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)


@dataclass(frozen=True)
class ServiceConfig:
    """What the service is started with."""

    artifact: Path
    token: str | None = None
    words: Words = field(default_factory=Words)
    report: Path | None = None
    limits: Limits = DEFAULT
    secret: bytes = field(default_factory=lambda: token_bytes(32), repr=False)
    """Signs the addresses of the report."""


def add_pages(app: FastAPI, config: ServiceConfig) -> None:
    """The page and the experiment report."""

    def signed(end: int) -> str:
        """The report's address until a time: every worker process can check it."""
        return f"{end}-{hmac.digest(config.secret, str(end).encode(), 'sha256').hex()}"

    @app.post(f"{API}/report", response_model=schemas.Address)
    async def report_address() -> schemas.Address:
        """An address of the experiment report that works for a minute without a token, which a link cannot carry."""
        _ = await _report(config)
        return schemas.Address(path=f"/report/{signed(int(1e3 * (time() + config.limits.report_seconds)))}")

    @app.get("/report/{address}", include_in_schema=False)
    async def report(address: str) -> Response:
        end = address.partition("-")[0]
        given = (
            end.isascii() and end.isdigit() and hmac.compare_digest(address.encode(), signed(int(end[:20])).encode())
        )
        if not given or int(end) < 1e3 * time():
            raise RequestError(404, "this address works no longer: open the report from the page again")
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(await _report(config), media_type="text/html", headers=headers)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return _page(request, "index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page(request: Request, name: str) -> Response:
        return _page(request, name)


async def _report(config: ServiceConfig) -> bytes:
    if config.report is None:
        raise RequestError(404, "the service was started without an experiment report")
    try:
        return await asyncio.to_thread(config.report.read_bytes)
    except OSError as error:
        raise RequestError(404, f"{config.report.name}: {error.strerror}") from None


@cache
def _page_file(name: str) -> tuple[bytes, str]:
    """A file of the page by its plain name, and its ETag."""
    folder = files("clbr.service") / "page"
    stem, _, kind = name.rpartition(".")
    if kind not in PAGE_TYPES or not stem.replace("-", "").replace("_", "").isalnum() or not (folder / name).is_file():
        raise RequestError(404, f"no file '{name[:60]}' here; the page is at /")
    content = (folder / name).read_bytes()
    return content, f'"{sha256(content).hexdigest()[:16]}"'


def _page(request: Request, name: str) -> Response:
    """A file of the page, unless the browser has it."""
    content, tag = _page_file(name)
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=f"{PAGE_TYPES[name.rpartition('.')[2]]}; charset=utf-8", headers=headers)
