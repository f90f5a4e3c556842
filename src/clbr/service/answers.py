"""The engine's answers in the words of the schemas. Nothing is worked out here."""

import torch

from clbr.data.dataset import Nodes
from clbr.evaluation.ranking import top
from clbr.inference import explain as engine_explain
from clbr.inference import suggest as engine_suggest
from clbr.inference.caveat import CAVEAT
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.recommend import Place, best, of_left
from clbr.inference.recommend import recommend as best_for
from clbr.inference.unseen import newcomer
from clbr.inference.whatif import ask_bundle, ask_user, factual, idle
from clbr.service import limits, schemas
from clbr.service import requests as questions
from clbr.service.refusals import RefusedError
from clbr.service.served import Served, node
from clbr.service.words import Words


def about(served: Served, words: Words, report: bool) -> schemas.About:
    """The recommender, and what people call its nodes."""
    told, artifact = served.artifact.about, served.artifact
    return schemas.About(
        artifact=served.id,
        **{key: getattr(told, key) for key in ("model", "paradigm", "seed", "data", "version", "best_epoch")},
        **{key: getattr(told, key) for key in ("users", "bundles", "items")},
        **{key: getattr(told, key) for key in ("validation", "test", "segments", "diversity")},
        supports_whatif=artifact.supports_whatif,
        words={"user": words.user, "bundle": words.bundle, "item": words.item},
        card=artifact.card,
        note=CAVEAT,
        report=report,
        limits=schemas.Limits(
            top=min(limits.TOP, told.bundles),
            edits=limits.EDITS,
            found=limits.FOUND,
            batch=limits.BATCH,
            budget=limits.BUDGET,
        ),
    )


def find(served: Served, kind: questions.Kind, text: str, limit: int) -> schemas.Search:
    """Nodes by id or name."""
    catalogue = served.catalogues[kind]
    numbers, total = catalogue.find(text, limit)
    nodes = catalogue.nodes
    found = [
        schemas.Found(
            id=nodes.id(number), name=nodes.names[number] if nodes.names else None, size=int(catalogue.sizes[number])
        )
        for number in numbers.tolist()
    ]
    return schemas.Search(kind=kind, text=text, total=total, found=found)


def user(served: Served, id: str) -> schemas.User:
    """A user and what she has chosen."""
    number, artifact = served.number("user", id), served.artifact
    return schemas.User(
        **served.node("user", number).model_dump(),
        segment=served.segments[number],
        bundles=_nodes(artifact.bundles, of_left(artifact.graph.ub.pairs, number)),
        items=_nodes(artifact.items, of_left(artifact.graph.ui.pairs, number)),
    )


def bundle(served: Served, id: str) -> schemas.Bundle:
    """A bundle and what is in it."""
    number, artifact = served.number("bundle", id), served.artifact
    return schemas.Bundle(
        **served.node("bundle", number).model_dump(),
        chosen_by=int(served.chosen_by[number]),
        items=_nodes(artifact.items, of_left(artifact.graph.bi.pairs, number)),
    )


def item(served: Served, id: str) -> schemas.Item:
    """An item and where it is."""
    number = served.number("item", id)
    return schemas.Item(
        **served.node("item", number).model_dump(),
        bundles=int(served.catalogues["item"].sizes[number]),
        users=int(served.item_users[number]),
    )


def recommend(served: Served, asked: questions.AskList) -> schemas.List:
    """A user's best bundles, or those of someone never seen."""
    artifact = served.artifact
    likes = bool(asked.likes_items or asked.likes_bundles)
    if (asked.user is None) != likes:
        raise RefusedError(422, "expected a user, or what someone never seen likes: one of them")
    allow = None if asked.allow is None else served.numbers("bundle", asked.allow)
    deny = served.numbers("bundle", asked.deny)
    if asked.user is not None:
        number = served.number("user", asked.user)
        found = best_for(
            artifact,
            number,
            asked.top,
            keep_chosen=asked.keep_chosen,
            allow=allow,
            deny=deny,
            diversity=asked.diversity,
        )
        return _list(served, number, asked.top, found)
    _can_ask(served)
    items, bundles = served.numbers("item", asked.likes_items), served.numbers("bundle", asked.likes_bundles)
    scores = newcomer(artifact, items, bundles).scores(artifact.unseen_user)
    chosen = () if asked.keep_chosen else bundles
    found = best(artifact, scores, asked.top, chosen=chosen, allow=allow, deny=deny, diversity=asked.diversity)
    return _list(served, None, asked.top, found)


def recommend_batch(served: Served, asked: questions.AskLists) -> schemas.Lists:
    """The lists of several users, scored together."""
    artifact = served.artifact
    numbers = served.numbers("user", asked.users)
    if len(numbers) * asked.top > limits.PLACES:
        raise RefusedError(422, f"{len(numbers)} lists of {asked.top}: at most {limits.PLACES:,} places in one request")
    if asked.top > artifact.about.bundles:
        raise RefusedError(422, f"top {asked.top}: there are {artifact.about.bundles} bundles")
    scores = artifact.recommender.scores(torch.tensor(numbers))
    scores[:, artifact.unseen_bundle] = -torch.inf
    for row, number in enumerate(numbers):
        scores[row, of_left(artifact.chosen, number)] = -torch.inf
    lists = []
    for row, (number, ranked) in enumerate(zip(numbers, top(scores, asked.top), strict=True)):
        found = [Place(int(one), float(scores[row, one])) for one in ranked.tolist() if one >= 0]
        lists.append(_list(served, number, asked.top, found))
    return schemas.Lists(lists=lists)


def whatif_user(served: Served, asked: questions.AskUser) -> schemas.UserAnswer:
    """A user's list if her history were different."""
    _can_ask(served)
    artifact, number = served.artifact, served.number("user", asked.user)
    edits = history_edits(
        artifact,
        number,
        add_items=served.numbers("item", asked.add_items),
        drop_items=served.numbers("item", asked.drop_items),
        add_bundles=served.numbers("bundle", asked.add_bundles),
        drop_bundles=served.numbers("bundle", asked.drop_bundles),
    )
    answer = ask_user(artifact, number, edits, asked.top)
    return schemas.UserAnswer(
        user=served.node("user", number),
        top=asked.top,
        before=_places(served, answer.before),
        after=_places(served, answer.after),
        moves=[
            schemas.Move(
                **served.node("bundle", move.bundle).model_dump(),
                before=move.before,
                after=move.after,
                score_before=move.score_before,
                score_after=move.score_after,
            )
            for move in answer.moves
        ],
        warnings=idle(artifact, edits),
        note=CAVEAT,
    )


def whatif_bundle(served: Served, asked: questions.AskBundle) -> schemas.BundleAnswer:
    """A bundle's audience if its contents were different."""
    _can_ask(served)
    artifact, number = served.artifact, served.number("bundle", asked.bundle)
    add, drop = served.numbers("item", asked.add_items), served.numbers("item", asked.drop_items)
    edits = contents_edits(artifact, number, add_items=add, drop_items=drop)
    answer = ask_bundle(artifact, number, edits, asked.top)
    entered, left = answer.entered, answer.left
    return schemas.BundleAnswer(
        bundle=served.node("bundle", number),
        top=asked.top,
        users=artifact.about.users,
        before=len(answer.before),
        after=len(answer.after),
        segments={
            name: schemas.Change(users=change.users, before=change.before, after=change.after)
            for name, change in answer.segments.items()
        },
        entered=_nodes(artifact.users, entered[: limits.SHOWN]),
        left=_nodes(artifact.users, left[: limits.SHOWN]),
        entered_count=len(entered),
        left_count=len(left),
        warnings=idle(artifact, edits),
        note=CAVEAT,
    )


def explain(served: Served, asked: questions.AskWhy) -> schemas.Why:
    """Why a bundle is in a user's list, or what would bring it there."""
    _can_ask(served)
    artifact = served.artifact
    who, what = served.number("user", asked.user), served.number("bundle", asked.bundle)
    inside = engine_explain.rank_of(factual(artifact), who, what) <= asked.top
    if inside and asked.of == "history":
        answer = engine_explain.why(artifact, who, what, asked.top, budget=asked.budget)
    else:
        answer = engine_explain.what_it_takes(artifact, who, what, asked.top, of=asked.of, budget=asked.budget)
    kinds: dict[str, tuple[questions.Kind, Nodes]] = {
        "ui": ("item", artifact.items),
        "ub": ("bundle", artifact.bundles),
    }
    things = [(*kinds[thing.relation], thing.node) for thing in answer.things]
    return schemas.Why(
        question=answer.question,
        user=served.node("user", who),
        bundle=served.node("bundle", what),
        top=asked.top,
        place=answer.place,
        found=answer.edits is not None,
        out_of_budget=answer.out_of_budget,
        rank_after=answer.rank_after,
        tried=answer.tried,
        things=[schemas.Thing(kind=kind, **node(nodes, number).model_dump()) for kind, nodes, number in things],
        swaps=[
            schemas.Swap(old=served.node("item", swap.old), new=served.node("item", swap.new)) for swap in answer.swaps
        ],
        note=CAVEAT,
    )


def suggest(served: Served, asked: questions.AskSwaps) -> schemas.Swaps:
    """The swaps that gain a bundle the most audience."""
    _can_ask(served)
    number = served.number("bundle", asked.bundle)
    found = engine_suggest.suggest(
        served.artifact,
        number,
        asked.top,
        add_items=served.numbers("item", asked.add_items),
        drop_items=served.numbers("item", asked.drop_items),
        count=asked.count,
    )
    return schemas.Swaps(
        bundle=served.node("bundle", number),
        top=asked.top,
        audience=found.audience,
        swaps=[
            schemas.GoodSwap(
                old=served.node("item", one.swap.old),
                new=served.node("item", one.swap.new),
                audience=one.audience,
                gain=one.audience - found.audience,
            )
            for one in found.best
        ],
        note=CAVEAT,
    )


def _can_ask(served: Served) -> None:
    try:
        served.artifact.require_whatif()
    except ValueError as error:
        raise RefusedError(409, str(error)) from None


def _nodes(nodes: Nodes, numbers: object) -> list[schemas.Node]:
    return [node(nodes, int(number)) for number in numbers]  # type: ignore[attr-defined]


def _places(served: Served, places: list[Place]) -> list[schemas.Place]:
    nodes = served.artifact.bundles
    return [
        schemas.Place(
            id=nodes.id(place.bundle),
            name=nodes.names[place.bundle] if nodes.names else None,
            place=number,
            score=place.score,
        )
        for number, place in enumerate(places, start=1)
    ]


def _list(served: Served, number: int | None, top: int, found: list[Place]) -> schemas.List:
    user = None if number is None else served.node("user", number)
    return schemas.List(user=user, top=top, places=_places(served, found))
