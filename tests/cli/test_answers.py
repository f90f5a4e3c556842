"""Export, recommend, what-if and explain, as one types them."""

import json
from pathlib import Path

import pytest

from clbr import World, save
from clbr.inference.artifact import open_artifact
from clbr.inference.recommend import of_left
from clbr.inference.whatif import factual
from typed import Run, assert_refused


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    from clbr.training.config import compose
    from clbr.training.run import start

    space = tmp_path_factory.mktemp("answers")
    data = save(tiny.dataset, space / "shop")
    for model in ("crosscbr", "dam"):
        start(space / model, compose(str(data), model, changes={"epochs": 3, "learning_rate": 0.01}), tiny.dataset)
    return space


@pytest.fixture(scope="module")
def desk(runs: Path) -> Path:
    from clbr.inference.export import export

    return export(runs / "crosscbr", runs / "desk")


def test_export_shows_its_card_and_refuses_what_is_there(run: Run, runs: Path) -> None:
    code, out, err = run("export", runs / "crosscbr", "--out", "mine")
    assert (code, err) == (0, "")
    assert "# crosscbr on tiny" in out and "next: clbr recommend mine --user ID" in out
    assert_refused(run, Path(), ["export", runs / "crosscbr", "--out", "mine"], "mine: is not empty")
    assert run("export", runs / "crosscbr", "--out", "mine", "--force")[0] == 0
    assert_refused(run, Path(), ["export", runs / "shop", "--out", "other"], "no run there")


def test_recommend_by_name_or_as_json(run: Run, desk: Path) -> None:
    opened = open_artifact(desk)
    first = factual(opened).ranking(3, 3)
    code, out, err = run("recommend", desk, "--user", "3", "--top", "3")
    assert (code, err) == (0, "")
    assert [opened.bundles.label(place.bundle) in out for place in first] == [True] * 3
    code, out, _ = run("recommend", desk, "--user", "3", "--top", "3", "--json")
    assert [entry["id"] for entry in json.loads(out)["recommended"]] == [str(place.bundle) for place in first]
    code, out, _ = run("recommend", desk, "--user", "3", "--diversity", "0.5")
    assert "On validation, diversity 0.5 finds" in out


def test_recommend_to_everyone_to_newcomers_and_of_new_bundles(run: Run, desk: Path) -> None:
    code, out, err = run("recommend", desk, "--all", "--out", "recs.parquet", "--top", "5")
    assert (code, out.strip(), err) == (0, "recs.parquet: 3,000 rows, 600 users", "")
    code, out, _ = run("recommend", desk, "--likes-item", "0", "--likes-item", "3", "--likes-bundle", "7", "--json")
    assert len(json.loads(out)["recommended"]) == 20
    assert "7" not in [entry["id"] for entry in json.loads(out)["recommended"]]
    code, out, _ = run("recommend", desk, "--new-bundle-of", "0", "--new-bundle-of", "3", "--top", "4", "--json")
    told = json.loads(out)
    assert [entry["place"] for entry in told["users"]] == sorted(entry["place"] for entry in told["users"])
    assert len(told["users"]) == 4


def test_lists_of_what_may_be_shown(run: Run, desk: Path) -> None:
    Path("few.txt").write_text("4\n9\n\n12\n")
    _, out, _ = run("recommend", desk, "--user", "3", "--allow", "few.txt", "--json")
    assert {entry["id"] for entry in json.loads(out)["recommended"]} <= {"4", "9", "12"}
    Path("few.txt").write_bytes(b"\xef\xbb\xbf4\r\n9\r\n")  # as a spreadsheet writes it
    _, out, _ = run("recommend", desk, "--user", "3", "--allow", "few.txt", "--json")
    assert {entry["id"] for entry in json.loads(out)["recommended"]} <= {"4", "9"}
    Path("few.txt").write_text("")
    code, out, _ = run("recommend", desk, "--user", "3", "--allow", "few.txt", "--diversity", "0.3")
    assert (code, "For user 3 no bundle is left" in out) == (0, True)
    Path("few.txt").write_text("4\nfour\n")
    assert_refused(
        run, Path(), ["recommend", desk, "--user", "3", "--deny", "few.txt"], "few.txt: unknown bundle 'four'"
    )


def test_what_if_for_a_user_and_for_a_bundle(run: Run, desk: Path) -> None:
    opened = open_artifact(desk)
    has = int(of_left(opened.graph.ui.pairs, 3)[0])
    code, out, err = run("whatif", desk, "--user", "3", "--drop-item", has, "--top", "5")
    assert (code, err) == (0, "")
    assert "For user 3, first 5" in out and "parameters stay as trained" in out
    code, out, _ = run("whatif", desk, "--user", "3", "--drop-item", has, "--top", "5", "--json")
    assert {move["after"] for move in json.loads(out)["moves"]} >= {1, 2, 3, 4, 5}
    inside = of_left(opened.graph.bi.pairs, 5)
    new = next(item for item in range(240) if item not in inside)
    code, out, err = run("whatif", desk, "--bundle", "5", "--swap", inside[0], new)
    assert (code, err) == (0, "")
    assert "in their first 20" in out and "heavy" in out
    code, out, _ = run("whatif", desk, "--bundle", "5", "--swap", inside[0], new, "--json")
    told = json.loads(out)
    assert told["after"] - told["before"] == len(told["entered"]) - len(told["left"])


def test_an_edit_without_effect_on_her_list_is_said_to_be(run: Run, desk: Path) -> None:
    opened = open_artifact(desk)
    listed = {place.bundle for place in factual(opened).ranking(3, 5)}
    other = next(b for b in range(150) if b not in listed and len(of_left(opened.graph.bi.pairs, b)) > 1)
    item = int(of_left(opened.graph.bi.pairs, other)[0])
    Path("edits.json").write_text(json.dumps({"drop": {"bi": [[str(other), str(item)]]}}))
    _, out, _ = run("whatif", desk, "--user", "3", "--top", "5", "--edits", "edits.json")
    assert "the edits are without effect on it" in out
    first = next(iter(factual(opened).ranking(3, 1))).bundle
    assert f"{opened.bundles.label(first)} ({opened.bundles.id(first)})" in out  # to type in the next question


def test_edits_of_any_relation_from_a_file(run: Run, desk: Path) -> None:
    opened = open_artifact(desk)
    has, inside = (int(of_left(pairs, 3)[0]) for pairs in (opened.graph.ui.pairs, opened.graph.bi.pairs))
    Path("edits.json").write_text(json.dumps({"drop": {"ui": [["3", str(has)]], "bi": [["3", str(inside)]]}}))
    words = ("--user", "3", "--top", "150", "--json")
    code, out, err = run("whatif", desk, *words, "--edits", "edits.json")
    assert (code, err) == (0, "")
    mixed = {move["id"]: move["score_after"] for move in json.loads(out)["moves"]}
    _, out, _ = run("whatif", desk, *words, "--drop-item", has)
    hers = {move["id"]: move["score_after"] for move in json.loads(out)["moves"]}
    assert [bundle for bundle in mixed if mixed[bundle] != pytest.approx(hers[bundle])] == ["3"]
    for content, message in (
        ("[", "edits.json: not a file of edits (not JSON)"),
        ("[" * 100_000, "edits.json: not a file of edits (not JSON)"),
        ("[]", "expected {add, drop}, found []"),
        ('{"add": null}', "expected {ub, ui, bi}, found null"),
        ('{"add": {"ui": null}}', "add, ui: expected pairs of ids, found null"),
        ('{"add": {"ui": ["12"]}}', 'add, ui: expected pairs of ids, found "12"'),
        ('{"add": {"ui": [[3, true]]}}', "expected pairs of ids, found [3, true]"),
        ('{"swap": {}}', "unknown key 'swap', known: add, drop"),
        ('{"add": {"iu": [[1, 2]]}}', "unknown relation 'iu'"),
        ('{"add": {"ui": [[1, 2, 3]]}}', "expected pairs of ids, found [1, 2, 3]"),
        (f'{{"add": {{"ui": [[3, {has}]]}}}}', f"user 3 and item {has} are a pair already and cannot be added"),
        ('{"add": {"bi": [[3, 1], ["3", "1"]]}}', "add: bundle 3 and item 1 are there twice"),
        ('{"add": {"ui": [["900", "2"]]}}', "unknown user '900'"),
        ('{"drop": {"ub": [["3", "149"]]}}', "user 3 and bundle 149 are no pair and cannot be dropped"),
        ("{}", "nothing is edited"),
    ):
        Path("edits.json").write_text(content)
        assert_refused(run, Path(), ["whatif", desk, "--user", "3", "--edits", "edits.json"], message)


def test_explanations_in_words_and_as_json(run: Run, desk: Path) -> None:
    ranking = factual(open_artifact(desk)).ranking(3, 40)
    code, out, err = run("explain", desk, "--user", "3", "--bundle", ranking[4].bundle, "--top", "10")
    assert (code, err) == (0, "")
    assert "is at place 5 of user 3's list" in out
    code, out, _ = run("explain", desk, "--user", "3", "--bundle", ranking[30].bundle, "--json")
    told = json.loads(out)
    assert (told["question"], told["place"]) == ("history", 31)
    assert not told["found"] or told["rank_after"] <= 20
    code, out, _ = run("explain", desk, "--user", "3", "--bundle", ranking[30].bundle, "--swaps", "--json")
    assert json.loads(out)["question"] == "contents"


def test_nothing_found_says_whether_more_budget_would_help(run: Run, desk: Path) -> None:
    opened = open_artifact(desk)
    user = int(max(opened.graph.ui.pairs[:, 0], key=lambda u: len(of_left(opened.graph.ui.pairs, int(u)))))
    words = ("explain", desk, "--user", user, "--bundle", factual(opened).ranking(user, 1)[0].bundle, "--top", "150")
    _, out, _ = run(*words, "--budget", "1")  # no history takes a bundle out of a list of all bundles
    assert "Nothing was found within the budget (1 sets of edits were tried); try --budget." in out
    _, out, _ = run(*words)
    assert "even all of her history taken away leaves it there" in out
    assert [json.loads(run(*words, "--budget", b, "--json")[1])["out_of_budget"] for b in (1, 100)] == [True, False]


def test_what_cannot_be_answered_is_refused_in_a_line(run: Run, desk: Path, runs: Path) -> None:
    opened = open_artifact(desk)
    has = int(of_left(opened.graph.ui.pairs, 3)[0])
    for words, message in (
        (("recommend", desk), "expected one of --user ID"),
        (("recommend", desk, "--user", "3", "--all"), "expected one of --user ID"),
        (("recommend", desk, "--all"), "--all: expected --out with a name that ends in .parquet"),
        (("recommend", desk, "--user", "600"), "unknown user '600': expected a number from 0 to 599"),
        (("recommend", desk, "--user", "3", "--top", "151"), "top 151: expected 1 to 150"),
        (("recommend", runs, "--user", "3"), "no artifact there"),
        (("recommend", desk, "--user", "3", "--out", "x.parquet"), "does not take --out"),
        (("recommend", desk, "--all", "--out", "x.parquet", "--json"), "--all does not take --json"),
        (("recommend", desk, "--all", "--out", "x.parquet", "--diversity", "1"), "--all does not take --diversity"),
        (("recommend", desk, "--new-bundle-of", "1", "--keep-chosen"), "--new-bundle-of does not take --keep-chosen"),
        (("recommend", desk, "--new-bundle-of", "1", "--top", "151"), "top 151: expected 1 to 150"),
        (("whatif", desk, "--user", "3"), "nothing is edited"),
        (("whatif", desk, "--bundle", "3", "--swap", "1", "2", "--swap", "3", "4"), "--swap is there more than once"),
        (("whatif", desk, "--user", "3", "--bundle", "4"), "expected --user ID or --bundle ID"),
        (("whatif", desk, "--user", "3", "--add-item", has), f"user 3 has item {has} already"),
        (("whatif", desk, "--user", "3", "--swap", "1", "2"), "--swap is of a bundle's items"),
        (("whatif", desk, "--bundle", "3", "--add-bundle", "2"), "a bundle holds items"),
        (("explain", desk, "--user", "3", "--bundle", "150"), "unknown bundle '150'"),
    ):
        assert_refused(run, Path(), [*words], message)


def test_dam_recommends_and_says_why_it_cannot_be_asked(run: Run, runs: Path) -> None:
    assert run("export", runs / "dam", "--out", "dam")[0] == 0
    assert run("recommend", "dam", "--user", "3")[0] == 0
    assert_refused(run, Path(), ["whatif", "dam", "--user", "3", "--add-item", "5"], "dam does not look at a graph")
    assert_refused(run, Path(), ["explain", "dam", "--user", "3", "--bundle", "5"], "dam does not look at a graph")
