"""clbr whatif, audience, explain and suggest."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clbr import Recommender
from clbr.data.pairs import neighbours
from clbr.inference.whatif import factual_state
from typed import Run, assert_refused


@pytest.fixture
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


def ranking(recommender: Recommender, k: int) -> list[int]:
    return factual_state(recommender.artifact).ranking(3, k)


def test_a_users_list_before_and_after(run: Run, folder: Path, recommender: Recommender) -> None:
    has = int(neighbours(recommender.artifact.graph.ui.pairs, 3)[0])
    code, out, err = run("whatif", folder, "--user", "3", "--drop-item", has, "--k", "5")
    assert (code, err) == (0, "")
    assert "For user 3, first 5" in out
    assert out.count("Predicted, not retrained") == 1
    first = recommender.whatif(3, drop_items=[has], k=5).moves[0]
    assert f"{first.name} ({first.id})" in out  # the id, to type in the next question
    code, out, _ = run("whatif", folder, "--user", "3", "--drop-item", has, "--k", "5", "--json")
    assert json.loads(out)["caveat"] == recommender.artifact.caveat
    assert {move["rank_after"] for move in json.loads(out)["moves"]} >= {1, 2, 3, 4, 5}


def test_a_bundles_audience_before_and_after(run: Run, folder: Path, recommender: Recommender) -> None:
    inside = neighbours(recommender.artifact.graph.bi.pairs, 5)
    new = next(item for item in range(240) if item not in inside)
    code, out, err = run("audience", folder, "--bundle", "5", "--swap", f"{inside[0]}={new}")
    assert (code, err) == (0, "")
    assert "in their first 20" in out and "heavy" in out
    code, out, _ = run("audience", folder, "--bundle", "5", "--swap", f"{inside[0]}={new}", "--json")
    answer = json.loads(out)
    assert answer["after"] - answer["before"] == answer["entered_count"] - answer["left_count"]
    code, out, _ = run("audience", folder, "--item", "0", "--item", "3", "--k", "4")
    assert code == 0 and "An unseen bundle: in the first 4 of" in out


def test_without_edits_the_audience_of_today_is_shown(run: Run, folder: Path) -> None:
    code, out, err = run("audience", folder, "--bundle", "5")
    assert (code, err) == (0, "")
    assert "The audience stays as it is" in out


def test_a_swap_of_ids_that_hold_an_equals_sign(run: Run, tmp_path: Path) -> None:
    import polars as pl

    import clbr

    pairs = [(f"u{u}", f"b{(u + k) % 9}") for u in range(12) for k in range(4)]
    data = clbr.BundleDataset.from_frames(
        pl.DataFrame(pairs, schema=["user", "bundle"], orient="row"),
        pl.DataFrame([(f"u{u}", f"i={u % 5}") for u in range(12)], schema=["user", "item"], orient="row"),
        pl.DataFrame([(f"b{b}", f"i={b % 5}") for b in range(9)], schema=["bundle", "item"], orient="row"),
    )
    clbr.fit(data, "lightgcn", epochs=1, progress=False).save(tmp_path / "equals")
    code, out, err = run("audience", tmp_path / "equals", "--bundle", "b0", "--swap", "i=0=i=1", "--k", "3", "--json")
    assert code == 0 and json.loads(out)["warnings"], err  # LightGCN does not use contents
    assert_refused(
        run, Path(), ["audience", tmp_path / "equals", "--bundle", "b0", "--swap", "i=0"], "unknown item '0'"
    )


def test_names_instead_of_ids(run: Run, folder: Path, recommender: Recommender) -> None:
    items = recommender.artifact.items
    inside = neighbours(recommender.artifact.graph.bi.pairs, 5)
    new = next(item for item in range(240) if item not in inside)
    bundle, old = recommender.artifact.bundles.label(5), items.label(int(inside[0]))
    by_name = run("audience", folder, "--bundle", bundle, "--swap", f"{old}={items.label(new)}", "--json")
    assert by_name == run("audience", folder, "--bundle", "5", "--swap", f"{inside[0]}={new}", "--json")
    assert by_name[0] == 0
    has = int(neighbours(recommender.artifact.graph.ui.pairs, 3)[0])
    Path("edits.json").write_text(json.dumps({"drop": {"ui": [["3", items.label(has)]]}}))
    by_name = run("whatif", folder, "--user", "3", "--edits", "edits.json", "--json")
    assert by_name == run("whatif", folder, "--user", "3", "--drop-item", has, "--json") and by_name[0] == 0


def test_edits_without_effect_on_the_list(run: Run, folder: Path, recommender: Recommender) -> None:
    pairs = recommender.artifact.graph.bi.pairs
    other = next(b for b in range(150) if b not in ranking(recommender, 5) and len(neighbours(pairs, b)) > 1)
    edits = {"drop": {"bi": [[str(other), str(neighbours(pairs, other)[0])]]}}
    Path("edits.json").write_text(json.dumps(edits))
    _, out, _ = run("whatif", folder, "--user", "3", "--k", "5", "--edits", "edits.json")
    assert "the edits have no effect on it" in out


def test_faulty_files_of_edits_name_the_file(run: Run, folder: Path) -> None:
    for content, message in (
        ("[", "edits.json: not a file of edits (not JSON)"),
        ("[" * 100_000, "edits.json: not a file of edits (not JSON)"),
        ("[1]", "edits.json: edits: found [1], expected an object"),
        ('{"add": {"ui": [["900", "2"]]}}', "edits.json: unknown user '900'"),
    ):
        Path("edits.json").write_text(content)
        assert_refused(run, Path(), ["whatif", folder, "--user", "3", "--edits", "edits.json"], message)


def test_explanations_as_text_and_as_json(run: Run, folder: Path, recommender: Recommender) -> None:
    listed = ranking(recommender, 40)
    code, out, err = run("explain", folder, "--user", "3", "--bundle", listed[4], "--k", "10")
    assert (code, err) == (0, "")
    assert "has rank 5 in user 3's list" in out
    code, out, _ = run("explain", folder, "--user", "3", "--bundle", listed[30], "--json")
    answer = json.loads(out)
    assert (answer["question"], answer["rank"]) == ("history", 31)
    assert answer["rank_after"] is None if not answer["found"] else answer["rank_after"] <= 20
    code, out, _ = run("explain", folder, "--user", "3", "--bundle", listed[30], "--of", "contents", "--json")
    assert json.loads(out)["question"] == "contents"


def test_a_bundle_out_of_reach_says_so_and_how_near_a_few_changes_come(
    run: Run, folder: Path, recommender: Recommender
) -> None:
    last_first = ranking(recommender, 150)[::-1]
    far = next(bundle for bundle in last_first if recommender.explain(3, bundle, k=1).out_of_reach)
    _, out, _ = run("explain", folder, "--user", "3", "--bundle", far, "--k", "1")
    assert "It is out of reach: no handful of changes that was tried brings it in." in out
    nearest = recommender.explain(3, far, k=1).nearest
    assert f"{nearest[0].rank:,}" in out and nearest[0].evidence[0].id in out


def test_nothing_found_says_whether_more_budget_would_help(run: Run, folder: Path, recommender: Recommender) -> None:
    pairs = recommender.artifact.graph.ui.pairs
    user = max(range(600), key=lambda one: len(neighbours(pairs, one)))
    first = factual_state(recommender.artifact).ranking(user, 1)[0]
    words = ("explain", folder, "--user", user, "--bundle", first, "--k", "150")  # nothing leaves a list of all bundles
    _, out, _ = run(*words, "--budget", "1")
    assert "Nothing was found within the budget (sets of edits that were tried: 1); try a larger --budget." in out
    _, out, _ = run(*words)
    assert "the whole history removed leaves it there" in out
    assert [json.loads(run(*words, "--budget", b, "--json")[1])["out_of_budget"] for b in (1, 100)] == [True, False]


def test_suggested_swaps(run: Run, folder: Path, recommender: Recommender) -> None:
    bundle = next(b for b in range(150) if recommender.suggest(b, k=5).swaps)
    code, out, err = run("suggest", folder, "--bundle", bundle, "--k", "5")
    assert (code, err) == (0, "")
    assert recommender.suggest(bundle, k=5).swaps[0].new.label in out
    inside = [w for item in neighbours(recommender.artifact.graph.bi.pairs, 0) for w in ("--drop-item", item)]
    assert "no swap was found" in run("suggest", folder, "--bundle", "0", *inside)[1]


def test_bad_questions_end_in_one_line(run: Run, folder: Path, recommender: Recommender) -> None:
    has = int(neighbours(recommender.artifact.graph.ui.pairs, 3)[0])
    Path("edits.json").write_text("{}")
    for words, message in (
        (("whatif", folder, "--user", "9999", "--edits", "edits.json"), "error: unknown user '9999'"),
        (("whatif", folder, "--user", "3", "--add-item", has), f"user 3 has item {has} already"),
        (("audience", folder, "--bundle", "9999"), "unknown bundle '9999'"),
        (
            ("audience", folder, "--bundle", "3", "--item", "4"),
            "expected --bundle ID, or the items of an unseen bundle",
        ),
        (("audience", folder, "--item", "4", "--add-item", "5"), "an unseen bundle has only its items"),
        (("audience", folder, "--bundle", "3", "--swap", "4"), "--swap 4: expected OLD=NEW"),
        (("explain", folder, "--user", "3", "--bundle", "150"), "unknown bundle '150'"),
    ):
        assert_refused(run, Path(), [*words], message)
