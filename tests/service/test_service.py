"""The service's answers are the library's."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from clbr.data.pairs import neighbours
from clbr.inference.answers import Answer
from clbr.inference.card import summarize_accuracy
from clbr.inference.recommender import Recommender, load_recommender
from clbr.service.words import Words, plural
from service_helpers import assert_error, make_client


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with make_client(folder, words=Words.parse("reader,list,book")) as client:
        yield client


@pytest.fixture(scope="module")
def recommender(folder: Path) -> Recommender:
    return load_recommender(folder)


@pytest.fixture(scope="module")
def user(recommender: Recommender) -> str:
    return recommender.artifact.users.id(17)


def post(client: TestClient, path: str, **request: object) -> Any:
    answer = client.post(path, json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def payload(answer: Answer) -> Any:
    """What the service should send; scores may differ in their last bits."""
    return with_approximate_scores(json.loads(answer.to_json()))


def with_approximate_scores(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_approximate_scores(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_approximate_scores(part) for part in value]
    return pytest.approx(value) if isinstance(value, float) else value


def new_item(recommender: Recommender, user: int) -> str:
    """An item that a user does not have."""
    known = neighbours(recommender.artifact.graph.ui.pairs, user)
    items = recommender.artifact.items
    return next(items.id(item) for item in range(len(items)) if item not in known)


def first_item(recommender: Recommender, relation: str, left: int) -> str:
    """The first item of a user ("ui") or a bundle ("bi")."""
    pairs = getattr(recommender.artifact.graph, relation).pairs
    return recommender.artifact.items.id(int(neighbours(pairs, left)[0]))


def test_a_list_is_the_librarys(client: TestClient, recommender: Recommender, user: str) -> None:
    answer = client.get("/v1/recommend", params={"user": user, "k": 7}).json()
    assert answer == payload(recommender.recommend_one(user, k=7))
    assert [bundle["rank"] for bundle in answer["recommended"]] == list(range(1, 8))
    scores = [bundle["score"] for bundle in answer["recommended"]]
    assert scores == sorted(scores, reverse=True)
    users, bundles = recommender.artifact.users, recommender.artifact.bundles
    assert answer["user"] == {"id": user, "name": users.names[17] if users.names else None}
    first = answer["recommended"][0]
    assert first["name"] == bundles.label(bundles.index(first["id"]))


def test_a_diverse_list_and_one_with_chosen_bundles_are_the_librarys(
    client: TestClient, recommender: Recommender, user: str
) -> None:
    plain = client.get("/v1/recommend", params={"user": user}).json()
    for options in ({"diversity": 0.9}, {"keep_chosen": True}):
        answer = client.get("/v1/recommend", params={"user": user, **options}).json()
        assert answer == payload(recommender.recommend_one(user, **options))
        assert answer["recommended"] != plain["recommended"]


def test_a_batch_has_the_list_of_each_user(client: TestClient, recommender: Recommender) -> None:
    users = [recommender.artifact.users.id(user) for user in (3, 17, 3, 60)]
    answer = post(client, "/v1/recommend/batch", users=users, k=4)["lists"]
    single = [client.get("/v1/recommend", params={"user": user, "k": 4}).json() for user in users]
    assert [[bundle["id"] for bundle in one["recommended"]] for one in answer] == [
        [bundle["id"] for bundle in one["recommended"]] for one in single
    ]


def test_a_list_has_only_allowed_bundles(client: TestClient, recommender: Recommender, user: str) -> None:
    allowed = [recommender.artifact.bundles.id(bundle) for bundle in (1, 2, 3)]
    answer = post(client, "/v1/recommend", user=user, allow=allowed, deny=allowed[:1], keep_chosen=True)
    assert {bundle["id"] for bundle in answer["recommended"]} == set(allowed[1:])
    assert post(client, "/v1/recommend", user=user, allow=[])["recommended"] == []


def test_an_unseen_user_gets_a_list_by_likes(client: TestClient, recommender: Recommender, user: str) -> None:
    item, bundle = recommender.artifact.items.id(3), recommender.artifact.bundles.id(5)
    answer = post(client, "/v1/recommend", likes_items=[item], likes_bundles=[bundle], k=5)
    assert answer == payload(recommender.recommend_one(likes_items=[item], likes_bundles=[bundle], k=5))
    assert answer["user"] is None and len(answer["recommended"]) == 5
    assert bundle not in [one["id"] for one in answer["recommended"]]
    assert_error(client.post("/v1/recommend", json={"k": 5}), 422, "expected a user", "likes")
    both = {"user": user, "likes_items": [item]}
    assert_error(client.post("/v1/recommend", json=both), 422, "exactly one of the two")


def test_a_whatif_is_the_librarys(client: TestClient, recommender: Recommender, user: str) -> None:
    edits = {"add_items": [new_item(recommender, 17)], "drop_items": [first_item(recommender, "ui", 17)]}
    answer = post(client, "/v1/whatif", user=user, **edits, k=6)
    assert answer == payload(recommender.whatif(user, **edits, k=6))
    for side in ("before", "after"):
        moved = {move["id"]: move[f"rank_{side}"] for move in answer["moves"] if move[f"rank_{side}"] is not None}
        assert moved == {bundle["id"]: bundle["rank"] for bundle in answer[side]}
        scores = {move["id"]: move[f"score_{side}"] for move in answer["moves"]}
        assert all(scores[bundle["id"]] == bundle["score"] for bundle in answer[side])
    assert "trained parameters stay fixed" in answer["caveat"]


def test_edits_of_any_relation_are_accepted(client: TestClient, recommender: Recommender, user: str) -> None:
    item, bundle = new_item(recommender, 17), recommender.artifact.bundles.id(5)
    single = post(client, "/v1/whatif", user=user, add_items=[item])
    assert post(client, "/v1/whatif", user=user, edits={"add": {"ui": [[user, item]]}}) == single
    dropped = first_item(recommender, "bi", 5)
    edits = {"drop": {"bi": [[bundle, dropped]]}}
    assert post(client, "/v1/whatif", user=user, edits=edits) == payload(recommender.whatif(user, edits=edits))
    single = post(client, "/v1/audience", bundle=bundle, drop_items=[dropped])
    assert post(client, "/v1/audience", bundle=bundle, edits=edits) == single
    both = {"user": user, "add_items": [item], "edits": edits}
    assert_error(client.post("/v1/whatif", json=both), 422, "`edits` holds all edits")
    wrong = {"user": user, "edits": {"add": {"xx": []}}}
    assert_error(client.post("/v1/whatif", json=wrong), 422, "edits")


def test_an_audience_is_the_librarys(client: TestClient, recommender: Recommender) -> None:
    bundle, item = recommender.artifact.bundles.id(5), first_item(recommender, "bi", 5)
    answer = post(client, "/v1/audience", bundle=bundle, drop_items=[item], k=6)
    assert answer == payload(recommender.audience(bundle, drop_items=[item], k=6))
    everyone = recommender.audience(bundle, drop_items=[item], k=6, max_users=None)
    assert answer["left"] == [payload(one) for one in everyone.left[:50]]
    assert (answer["entered_count"], answer["left_count"]) == (len(everyone.entered), len(everyone.left))
    assert answer["after"] - answer["before"] == answer["entered_count"] - answer["left_count"]
    for side in ("before", "after"):
        assert sum(part[side] for part in answer["segments"].values()) == answer[side]


def test_a_swap_is_a_drop_and_an_addition(client: TestClient, recommender: Recommender) -> None:
    bundle, old = recommender.artifact.bundles.id(5), first_item(recommender, "bi", 5)
    inside = neighbours(recommender.artifact.graph.bi.pairs, 5)
    items = recommender.artifact.items
    new = next(items.id(item) for item in range(len(items)) if item not in inside)
    answer = post(client, "/v1/audience", bundle=bundle, swap=[[old, new]])
    assert answer == post(client, "/v1/audience", bundle=bundle, drop_items=[old], add_items=[new])


def test_the_listed_users_of_an_audience_are_limited(client: TestClient, recommender: Recommender) -> None:
    bundle = recommender.artifact.bundles.id(5)
    contents = neighbours(recommender.artifact.graph.bi.pairs, 5)
    dropped = [recommender.artifact.items.id(int(item)) for item in contents]
    answer = post(client, "/v1/audience", bundle=bundle, drop_items=dropped, max_users=1)
    assert answer["left_count"] > 1 and len(answer["left"]) == 1
    answer = post(client, "/v1/audience", bundle=bundle, drop_items=dropped, max_users=0)
    assert answer["left"] == answer["entered"] == []


def test_the_audience_of_a_new_bundle_is_the_librarys(client: TestClient, recommender: Recommender) -> None:
    items = [recommender.artifact.items.id(item) for item in (3, 7)]
    answer = post(client, "/v1/audience/new", items=items, k=6)
    assert answer == payload(recommender.new_bundle_audience(items, k=6))
    assert [item["id"] for item in answer["items"]] == items
    ranks = [user["rank"] for user in answer["best"]]
    assert len(ranks) == 6 and ranks == sorted(ranks)
    assert answer["audience"] >= sum(rank <= 6 for rank in ranks)


def test_the_whole_audience_of_a_new_bundle_is_listed_on_request(client: TestClient, recommender: Recommender) -> None:
    items = [recommender.artifact.items.id(item) for item in (3, 7)]
    most = client.get("/v1/about").json()["limits"]["max_users"]
    answer = post(client, "/v1/audience/new", items=items, k=100, max_users=most)
    assert answer == payload(recommender.new_bundle_audience(items, k=100, max_users=None))
    assert len(answer["members"]) == answer["audience"] > 50
    assert post(client, "/v1/audience/new", items=items, k=100)["members"] == answer["members"][:50]


def test_previews_have_the_first_items_of_bundles(client: TestClient, recommender: Recommender) -> None:
    bundles = [recommender.artifact.bundles.id(bundle) for bundle in (9, 4)]
    answer = post(client, "/v1/previews", bundles=bundles, items=2)
    assert answer == payload(recommender.directory.previews(bundles, 2))
    details = [client.get("/v1/bundle", params={"id": bundle}).json() for bundle in bundles]
    assert [bundle["items"] for bundle in answer["bundles"]] == [bundle["items"][:2] for bundle in details]
    assert [bundle["size"] for bundle in answer["bundles"]] == [len(bundle["items"]) for bundle in details]
    assert post(client, "/v1/previews", bundles=[]) == {"bundles": []}
    assert_error(client.post("/v1/previews", json={"bundles": ["nope"]}), 404, "unknown bundle 'nope'")
    assert_error(client.post("/v1/previews", json={"bundles": ["5"] * 1001}), 422, "bundles", "1000")


def test_an_explanation_is_the_librarys(client: TestClient, recommender: Recommender, user: str) -> None:
    ranking = recommender.recommend_one(user, k=40).recommended
    first, last = ranking[0].id, ranking[-1].id
    answer = post(client, "/v1/explain", user=user, bundle=first, k=5)
    assert answer == payload(recommender.explain(user, first, k=5))
    assert answer["question"] == "why" and answer["rank"] == 1
    answer = post(client, "/v1/explain", user=user, bundle=last, k=5)
    assert answer == payload(recommender.explain(user, last, k=5))
    assert answer["question"] == "history" and answer["rank"] == 40
    answer = post(client, "/v1/explain", user=user, bundle=last, k=5, of="contents")
    assert answer["question"] == "contents"


def test_suggestions_name_a_gain(client: TestClient, recommender: Recommender) -> None:
    bundles = [recommender.artifact.bundles.id(bundle) for bundle in range(0, 12, 2)]
    found = [post(client, "/v1/suggest", bundle=bundle, k=5, count=2) for bundle in bundles]
    assert any(answer["swaps"] for answer in found)
    for answer in found:
        assert len(answer["swaps"]) <= 2
        assert all(swap["gain"] == swap["audience"] - answer["audience"] > 0 for swap in answer["swaps"])


def test_similar_bundles_and_items_are_the_librarys(client: TestClient, recommender: Recommender) -> None:
    bundle, item = recommender.artifact.bundles.id(5), recommender.artifact.items.id(3)
    answer = client.get("/v1/similar", params={"kind": "bundle", "id": bundle, "k": 4}).json()
    assert answer == payload(recommender.similar_bundles(bundle, k=4))
    assert bundle not in [one["id"] for one in answer["similar"]]
    assert [one["rank"] for one in answer["similar"]] == [1, 2, 3, 4]
    answer = client.get("/v1/similar", params={"kind": "item", "id": item}).json()
    assert answer == payload(recommender.similar_items(item))
    assert_error(client.get("/v1/similar", params={"kind": "user", "id": "1"}), 422, "kind")
    assert_error(client.get("/v1/similar", params={"kind": "item", "id": "nope"}), 404, "unknown item 'nope'")


def test_nodes_are_looked_up_and_searched(client: TestClient, recommender: Recommender, user: str) -> None:
    artifact = recommender.artifact
    details = client.get("/v1/user", params={"id": user}).json()
    items = neighbours(artifact.graph.ui.pairs, 17)
    assert [item["id"] for item in details["items"]] == [artifact.items.id(int(item)) for item in items]
    assert details["segment"] in ("heavy", "light", "cold")
    details = client.get("/v1/bundle", params={"id": artifact.bundles.id(5)}).json()
    assert details["chosen_by"] == int((artifact.graph.ub.pairs[:, 1] == 5).sum()) and details["items"]
    details = client.get("/v1/item", params={"id": artifact.items.id(3)}).json()
    assert details["users"] == int((artifact.graph.ui.pairs[:, 1] == 3).sum())
    name = artifact.bundles.label(5)
    results = client.get("/v1/find", params={"kind": "bundle", "text": name.upper()}).json()
    assert name in [node["name"] for node in results["found"]]


def test_the_service_describes_itself(client: TestClient, recommender: Recommender) -> None:
    about = client.get("/v1/about").json()
    assert about["model"] == "crosscbr" and about["supports_whatif"]
    assert about["users"] == recommender.artifact.about.users
    assert about["validation"] == recommender.artifact.about.validation
    assert about["words"] == {"user": ["reader", "readers"], "bundle": ["list", "lists"], "item": ["book", "books"]}
    assert about["card"].startswith("# crosscbr on") and not about["report"]
    assert about["caveat"] == recommender.artifact.caveat
    baseline = recommender.artifact.about.baseline
    assert baseline is not None and about["baseline"] == baseline.model_dump()
    assert about["accuracy"] == payload(summarize_accuracy(recommender.artifact.about))
    assert about["whatif_agreement"] == {}
    for path, status in (("/live", "live"), ("/ready", "ready")):
        assert client.get(path).json() == {"status": status}


def test_every_answer_names_its_artifact_and_its_request(client: TestClient) -> None:
    answer = client.get("/v1/about", headers={"x-request-id": "mine-7"})
    assert answer.headers["x-request-id"] == "mine-7"
    assert answer.headers["x-artifact"] == answer.json()["artifact"]
    other = client.get("/v1/about", headers={"x-request-id": "not\tmine"}).headers["x-request-id"]
    assert other != "not\tmine" and len(other) == 16


def test_a_model_without_whatif_recommends_and_says_what_it_cannot_do(artifact_of: Callable[[str], Path]) -> None:
    with make_client(artifact_of("bprmf")) as client:
        assert not client.get("/v1/about").json()["supports_whatif"]
        user = client.get("/v1/find", params={"kind": "user"}).json()["found"][0]["id"]
        assert len(client.get("/v1/recommend", params={"user": user, "k": 5}).json()["recommended"]) == 5
        assert_error(client.post("/v1/whatif", json={"user": user}), 409, "crosscbr or bgcn")


def test_words_have_plurals() -> None:
    assert Words.parse("person/people, series/series, dish").user == ("person", "people")
    assert Words.parse("family,dish,box") == Words(("family", "families"), ("dish", "dishes"), ("box", "boxes"))
    assert Words.parse("boy,watch,class").user == ("boy", "boys")
    regular = {"watch": "watches", "class": "classes", "quay": "quays", "Baby": "Babies", "y": "ys", "box": "boxes"}
    regular |= {"shelf": "shelves", "book shelf": "book shelves", "Loaf": "Loaves", "chief": "chiefs", "golf": "golfs"}
    irregular = {"child": "children", "Person": "People", "sales person": "sales people", "woman": "women"}
    irregular |= {"human": "humans", "series": "series", "knife": "knives"}
    assert {word: plural(word) for word in regular | irregular} == regular | irregular
    assert Words.parse("child,shelf,cactus/cacti").item == ("cactus", "cacti")
    for wrong in ("reader,list", "a,b,c,d", "a,,c", "a/,b,c"):
        with pytest.raises(ValueError, match="expected (words for users|a word, or its singular)") as error:
            Words.parse(wrong)
        assert error.value.arguments == ("words",)
