"""Python, the command line and HTTP give the same answer to every question, to the letter."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from clbr import Recommender, load_recommender
from clbr.data.pairs import neighbours
from clbr.inference.whatif import factual_state
from service_helpers import make_client
from typed import Run


@pytest.fixture(scope="module")
def service(artifact_of: Callable[[str], Path]) -> Iterator[TestClient]:
    with make_client(artifact_of("crosscbr")) as client:
        yield client


class Case:
    """One question: how it is asked in Python, typed, and sent."""

    def __init__(self, python: Callable[[Recommender], Any], typed: str, path: str, body: dict[str, Any]) -> None:
        self.python, self.typed, self.path, self.body = python, typed, path, body


def questions(recommender: Recommender) -> dict[str, Case]:
    graph, state = recommender.artifact.graph, factual_state(recommender.artifact)
    item = str(neighbours(graph.ui.pairs, 3)[0])
    inside = str(neighbours(graph.bi.pairs, 5)[0])
    outside = str(np.setdiff1d(np.arange(240), neighbours(graph.bi.pairs, 5))[0])
    ranking = [str(bundle) for bundle in state.ranking(3, 40)]
    return {
        "recommend": Case(
            lambda one: one.recommend_one("3", k=7),
            "recommend {} --user 3 --k 7",
            "/v1/recommend",
            {"user": "3", "k": 7},
        ),
        "recommend, diverse": Case(
            lambda one: one.recommend_one("3", k=7, diversity=0.5, keep_chosen=True),
            "recommend {} --user 3 --k 7 --diversity 0.5 --keep-chosen",
            "/v1/recommend",
            {"user": "3", "k": 7, "diversity": 0.5, "keep_chosen": True},
        ),
        "recommend, unseen user": Case(
            lambda one: one.recommend_one(likes_items=["0", "3"], likes_bundles=["7"]),
            "recommend {} --likes-item 0 --likes-item 3 --likes-bundle 7",
            "/v1/recommend",
            {"likes_items": ["0", "3"], "likes_bundles": ["7"]},
        ),
        "whatif": Case(
            lambda one: one.whatif("3", drop_items=[item], add_bundles=[ranking[0]], k=5),
            f"whatif {{}} --user 3 --drop-item {item} --add-bundle {ranking[0]} --k 5",
            "/v1/whatif",
            {"user": "3", "drop_items": [item], "add_bundles": [ranking[0]], "k": 5},
        ),
        "whatif, any edits": Case(
            lambda one: one.whatif("3", edits={"drop": {"ui": [["3", item]], "bi": [["5", inside]]}}),
            "whatif {} --user 3 --edits edits.json",
            "/v1/whatif",
            {"user": "3", "edits": {"drop": {"ui": [["3", item]], "bi": [["5", inside]]}}},
        ),
        "audience": Case(
            lambda one: one.audience("5", swap=[(inside, outside)], k=10, max_users=3),
            f"audience {{}} --bundle 5 --swap {inside}={outside} --k 10 --max-users 3",
            "/v1/audience",
            {"bundle": "5", "swap": [[inside, outside]], "k": 10, "max_users": 3},
        ),
        "audience, unseen bundle": Case(
            lambda one: one.new_bundle_audience(["0", "3"], k=4),
            "audience {} --item 0 --item 3 --k 4",
            "/v1/audience/new",
            {"items": ["0", "3"], "k": 4},
        ),
        "explain, why": Case(
            lambda one: one.explain("3", ranking[4], k=10),
            f"explain {{}} --user 3 --bundle {ranking[4]} --k 10",
            "/v1/explain",
            {"user": "3", "bundle": ranking[4], "k": 10},
        ),
        "explain, history": Case(
            lambda one: one.explain("3", ranking[30], budget=50),
            f"explain {{}} --user 3 --bundle {ranking[30]} --budget 50",
            "/v1/explain",
            {"user": "3", "bundle": ranking[30], "budget": 50},
        ),
        "explain, contents": Case(
            lambda one: one.explain("3", ranking[30], of="contents"),
            f"explain {{}} --user 3 --bundle {ranking[30]} --of contents",
            "/v1/explain",
            {"user": "3", "bundle": ranking[30], "of": "contents"},
        ),
        "suggest": Case(
            lambda one: one.suggest("5", drop_items=[inside], k=10, count=3),
            f"suggest {{}} --bundle 5 --drop-item {inside} --k 10 --count 3",
            "/v1/suggest",
            {"bundle": "5", "drop_items": [inside], "k": 10, "count": 3},
        ),
        "similar bundles": Case(
            lambda one: one.similar_bundles("5", k=3),
            "similar {} --bundle 5 --k 3",
            "/v1/similar?kind=bundle&id=5&k=3",
            {},
        ),
        "similar items": Case(
            lambda one: one.similar_items("5", k=3), "similar {} --item 5 --k 3", "/v1/similar?kind=item&id=5&k=3", {}
        ),
    }


NAMES = [
    *("recommend", "recommend, diverse", "recommend, unseen user", "whatif", "whatif, any edits"),
    *("audience", "audience, unseen bundle", "explain, why", "explain, history", "explain, contents"),
    *("suggest", "similar bundles", "similar items"),
]


@pytest.mark.parametrize("name", NAMES)
def test_python_the_command_line_and_http_agree_to_the_letter(
    name: str, run: Run, service: TestClient, artifact_of: Callable[[str], Path]
) -> None:
    import json

    folder = artifact_of("crosscbr")
    cases = questions(load_recommender(folder))
    assert list(cases) == NAMES
    case = cases[name]
    answer = case.python(load_recommender(folder)).to_json()
    if "--edits" in case.typed:
        Path("edits.json").write_text(json.dumps(case.body["edits"]))
    code, typed, err = run(*case.typed.format(folder).split(), "--json")
    assert (code, err) == (0, "")
    sent = service.post(case.path, json=case.body) if case.body else service.get(case.path)
    assert sent.status_code == 200, sent.text
    assert typed.rstrip("\n") == sent.text == answer


def test_a_batch_over_http_is_the_batch_in_python(service: TestClient, artifact_of: Callable[[str], Path]) -> None:
    answer = load_recommender(artifact_of("crosscbr")).recommend_batch(["3", "17"], k=4)
    assert service.post("/v1/recommend/batch", json={"users": ["3", "17"], "k": 4}).text == answer.to_json()


@pytest.mark.parametrize(
    ("typed", "path", "body", "status"),
    [
        ("recommend {} --user 600", "/v1/recommend", {"user": "600"}, 404),
        ("whatif {} --user 3 --add-item 3 --add-item 3", "/v1/whatif", {"user": "3", "add_items": ["3", "3"]}, 422),
        ("audience {} --item 3 --item 3", "/v1/audience/new", {"items": ["3", "3"]}, 422),
    ],
)
def test_errors_say_the_same_everywhere(
    typed: str, path: str, body: dict[str, Any], status: int, run: Run, service: TestClient, artifact_of: Any
) -> None:
    code, out, err = run(*typed.format(artifact_of("crosscbr")).split())
    assert (code, out) == (2, "")
    sent = service.post(path, json=body)
    assert sent.status_code == status
    message = err.removeprefix("error: ").rstrip("\n").partition(" (--")[0]
    assert sent.json()["error"].startswith(message)
