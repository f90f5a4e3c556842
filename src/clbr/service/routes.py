"""The routes of the API, under one prefix. Each takes a request, asks the recommender and sends its answer."""

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from clbr.inference import answers, find
from clbr.inference.card import summarize_accuracy
from clbr.inference.recommender import Recommender
from clbr.service import schemas
from clbr.service.pages import ServiceConfig
from clbr.service.request_error import API, RequestError
from clbr.service.worker import Worker, artifact_id, is_quick


def add_lookups(app: FastAPI, worker: Worker, config: ServiceConfig) -> None:
    """Routes that only look something up. A search of many nodes takes a while: not on the event loop."""

    @app.get(f"{API}/about", response_model=schemas.AboutService)
    async def about() -> Response:
        """The recommender: what it is, how good it is, what its nodes are called, and the limits."""
        return _send(worker.current, _about(worker.current, config).to_json())

    @app.get(f"{API}/find", response_model=find.SearchResults)
    async def find_nodes(query: Annotated[schemas.FindRequest, Query()]) -> Response:
        """Users, bundles or items by id or name; without a text those with the most edges."""
        return await _look_up(worker, lambda directory: directory.find(query.kind, query.text, query.limit))

    @app.get(f"{API}/user", response_model=find.UserDetails)
    async def user(query: Annotated[schemas.ById, Query()]) -> Response:
        """A user and their history."""
        return await _look_up(worker, lambda directory: directory.user(query.id))

    @app.get(f"{API}/bundle", response_model=find.BundleDetails)
    async def bundle(query: Annotated[schemas.ById, Query()]) -> Response:
        """A bundle and its contents."""
        return await _look_up(worker, lambda directory: directory.bundle(query.id))

    @app.post(f"{API}/previews", response_model=find.Previews)
    async def previews(body: schemas.PreviewsRequest) -> Response:
        """The first items of some bundles."""
        return await _look_up(worker, lambda directory: directory.previews(**body.arguments()))

    @app.get(f"{API}/item", response_model=find.ItemDetails)
    async def item(query: Annotated[schemas.ById, Query()]) -> Response:
        """An item and its use."""
        return await _look_up(worker, lambda directory: directory.item(query.id))


def add_lists(app: FastAPI, worker: Worker, config: ServiceConfig) -> None:
    """Routes that give lists of bundles or items."""

    @app.get(f"{API}/recommend", response_model=answers.Recommendations)
    async def recommend(request: Request, query: Annotated[schemas.RecommendQuery, Query()]) -> Response:
        """A user's best bundles."""
        recommender = worker.current
        if not query.diversity and is_quick(recommender, query.k):
            return _send(recommender, recommender.recommend_one(**dict(query)).to_json())
        return await _compute(worker, request, lambda recommender: recommender.recommend_one(**dict(query)))

    @app.post(f"{API}/recommend", response_model=answers.Recommendations)
    async def recommend_with(request: Request, body: schemas.RecommendRequest) -> Response:
        """The best bundles of a user, or of an unseen user."""
        return await _compute(worker, request, lambda recommender: recommender.recommend_one(**body.arguments()))

    @app.post(f"{API}/recommend/batch", response_model=answers.RecommendationBatch)
    async def recommend_batch(request: Request, body: schemas.RecommendBatchRequest) -> Response:
        """The lists of several users."""
        if len(body.users) * body.k > config.limits.batch_rows:
            wanted = f"{len(body.users)} lists of {body.k}"
            raise RequestError(422, f"{wanted}: at most {config.limits.batch_rows:,} rows in one request")
        return await _compute(worker, request, lambda recommender: recommender.recommend_batch(**body.arguments()))

    @app.get(f"{API}/similar", response_model=answers.Similar)
    async def similar(request: Request, query: Annotated[schemas.SimilarRequest, Query()]) -> Response:
        """The bundles or items nearest to one."""

        def nearest(recommender: Recommender) -> answers.Similar:
            similar = recommender.similar_bundles if query.kind == "bundle" else recommender.similar_items
            return similar(query.id, k=query.k)

        return await _compute(worker, request, nearest)


def add_questions(app: FastAPI, worker: Worker) -> None:
    """Routes that compute the model on edited data."""

    @app.post(f"{API}/whatif", response_model=answers.WhatIf)
    async def whatif(request: Request, body: schemas.WhatIfRequest) -> Response:
        """A user's list if the user's history were different."""
        return await _compute(worker, request, lambda recommender: recommender.whatif(**body.arguments()))

    @app.post(f"{API}/audience", response_model=answers.Audience)
    async def audience(request: Request, body: schemas.AudienceRequest) -> Response:
        """A bundle's audience if its contents were different."""
        return await _compute(worker, request, lambda recommender: recommender.audience(**body.arguments()))

    @app.post(f"{API}/audience/new", response_model=answers.NewBundleAudience)
    async def new_bundle_audience(request: Request, body: schemas.NewBundleRequest) -> Response:
        """The users who would want an unseen bundle most."""
        return await _compute(worker, request, lambda recommender: recommender.new_bundle_audience(**body.arguments()))

    @app.post(f"{API}/explain", response_model=answers.Explanation)
    async def explain(request: Request, body: schemas.ExplainRequest) -> Response:
        """Why a bundle is in a user's list, or what would bring it there."""
        return await _compute(worker, request, lambda recommender: recommender.explain(**body.arguments()))

    @app.post(f"{API}/suggest", response_model=answers.Suggestions)
    async def suggest(request: Request, body: schemas.SuggestRequest) -> Response:
        """The swaps that would gain a bundle the most users."""
        return await _compute(worker, request, lambda recommender: recommender.suggest(**body.arguments()))


async def _look_up(worker: Worker, look: Callable[[find.Directory], answers.Answer]) -> Response:
    """The answer of the directory, found in a thread of its own: the worker may be busy for seconds."""
    recommender = worker.current
    return _send(recommender, await asyncio.to_thread(lambda: look(recommender.directory).to_json()))


async def _compute(worker: Worker, request: Request, ask: Callable[[Recommender], answers.Answer]) -> Response:
    """The answer of the worker; the computation is stopped if the client goes."""
    recommender = worker.current  # one recommender for the whole answer
    computing = asyncio.ensure_future(worker.compute(lambda: ask(recommender).to_json()))
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({computing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not computing.done():
            raise RequestError(408, "the client has gone")
        return _send(recommender, computing.result())
    finally:
        computing.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    """Wait until the client goes; a body that was sent with GET is not used."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _about(recommender: Recommender, config: ServiceConfig) -> schemas.AboutService:
    artifact, words, limits = recommender.artifact, config.words, config.limits
    about = artifact.about
    same = ("model", "paradigm", "seed", "data", "version", "best_epoch", "users", "bundles", "items")
    measured = ("validation", "test", "segments", "baseline", "diversity", "whatif_agreement")
    return schemas.AboutService(
        artifact=artifact_id(recommender),
        **{name: getattr(about, name) for name in (*same, *measured)},
        accuracy=summarize_accuracy(about),
        supports_whatif=artifact.supports_whatif,
        words={"user": words.user, "bundle": words.bundle, "item": words.item},
        card=artifact.card,
        caveat=artifact.caveat if artifact.supports_whatif else "",
        report=config.report is not None,
        limits=limits.model_copy(update={"k": min(limits.k, about.bundles)}),
    )


def _send(recommender: Recommender, content: str) -> Response:
    """An answer, and the artifact that gave it."""
    return Response(content, media_type="application/json", headers={"x-artifact": artifact_id(recommender)})
