"""clbr find and show."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clbr import Recommender
from clbr.data.pairs import neighbours
from typed import Run, assert_refused


@pytest.fixture
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


def test_nodes_of_all_kinds_as_tables(run: Run, folder: Path, recommender: Recommender) -> None:
    code, out, err = run("find", folder, "camp")
    assert (code, err) == (0, "")
    names = [name for name in recommender.artifact.bundles.names or () if "camp" in str(name).lower()]
    assert f"{len(names)} bundles" in out and "Camping starter kit" in out and "contents" in out
    code, out, _ = run("find", folder, "17", "--kind", "user", "--limit", "2")
    lines = [line.split() for line in out.splitlines()]
    size = len(neighbours(recommender.artifact.graph.ub.pairs, 17)) + len(
        neighbours(recommender.artifact.graph.ui.pairs, 17)
    )
    assert lines[1:3] == [["user", "id", "choices"], ["17", "17", str(size)]] and len(lines) == 4
    assert lines[0][1:] == ["users,", "the", "first", "2"]


def test_nothing_found_is_one_line_and_exit_code_1(run: Run, folder: Path) -> None:
    code, out, err = run("find", folder, "zzz")
    assert (code, out, err) == (1, "", "No user, bundle or item has an id or a name that contains 'zzz'.\n")
    code, out, _ = run("find", folder, "zzz", "--json", "--kind", "item")
    assert (code, json.loads(out)["results"]) == (1, [{"kind": "item", "text": "zzz", "total": 0, "found": []}])


def test_a_found_bundle_shows_the_first_of_its_items(run: Run, folder: Path, recommender: Recommender) -> None:
    details = recommender.directory.bundle(1)
    _, out, _ = run("find", folder, "Camping starter kit", "--kind", "bundle")
    shown = ", ".join(item.label for item in details.items[:3])
    assert shown + (", ..." if len(details.items) > 3 else "") in out


def test_found_nodes_as_json_are_those_of_python(run: Run, folder: Path, recommender: Recommender) -> None:
    _, out, _ = run("find", folder, "camp", "--limit", "3", "--json")
    assert out.strip() == recommender.find("camp", limit=3).to_json()
    assert [one["kind"] for one in json.loads(out)["results"]] == ["user", "bundle", "item"]


def test_a_user_a_bundle_and_an_item(run: Run, folder: Path, recommender: Recommender) -> None:
    graph = recommender.artifact.graph
    code, out, err = run("show", folder, "--user", "17")
    bundles, items = neighbours(graph.ub.pairs, 17), neighbours(graph.ui.pairs, 17)
    assert (code, err) == (0, "") and out.startswith("User 17, ")
    assert f"{len(bundles)} bundle" in out and f"{len(items)} item" in out
    assert all(recommender.artifact.bundles.label(int(one)) in out for one in bundles)

    _, out, _ = run("show", folder, "--bundle", "Camping starter kit")  # a name
    chosen_by = int((graph.ub.pairs[:, 1] == 1).sum())
    assert out.startswith(f"Bundle Camping starter kit (1), chosen by {chosen_by} user")
    assert all(recommender.artifact.items.label(int(one)) in out for one in neighbours(graph.bi.pairs, 1))

    item = int(neighbours(graph.bi.pairs, 1)[0])
    _, out, _ = run("show", folder, "--item", item)
    held = graph.bi.pairs[graph.bi.pairs[:, 1] == item, 0]
    assert f"{len(held)} bundle" in out and "Camping starter kit" in out
    _, out, _ = run("show", folder, "--item", item, "--json")
    by_choosers = sorted(held.tolist(), key=lambda one: (-int((graph.ub.pairs[:, 1] == one).sum()), one))
    assert [int(one["id"]) for one in json.loads(out)["held_by"]] == by_choosers
    for kind in ("user", "bundle"):
        _, out, _ = run("show", folder, f"--{kind}", "1", "--json")
        assert out.strip() == getattr(recommender.directory, kind)(1).to_json()


def test_without_a_node_the_model_card_with_the_whole_caveat(run: Run, folder: Path, recommender: Recommender) -> None:
    code, out, err = run("show", folder)
    assert (code, err) == (0, "")
    assert out.startswith("# crosscbr on tiny") and recommender.artifact.caveat in out
    assert json.loads(run("show", folder, "--json")[1])["model"] == "crosscbr"


def test_bad_questions_end_in_one_line(run: Run, folder: Path) -> None:
    for words, message in (
        (("find", folder, "x", "--kind", "basket"), "'basket' is not one of"),
        (("find", folder, "x", "--limit", "0"), "greater than or equal to 1"),
        (("find", "nowhere", "x"), "no recommender there"),
        (("find", folder, " "), "the text is empty: expected an id or a name, or a part of one"),
        (("find", folder), "Missing argument 'TEXT'"),
        (("show", folder, "--user", "1", "--item", "1"), "expected one of --user ID, --bundle ID, --item ID"),
        (("show", folder, "--bundle", "Campin starter kit"), "did you mean 'Camping starter kit'"),
    ):
        assert_refused(run, Path(), [*words], message)
