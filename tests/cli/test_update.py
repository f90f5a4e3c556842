"""clbr update."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from typed import Run, assert_refused


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


@pytest.fixture
def tables(run: Run) -> None:
    """New tables in the current folder: user 600, bundle 150 and item 240 are new, one row is there twice."""
    Path("choices.csv").write_text("user,bundle\n600,3\n600,150\n5,150\n600,3\n")
    Path("bought.tsv").write_text("user\titem\n600\t11\n600\t240\n")
    Path("contents.csv").write_text("cart,item\n150,11\n150,240\n")


@pytest.mark.usefixtures("tables")
def test_an_update_says_what_it_added_and_the_result_is_an_artifact(run: Run, folder: Path) -> None:
    columns = ["--columns", "bundle_item.bundle=cart"]
    words = ["--user-bundle", "choices.csv", "--user-item", "bought.tsv", "--bundle-item", "contents.csv", *columns]
    code, out, err = run("update", folder, *words, "--out", "new")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["Updated", "to", "new"]
    assert lines[2] == ["user_bundle", "4", "3", "0", "1"]
    assert lines[3] == ["user_item", "2", "2", "0", "0"]
    assert "New: 1 user, 1 bundle, 1 item" in out
    assert "bundles 1 (0.7%)" in out and "next: clbr recommend new --user ID" in out
    _, out, _ = run("recommend", "new", "--user", "600", "--k", "149", "--json")
    listed = [bundle["id"] for bundle in json.loads(out)["recommended"]]
    assert len(listed) == 149 and "150" not in listed
    assert run("whatif", "new", "--user", "600", "--drop-item", "240")[0] == 0
    assert run("audience", "new", "--bundle", "150", "--drop-item", "240")[0] == 0
    assert run("update", "new", "--user-bundle", "choices.csv", "--out", "newer")[0] == 2  # nothing is new now
    Path("more.csv").write_text("user,item\n601,0\n")
    code, out, _ = run("update", "new", "--user-item", "more.csv", "--out", "new", "--force")
    assert code == 0 and "users 2 (0.3%)" in out


@pytest.mark.usefixtures("tables")
def test_new_and_known_nodes_get_names(run: Run, folder: Path) -> None:
    Path("names.csv").write_text("cart,name\n150,Rain  kit\n3,Sun &amp; sea\n900,Nothing\n")
    Path("users.csv").write_text("user,name\n600,Ann\n")
    words = ["--user-bundle", "choices.csv", "--bundle-item", "contents.csv", "--user-names", "users.csv"]
    words += ["--bundle-names", "names.csv", "--columns", "bundle_item.bundle=cart,bundle_names.bundle=cart"]
    code, out, err = run("update", folder, *words, "--out", "new")
    assert (code, err) == (0, "")
    assert "New or changed names: 1 user, 2 bundles; 1 left out, whose ids are not known" in out
    assert json.loads(run("show", "new", "--bundle", "Rain kit", "--json")[1])["id"] == "150"
    assert json.loads(run("show", "new", "--bundle", "3", "--json")[1])["name"] == "Sun & sea"
    assert json.loads(run("show", "new", "--bundle", "1", "--json")[1])["name"] == "Camping starter kit"
    assert run("recommend", "new", "--user", "Ann", "--k", "3")[0] == 0


def test_names_alone_change_nothing_else(run: Run, folder: Path) -> None:
    Path("names.csv").write_text("item,name\n0,spade\n")
    code, out, err = run("update", folder, "--item-names", "names.csv", "--out", "new")
    assert (code, err) == (0, "")
    assert out == "New or changed names: 1 item\nnext: clbr recommend new --user ID\n"
    assert json.loads(run("show", "new", "--item", "spade", "--json")[1])["id"] == "0"
    before, after = (run("recommend", one, "--user", "3", "--json")[1] for one in (folder, "new"))
    assert before == after
    assert "Added since training" not in run("show", "new")[1]
    words = ["update", "new", "--item-names", "names.csv", "--out", "newer"]
    assert_refused(run, Path(), words, "nothing to add: the recommender has all names of the tables already")


@pytest.mark.usefixtures("tables")
def test_bad_input_ends_in_one_line(run: Run, folder: Path) -> None:
    Path("known.csv").write_text("user,bundle\n600,3\n")
    Path("text.csv").write_text("user,item\n3,1\nanna,1\n")
    Path("strange.csv").write_text("item,name\n900,Saw\n")
    Path("broken.csv").write_text("user,item\n3\n")
    Path("full").mkdir()
    Path("full/thing").write_text("mine")
    assert run("update", folder, "--user-bundle", "known.csv", "--out", "known")[0] == 0
    out = ["--out", "new"]
    for words, message in (
        (
            (folder, *out),
            "expected at least one of user_bundle, user_item, bundle_item, user_names, bundle_names, item",
        ),
        ((folder, *out), "(--user-bundle, --user-item, --bundle-item, --user-names"),
        ((folder, "--item-names", "strange.csv", *out), "strange.csv: none of its ids is in the relations"),
        (("known", "--user-bundle", "known.csv", *out), "nothing to add: the recommender has all pairs"),
        (
            (folder, "--user-bundle", "contents.csv", *out),
            "contents.csv: no column 'user'; its first line names 'cart'",
        ),
        ((folder, "--user-bundle", "choices.csv", *out), "choices.csv, line 3: bundle '150' is new and has no items"),
        ((folder, "--user-item", "text.csv", *out), "text.csv, line 3: user id 'anna' is new and not a whole number"),
        ((folder, "--user-item", "broken.csv", *out), "broken.csv, line 2"),
        ((folder, "--user-item", "bought.tsv", "--columns", "basket=x", *out), "columns: unknown key 'basket'"),
        ((folder, "--user-item", "missing.csv", *out), "missing.csv: no such file"),
        ((folder, "--user-item", "bought.tsv", "--out", "full"), "full: is not empty"),
        ((folder, "--user-item", "bought.tsv", "--out", "full", "--force"), "holds other things"),
        (("full", "--user-item", "bought.tsv", *out), "no recommender there"),
    ):
        assert_refused(run, Path(), ["update", *words], message)


def test_a_model_that_cannot_be_updated_is_named(run: Run, artifact_of: Callable[[str], Path]) -> None:
    Path("new.csv").write_text("user,bundle\n600,3\n")
    words = ["update", artifact_of("dam"), "--user-bundle", "new.csv", "--out", "new"]
    assert_refused(run, Path(), words, "dam computes no embeddings from a graph, so it has to be trained again")
