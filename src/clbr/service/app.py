"""The HTTP application: its routes. Each takes a request, asks the recommender and sends its answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from clbr import __version__
from clbr.errors import InputError
from clbr.inference import answers, find
from clbr.inference.recommender import Recommender
from clbr.service import limits, schemas
from clbr.service.guard import Counters, Guard
from clbr.service.pages import ServiceConfig, add_pages
from clbr.service.request_error import RequestError
from clbr.service.worker import Worker, artifact_id

ERRORS = {
    400: "malformed request",
    401: "missing or wrong token",
    403: "host or origin not allowed",
    404: "unknown id",
    405: "method not allowed",
    408: "too slow",
    409: "not supported by this artifact",
    413: "too large",
    422: "wrong or contradictory input",
    429: "too many requests",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorPayload, "description": text} for status, text in ERRORS.items()
}


def make_app(config: ServiceConfig, worker: Worker) -> FastAPI:
    """The application, with the page."""
    counters = Counters()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(worker.watch())
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        worker.close()

    app = FastAPI(
        title="clbr",
        version=__version__,
        summary="Bundle recommendations, what-if and explanations",
        lifespan=lifespan,
        docs_url=None,  # its scripts would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
    )
    app.add_middleware(Guard, token=config.token, counters=counters)
    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _send_error)
    _add_lookups(app, worker, config)
    _add_questions(app, worker)
    _add_operations(app, worker, counters)
    add_pages(app, config)
    if config.token:
        schema = app.openapi()  # the application keeps it
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    return app


def _add_lookups(app: FastAPI, worker: Worker, config: ServiceConfig) -> None:
    """Routes that only look something up."""

    @app.get("/api/about", response_model=schemas.AboutService)
    async def about() -> Response:
        """The recommender: what it is, how good it is, and what its nodes are called."""
        return _send(worker.current, _about(worker.current, config).to_json())

    @app.get("/api/find", response_model=find.SearchResults)
    async def find_nodes(query: Annotated[schemas.FindRequest, Query()]) -> Response:
        """Users, bundles or items by id or name; without a text those with the most edges."""
        return _send(worker.current, worker.current.directory.find(query.kind, query.text, query.limit).to_json())

    @app.get("/api/user", response_model=find.UserDetails)
    async def user(query: Annotated[schemas.ById, Query()]) -> Response:
        """A user and their history."""
        return _send(worker.current, worker.current.directory.user(query.id).to_json())

    @app.get("/api/bundle", response_model=find.BundleDetails)
    async def bundle(query: Annotated[schemas.ById, Query()]) -> Response:
        """A bundle and its contents."""
        return _send(worker.current, worker.current.directory.bundle(query.id).to_json())

    @app.get("/api/item", response_model=find.ItemDetails)
    async def item(query: Annotated[schemas.ById, Query()]) -> Response:
        """An item and its use."""
        return _send(worker.current, worker.current.directory.item(query.id).to_json())

    @app.get("/api/recommend", response_model=answers.Recommendations)
    async def recommend(query: Annotated[schemas.RecommendQuery, Query()]) -> Response:
        """A user's best bundles."""
        recommender = worker.current
        if not query.diversity:  # quicker than the queue
            return _send(recommender, recommender.recommend_one(**dict(query)).to_json())
        return _send(recommender, await worker.compute(lambda: recommender.recommend_one(**dict(query)).to_json()))

    @app.get("/api/similar", response_model=answers.Similar)
    async def similar(query: Annotated[schemas.SimilarRequest, Query()]) -> Response:
        """The bundles or items nearest to one."""
        recommender = worker.current
        nearest = recommender.similar_bundles if query.kind == "bundle" else recommender.similar_items
        return _send(recommender, await worker.compute(lambda: nearest(query.id, k=query.k).to_json()))


def _add_questions(app: FastAPI, worker: Worker) -> None:
    """Routes whose answer the worker computes."""

    @app.post("/api/recommend", response_model=answers.Recommendations)
    async def recommend(request: Request, body: schemas.RecommendRequest) -> Response:
        """The best bundles of a user, or of an unseen user."""
        return await _compute(worker, request, lambda recommender: recommender.recommend_one(**body.arguments()))

    @app.post("/api/recommend/batch", response_model=answers.RecommendationBatch)
    async def recommend_batch(request: Request, body: schemas.RecommendBatchRequest) -> Response:
        """The lists of several users."""
        if len(body.users) * body.k > limits.BATCH_ROWS:
            wanted = f"{len(body.users)} lists of {body.k}"
            raise RequestError(422, f"{wanted}: at most {limits.BATCH_ROWS:,} rows in one request")
        return await _compute(worker, request, lambda recommender: recommender.recommend_batch(**body.arguments()))

    @app.post("/api/whatif", response_model=answers.WhatIf)
    async def whatif(request: Request, body: schemas.WhatIfRequest) -> Response:
        """A user's list if the user's history were different."""
        return await _compute(worker, request, lambda recommender: recommender.whatif(**body.arguments()))

    @app.post("/api/audience", response_model=answers.Audience)
    async def audience(request: Request, body: schemas.AudienceRequest) -> Response:
        """A bundle's audience if its contents were different."""
        return await _compute(worker, request, lambda recommender: recommender.audience(**body.arguments()))

    @app.post("/api/audience/new", response_model=answers.NewBundleAudience)
    async def new_bundle_audience(request: Request, body: schemas.NewBundleRequest) -> Response:
        """The users who would want an unseen bundle most."""
        return await _compute(worker, request, lambda recommender: recommender.new_bundle_audience(**body.arguments()))

    @app.post("/api/explain", response_model=answers.Explanation)
    async def explain(request: Request, body: schemas.ExplainRequest) -> Response:
        """Why a bundle is in a user's list, or what would bring it there."""
        return await _compute(worker, request, lambda recommender: recommender.explain(**body.arguments()))

    @app.post("/api/suggest", response_model=answers.Suggestions)
    async def suggest(request: Request, body: schemas.SuggestRequest) -> Response:
        """The swaps that would gain a bundle the most users."""
        return await _compute(worker, request, lambda recommender: recommender.suggest(**body.arguments()))


async def _compute(worker: Worker, request: Request, ask: Callable[[Recommender], answers.Answer]) -> Response:
    """The answer of the worker; the computation is given up if the client goes."""
    recommender = worker.current  # one recommender for the whole answer
    computing = asyncio.ensure_future(worker.compute(lambda: ask(recommender).to_json()))
    leaving = asyncio.ensure_future(request.receive())  # the body is read: the next message is a disconnect
    try:
        await asyncio.wait({computing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not computing.done():
            raise RequestError(408, "the client has gone")
        return _send(recommender, computing.result())
    finally:
        computing.cancel()
        leaving.cancel()


def _add_operations(app: FastAPI, worker: Worker, counters: Counters) -> None:
    """Routes for whoever runs the service."""

    @app.post("/admin/reload", response_model=schemas.Swapped)
    async def reload() -> schemas.Swapped:
        """Swap to the artifact that is in the folder now; a faulty one is rejected and nothing changes."""
        before, after = await worker.reload()
        return schemas.Swapped(before=before, after=after)

    @app.get("/live", response_model=schemas.Status)
    async def live() -> schemas.Status:
        """Whether the process answers."""
        return schemas.Status(status="live")

    @app.get("/ready", response_model=schemas.Status)
    async def ready() -> schemas.Status:
        """Whether requests are answered: the service starts only with an open, warmed-up artifact."""
        return schemas.Status(status="ready")

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(counters.text(worker), media_type="text/plain; version=0.0.4; charset=utf-8")


def _about(recommender: Recommender, config: ServiceConfig) -> schemas.AboutService:
    artifact, words = recommender.artifact, config.words
    about = artifact.about
    same = ("model", "paradigm", "seed", "data", "version", "best_epoch", "users", "bundles", "items")
    measured = ("validation", "test", "segments", "diversity")
    return schemas.AboutService(
        artifact=artifact_id(recommender),
        **{name: getattr(about, name) for name in (*same, *measured)},
        supports_whatif=artifact.supports_whatif,
        words={"user": words.user, "bundle": words.bundle, "item": words.item},
        card=artifact.card,
        caveat=artifact.caveat if artifact.supports_whatif else "",
        report=config.report is not None,
        limits=schemas.Limits(
            k=min(limits.K, about.bundles),
            edits=limits.EDITS,
            found=limits.FOUND,
            batch=limits.BATCH_USERS,
            budget=limits.BUDGET,
        ),
    )


def _send(recommender: Recommender, content: str) -> Response:
    """An answer, and the artifact that gave it."""
    return Response(content, media_type="application/json", headers={"x-artifact": artifact_id(recommender)})


async def _send_error(request: Request, error: Exception) -> Response:
    """What was wrong, in one sentence."""
    found = _request_error(request, error)
    headers, content = found.response(request.scope["request_id"])
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return Response(content, found.status, headers)


def _request_error(request: Request, error: Exception) -> RequestError:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
        return RequestError(422, f"{where}: {first['msg']}" if where else str(first["msg"]))
    if isinstance(error, HTTPException):
        hints = {404: f"nothing at {request.url.path[:100]}: /openapi.json lists what there is"}
        hints[405] = f"not with {request.method}: /openapi.json lists what there is"
        return RequestError(error.status_code, hints.get(error.status_code, str(error.detail)))
    return RequestError.of(error) if isinstance(error, InputError) else RequestError(422, str(error))
