"""The HTTP application: the API, the page, the routes for whoever runs the service, and the form of errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from clbr import __version__
from clbr.errors import InputError
from clbr.service import schemas
from clbr.service.guard import Guard
from clbr.service.limits import applied
from clbr.service.metrics import CONTENT_TYPE
from clbr.service.pages import ServiceConfig, add_pages
from clbr.service.request_error import RequestError
from clbr.service.routes import add_lists, add_lookups, add_questions
from clbr.service.worker import Worker

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
    503: "not ready",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorPayload, "description": text} for status, text in ERRORS.items()
}


def make_app(config: ServiceConfig, worker: Worker) -> FastAPI:
    """The application, with the page. It loads the artifact once it is started."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(worker.watch())
        await worker.may_listen()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        worker.close()

    app = FastAPI(
        title="clbr",
        version=__version__,
        summary="Bundle recommendations, what-if and explanations",
        description="HEAD is answered wherever GET is.",
        lifespan=lifespan,
        docs_url=None,  # its scripts would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
    )
    app.add_middleware(Guard, token=config.token, limits=config.limits, metrics=worker.metrics)
    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _send_error)
    add_lookups(app, worker, config)
    add_lists(app, worker, config)
    add_questions(app, worker)
    _add_operations(app, worker)
    add_pages(app, config)
    with applied(config.limits):
        schema = app.openapi()  # the application keeps it
    if config.token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    return app


def _add_operations(app: FastAPI, worker: Worker) -> None:
    """Routes for whoever runs the service: at the root, where monitors expect them, whatever the API's version."""

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
        """Whether requests are answered; 503 while no artifact is served, or if the worker is stuck."""
        if worker.problem:
            raise RequestError(503, worker.problem)
        return schemas.Status(status="ready")

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def send_metrics() -> Response:
        """Metrics for Prometheus, of all worker processes together."""
        worker.publish()
        return Response(worker.metrics.text(), media_type=CONTENT_TYPE)


async def _send_error(request: Request, error: Exception) -> Response:
    """What was wrong, in one sentence."""
    found = _request_error(request, error)
    headers, content = found.response(request.scope["request_id"])
    if found.status == 405:
        headers["allow"] = _allowed(request)
    return Response(content, found.status, headers)


def _allowed(request: Request) -> str:
    """The methods of a path."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = {method for route in routes if route.path_regex.match(request.url.path) for method in route.methods or ()}
    return ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set())))


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
