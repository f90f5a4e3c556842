"""clbr export, recommend, similar and baselines."""

import json
from pathlib import Path

import polars as pl
import pytest

from clbr import World, load_recommender, save
from clbr.inference.whatif import factual_state
from clbr.models.registry import BASELINES
from typed import Run, assert_refused


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    from clbr.training.config import compose
    from clbr.training.run import start

    space = tmp_path_factory.mktemp("recommend")
    data = save(tiny.dataset, space / "shop")
    for model in ("crosscbr", "dam"):
        start(space / model, compose(str(data), model, changes={"epochs": 3, "learning_rate": 0.01}), tiny.dataset)
    return space


@pytest.fixture(scope="module")
def folder(runs: Path) -> Path:
    from clbr.inference.export import export

    return export(runs / "crosscbr", runs / "artifact")


def test_export_shows_the_card_and_keeps_what_is_there(run: Run, runs: Path) -> None:
    code, out, err = run("export", runs / "crosscbr", "--out", "mine")
    assert (code, err) == (0, "")
    assert "# crosscbr on tiny" in out and "next: clbr recommend mine --user ID" in out
    assert_refused(run, Path(), ["export", runs / "crosscbr", "--out", "mine"], "mine: is not empty")
    assert "(--out, --force)" in run("export", runs / "crosscbr", "--out", "mine")[2]
    assert run("export", runs / "crosscbr", "--out", "mine", "--force")[0] == 0
    assert_refused(run, Path(), ["export", runs / "shop", "--out", "other"], "no run there")


def test_a_list_as_text_and_as_json(run: Run, folder: Path) -> None:
    recommender = load_recommender(folder)
    first = recommender.recommend_one(3, k=3).recommended
    code, out, err = run("recommend", folder, "--user", "3", "--k", "3")
    assert (code, err) == (0, "")
    assert [one.label in out for one in first] == [True] * 3
    code, out, _ = run("recommend", folder, "--user", "3", "--k", "3", "--json")
    assert [one["id"] for one in json.loads(out)["recommended"]] == [one.id for one in first]
    code, out, _ = run("recommend", folder, "--user", "3", "--diversity", "0.5")
    assert "On validation, recall@20 is" in out and "with diversity 0.5" in out


def test_lists_for_everyone_and_for_an_unseen_user(run: Run, folder: Path) -> None:
    code, out, err = run("recommend", folder, "--all", "--out", "lists.parquet", "--k", "5")
    assert (code, out.strip(), err) == (0, "lists.parquet: 3,000 rows, 600 users", "")
    code, out, _ = run("recommend", folder, "--likes-item", "0", "--likes-bundle", "7")
    assert code == 0 and "For an unseen user" in out
    code, out, _ = run("recommend", folder, "--likes-item", "0", "--likes-bundle", "7", "--json")
    assert len(json.loads(out)["recommended"]) == 20
    assert "7" not in [one["id"] for one in json.loads(out)["recommended"]]


def test_lists_of_the_users_of_a_file(run: Run, folder: Path) -> None:
    Path("some.txt").write_text("17\n\n 3\n")
    code, out, err = run("recommend", folder, "--users", "some.txt", "--out", "lists.csv", "--k", "2")
    assert (code, out, err) == (0, "lists.csv: 4 rows, 2 users\n", "")
    lines = Path("lists.csv").read_text().splitlines()
    assert lines[0] == "user,bundle,name,rank,score"
    assert [line.partition(",")[0] for line in lines[1:]] == ["17", "17", "3", "3"]
    for content, message in (("\n", "some.txt: has no user"), ("17\n900\n", "some.txt: unknown user '900'")):
        Path("some.txt").write_text(content)
        words = ["recommend", folder, "--users", "some.txt", "--out", "new.csv"]
        assert_refused(run, Path(), words, message)


def test_users_can_be_given_as_parquet(run: Run, folder: Path) -> None:
    pl.DataFrame({"user": [17, 3], "since": [1, 2]}).write_parquet("some.parquet")
    code, out, err = run("recommend", folder, "--users", "some.parquet", "--out", "lists.csv", "--k", "2")
    assert (code, out, err) == (0, "lists.csv: 4 rows, 2 users\n", "")
    words = ["recommend", folder, "--users", "bad.parquet", "--out", "new.csv"]
    pl.DataFrame({"who": ["17"], "since": [1]}).write_parquet("bad.parquet")
    assert_refused(run, Path(), words, "bad.parquet: expected a column user, or one column; it has who, since")
    pl.DataFrame({"user": [17, None]}).write_parquet("bad.parquet")
    assert_refused(run, Path(), words, "bad.parquet, row 2: no user; expected an id")
    pl.DataFrame({"bundle": [7, 9], "user": [1, 2]}).write_parquet("bundles.pq")
    code, out, _ = run("recommend", folder, "--user", "3", "--allow", "bundles.pq", "--keep-chosen", "--json")
    assert code == 0 and {one["id"] for one in json.loads(out)["recommended"]} == {"7", "9"}
    Path("bad.parquet").write_text("17\n")
    assert_refused(run, Path(), words, "bad.parquet: not a complete Parquet file")


def test_an_output_cannot_be_a_url(run: Run, folder: Path) -> None:
    words = ["recommend", folder, "--all", "--out", "s3://shop/lists.parquet"]
    message = "s3://shop/lists.parquet: expected a path on this machine or on a shared disk, not a URL"
    assert_refused(run, Path(), words, message)


def test_vectors_are_exported_beside_the_artifact(run: Run, runs: Path) -> None:
    code, out, err = run("export", runs / "crosscbr", "--out", "mine", "--vectors", "vectors")
    assert (code, err) == (0, "")
    assert "vectors: bundles.parquet, items.parquet, users.parquet" in out
    words = ["export", runs / "crosscbr", "--out", "other", "--vectors", "vectors"]
    assert_refused(run, Path(), words, "vectors: is not empty")
    assert "(--vectors, --force)" in run(*words)[2]
    words = ["export", runs / "crosscbr", "--out", "new", "--vectors", "new/vectors"]
    assert_refused(run, Path(), words, "new/vectors: expected another folder than that of the artifact, new")
    words = ["export", runs / "dam", "--out", "dam", "--vectors", "more"]
    assert_refused(run, Path(), words, "dam has no vectors: its scores are no inner products (--vectors)")
    assert not Path("dam").exists() and not Path("more").exists()


def test_files_of_allowed_and_denied_bundles(run: Run, folder: Path) -> None:
    Path("few.txt").write_text("4\n9\n\n12\n")
    _, out, _ = run("recommend", folder, "--user", "3", "--allow", "few.txt", "--json")
    assert {one["id"] for one in json.loads(out)["recommended"]} <= {"4", "9", "12"}
    Path("few.txt").write_bytes(b"\xef\xbb\xbf4\r\n9\r\n")  # as a spreadsheet writes it
    _, out, _ = run("recommend", folder, "--user", "3", "--allow", "few.txt", "--json")
    assert {one["id"] for one in json.loads(out)["recommended"]} <= {"4", "9"}
    Path("few.txt").write_text("Camping starter kit\n9\n")  # a name
    _, out, _ = run("recommend", folder, "--user", "3", "--allow", "few.txt", "--keep-chosen", "--json")
    assert {one["id"] for one in json.loads(out)["recommended"]} == {"1", "9"}
    Path("few.txt").write_text("")
    code, out, _ = run("recommend", folder, "--user", "3", "--allow", "few.txt", "--diversity", "0.3")
    assert (code, "For user 3 no bundle is left" in out) == (0, True)
    Path("few.txt").write_text("4\nfour\n")
    words = ["recommend", folder, "--user", "3", "--deny", "few.txt"]
    assert_refused(run, Path(), words, "few.txt: unknown bundle 'four'")


def test_similar_bundles_and_items(run: Run, folder: Path) -> None:
    code, out, err = run("similar", folder, "--bundle", "5", "--k", "3")
    assert (code, err) == (0, "")
    assert "Similar to bundle" in out and out.count("\n") == 5
    nearest = load_recommender(folder).similar_items(5, k=1).similar[0]
    assert nearest.label in run("similar", folder, "--item", "5", "--k", "1")[1]


def test_baselines_as_text_and_as_json(run: Run, runs: Path) -> None:
    code, out, err = run("baselines", runs / "shop", "--k", "5,10", "--split", "validation")
    assert (code, err) == (0, "")
    assert "EASE with contents" in out and "R@10" in out
    _, out, _ = run("baselines", runs / "shop", "--json")
    assert set(json.loads(out)) == set(BASELINES)


def test_closed_form_models_are_trained_compared_and_exported(run: Run, runs: Path) -> None:
    assert run("train", runs / "shop", "--model", "popularity", "--out", "popularity")[0] == 0
    assert run("train", runs / "shop", "--model", "ease", "--set", "l2=200", "--out", "ease")[0] == 0
    code, out, _ = run("compare", "popularity", "ease", "--k", "20")
    assert code == 0 and "ease" in out
    assert run("export", "ease", "--out", "served")[0] == 0
    assert run("recommend", "served", "--user", "3")[0] == 0
    assert_refused(
        run, Path(), ["whatif", "served", "--user", "3", "--add-item", "5"], "ease computes no embeddings from a graph"
    )


def test_bad_questions_end_in_one_line(run: Run, folder: Path, runs: Path) -> None:
    for words, message in (
        (("recommend", folder), "expected one of --user ID"),
        (("recommend", folder, "--user", "3", "--all"), "expected one of --user ID"),
        (("recommend", folder, "--user", "3", "--users", "x.txt"), "expected one of --user ID"),
        (("recommend", folder, "--all"), "expected --out with a name that ends in .parquet or .csv"),
        (("recommend", folder, "--all", "--out", "x.xlsx"), "x.xlsx: expected a name that ends in .parquet or .csv"),
        (("recommend", folder, "--users", "no.txt", "--out", "x.csv"), "no.txt: no such file"),
        (("recommend", folder, "--users", "x.txt", "--out", "x.csv", "--json"), "--users does not take --json"),
        (("recommend", folder, "--user", "600"), "unknown user '600'"),
        (("recommend", folder, "--user", "3", "--k", "0"), "greater than or equal to 1"),
        (("recommend", runs, "--user", "3"), "no recommender there"),
        (("recommend", folder, "--user", "3", "--out", "x.parquet"), "does not take --out"),
        (("recommend", folder, "--all", "--out", "x.parquet", "--json"), "--all does not take --json"),
        (("recommend", folder, "--all", "--out", "x.parquet", "--diversity", "1"), "--all does not take --diversity"),
        (("similar", folder), "expected --bundle ID or --item ID"),
    ):
        assert_refused(run, Path(), [*words], message)


def test_dam_recommends_and_says_why_it_answers_no_what_if(run: Run, runs: Path) -> None:
    assert run("export", runs / "dam", "--out", "dam")[0] == 0
    assert run("recommend", "dam", "--user", "3")[0] == 0
    for words in (
        ["whatif", "dam", "--user", "3", "--add-item", "5"],
        ["explain", "dam", "--user", "3", "--bundle", "5"],
    ):
        assert_refused(run, Path(), words, "dam computes no embeddings from a graph")
    assert factual_state(load_recommender(runs / "artifact").artifact).graph.users == 601


def test_lists_of_everyone_leave_out_denied_bundles(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sold-out.txt").write_text("5\n7\n")
    out = tmp_path / "lists.csv"
    code, _, err = run("recommend", folder, "--all", "--k", "150", "--deny", tmp_path / "sold-out.txt", "--out", out)
    assert (code, err) == (0, "")
    listed = {line.split(",")[1] for line in out.read_text().splitlines()[1:]}
    assert "6" in listed and not {"5", "7"} & listed
