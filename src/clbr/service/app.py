"""The service: routes that take a question, ask the engine and tell its answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from clbr import __version__
from clbr.errors import InputError
from clbr.service import answers, limits, schemas
from clbr.service import requests as questions
from clbr.service.counters import Measures
from clbr.service.guard import Guard
from clbr.service.refusals import RefusedError
from clbr.service.served import Served
from clbr.service.words import Words
from clbr.service.worker import Worker

PAGE = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)
WHY_NOT = {
    400: "not a request that can be read",
    401: "no token, or a wrong one",
    403: "from another place than allowed",
    404: "an unknown id",
    405: "not with this method",
    408: "too slow",
    409: "not with this artifact",
    413: "too large",
    422: "wrong or contradictory input",
    429: "too much at once",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Refusal, "description": text} for status, text in WHY_NOT.items()
}


@dataclass(frozen=True)
class ServiceConfig:
    """What the service is told when it starts."""

    artifact: Path
    token: str | None = None
    words: Words = field(default_factory=Words)
    report: Path | None = None


def make_app(house: ServiceConfig, desk: Worker) -> FastAPI:
    """The application; the page is served beside it."""
    measures = Measures()

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(desk.watch())
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        desk.close()

    app = FastAPI(
        title="clbr",
        version=__version__,
        summary="Bundles for users, what if, and why",
        lifespan=living,
        docs_url=None,  # it would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=REFUSALS,
    )
    app.add_middleware(Guard, token=house.token, measures=measures)
    app.add_exception_handler(InputError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    _add_looking(app, desk, house)
    _add_asking(app, desk)
    _add_house(app, desk, house, measures)
    if house.token:
        schema = app.openapi()  # kept by the application, and told from now on
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    return app


def _add_looking(app: FastAPI, desk: Worker, house: ServiceConfig) -> None:
    """What is there."""

    @app.get("/api/about", response_model=schemas.About)
    async def about() -> Response:
        """The recommender: what it is, how good, and what people call its nodes."""
        return _told(desk.now, answers.about(desk.now, house.words, house.report is not None))

    @app.get("/api/find", response_model=schemas.Search)
    async def find(asked: Annotated[questions.ByText, Query()]) -> Response:
        """Users, bundles or items by id or name; without a text those with the most edges."""
        return _told(desk.now, answers.find(desk.now, asked.kind, asked.text, asked.limit))

    @app.get("/api/user", response_model=schemas.User)
    async def user(asked: Annotated[questions.ById, Query()]) -> Response:
        """A user and what she has chosen."""
        return _told(desk.now, answers.user(desk.now, asked.id))

    @app.get("/api/bundle", response_model=schemas.Bundle)
    async def bundle(asked: Annotated[questions.ById, Query()]) -> Response:
        """A bundle and what is in it."""
        return _told(desk.now, answers.bundle(desk.now, asked.id))

    @app.get("/api/item", response_model=schemas.Item)
    async def item(asked: Annotated[questions.ById, Query()]) -> Response:
        """An item and where it is."""
        return _told(desk.now, answers.item(desk.now, asked.id))

    @app.get("/api/recommend", response_model=schemas.List)
    async def recommend(asked: Annotated[questions.ListOf, Query()]) -> Response:
        """A user's best bundles."""
        served = desk.now
        whole = questions.AskList.model_construct(**dict(asked))
        if not asked.diversity:  # quicker than a place in the line
            return _told(served, answers.recommend(served, whole))
        return _told(served, await desk.ask(lambda: answers.recommend(served, whole).model_dump_json()))


def _add_asking(app: FastAPI, desk: Worker) -> None:
    """What has to be worked out."""

    async def work_out(request: Request, answer: Callable[[Served, Any], BaseModel], asked: BaseModel) -> Response:
        served = desk.now  # the same from the first line of an answer to the last
        asking = asyncio.ensure_future(desk.ask(lambda: answer(served, asked).model_dump_json()))
        leaving = asyncio.ensure_future(request.receive())  # all has come: the next is that the client goes
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise RefusedError(408, "nobody waits for the answer any more")
            return _told(served, asking.result())
        finally:
            asking.cancel()
            leaving.cancel()

    @app.post("/api/recommend", response_model=schemas.List)
    async def recommend_with(request: Request, asked: questions.AskList) -> Response:
        """A user's best bundles, or those of someone never seen, within limits."""
        return await work_out(request, answers.recommend, asked)

    @app.post("/api/recommend/batch", response_model=schemas.Lists)
    async def recommend_batch(request: Request, asked: questions.AskLists) -> Response:
        """The lists of several users."""
        return await work_out(request, answers.recommend_batch, asked)

    @app.post("/api/whatif/user", response_model=schemas.UserAnswer)
    async def whatif_user(request: Request, asked: questions.AskUser) -> Response:
        """A user's list if her history were different."""
        return await work_out(request, answers.whatif_user, asked)

    @app.post("/api/whatif/bundle", response_model=schemas.BundleAnswer)
    async def whatif_bundle(request: Request, asked: questions.AskBundle) -> Response:
        """A bundle's audience if its contents were different."""
        return await work_out(request, answers.whatif_bundle, asked)

    @app.post("/api/explain", response_model=schemas.Why)
    async def explain(request: Request, asked: questions.AskWhy) -> Response:
        """Why a bundle is in a user's list, or what would bring it there."""
        return await work_out(request, answers.explain, asked)

    @app.post("/api/suggest", response_model=schemas.Swaps)
    async def suggest(request: Request, asked: questions.AskSwaps) -> Response:
        """The swaps that gain a bundle the most audience."""
        return await work_out(request, answers.suggest, asked)


def _add_house(app: FastAPI, desk: Worker, house: ServiceConfig, measures: Measures) -> None:
    """The house itself: probes, measures, the page, another artifact."""
    passes: dict[str, float] = {}

    @app.post("/admin/reload", response_model=schemas.Swapped)
    async def reload() -> schemas.Swapped:
        """Take the artifact that lies in the folder now; one that does not hold is refused and nothing changes."""
        before, after = await desk.reload()
        return schemas.Swapped(before=before, after=after)

    @app.get("/live", response_model=schemas.Status)
    async def live() -> schemas.Status:
        """Whether the process answers."""
        return schemas.Status(status="live")

    @app.get("/ready", response_model=schemas.Status)
    async def ready() -> schemas.Status:
        """Whether it may be asked: nothing is answered before an artifact is open and warm."""
        return schemas.Status(status="ready")

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(measures.text(desk), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.post("/api/report", response_model=schemas.Address)
    async def report_address() -> schemas.Address:
        """Where the experiment report can be read for a minute, without a token: a link cannot carry one."""
        _ = await _report(house)
        until = monotonic() + limits.PASS_SECONDS
        for old in [known for known, end in passes.items() if end < monotonic()]:
            del passes[old]
        passes[given := token_urlsafe(16)] = until
        return schemas.Address(path=f"/report/{given}")

    @app.get("/report/{given}", include_in_schema=False)
    async def report(given: str) -> Response:
        if passes.get(given, 0) < monotonic():
            raise RefusedError(404, "this address was good for a minute: open the report from the page again")
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(await _report(house), media_type="text/html", headers=headers)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return _page(request, "index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page(request: Request, name: str) -> Response:
        return _page(request, name)


async def _report(house: ServiceConfig) -> bytes:
    if house.report is None:
        raise RefusedError(404, "there is no experiment report: start with --report PAGE.html")
    try:
        return await asyncio.to_thread(house.report.read_bytes)
    except OSError as error:
        raise RefusedError(404, f"{house.report.name}: {error.strerror}") from None


@cache
def _file(name: str) -> tuple[bytes, str]:
    """A file of the page by its plain name, and what tells it from another version of it."""
    shelf = files("clbr.service") / "page"
    stem, _, kind = name.rpartition(".")
    if kind not in PAGE or not stem.replace("-", "").replace("_", "").isalnum() or not (shelf / name).is_file():
        raise RefusedError(404, f"no file '{name[:60]}' here; the page is at /")
    content = (shelf / name).read_bytes()
    return content, f'"{sha256(content).hexdigest()[:16]}"'


def _page(request: Request, name: str) -> Response:
    """A file of the page, unless the browser has it."""
    content, tag = _file(name)
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=f"{PAGE[name.rpartition('.')[2]]}; charset=utf-8", headers=headers)


def _told(served: Served, answer: BaseModel | str) -> Response:
    """An answer, and which artifact gave it."""
    content = answer if isinstance(answer, str) else answer.model_dump_json()
    return Response(content, media_type="application/json", headers={"x-artifact": served.id})


async def _refuse(request: Request, error: Exception) -> Response:
    """What was wrong, in one sentence."""
    refusal = _as_refusal(request, error)
    headers, content = refusal.answer(request.scope["request_id"])
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return Response(content, refusal.status, headers)


def _as_refusal(request: Request, error: Exception) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
        return RefusedError(422, f"{where}: {first['msg']}" if where else str(first["msg"]))
    if isinstance(error, HTTPException):
        hints = {404: f"nothing at {request.url.path[:100]}: /openapi.json lists what there is"}
        hints[405] = f"not with {request.method}: /openapi.json lists what there is"
        return RefusedError(error.status_code, hints.get(error.status_code, str(error.detail)))
    return RefusedError(422, str(error))
