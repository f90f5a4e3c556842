"""clbr data import and describe on tables that are valid but probably wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from clbr import World, load
from clbr.data.pairs import items_of_bundles
from typed import Run, assert_refused

TABLES = ["--user-bundle", "carts.csv", "--user-item", "bought.csv", "--bundle-item", "contents.csv"]


def write(name: str, header: str, rows: list[tuple[object, ...]]) -> None:
    Path(name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def leaky(run: Run, tiny: World) -> list[str]:
    """Tables of a shop in which user-item holds what came with every bundle; the folder is the current one."""
    dataset = tiny.dataset
    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    came = items_of_bundles(chosen, dataset.bi, len(dataset.bundles))[1]
    write("carts.csv", "user,bundle", chosen.tolist())
    write("bought.csv", "user,item", np.unique(came, axis=0).tolist())
    write("contents.csv", "bundle,item", dataset.bi.tolist())
    return TABLES


def test_import_and_describe_warn_of_a_leak_and_the_option_removes_it(run: Run, leaky: list[str]) -> None:
    code, out, err = run("data", "import", *leaky, "--out", "shop")
    assert (code, err) == (0, "")
    assert "shop, warning: validation and test pairs can be read off user_item: for 100.0% of the" in out
    assert "or hide the items that came with them (clbr data import, --hide-held-out-items)." in out
    assert "were removed" not in out
    _, described, _ = run("data", "describe", "shop", "--plot", "shop.svg")
    assert "shop, warning: validation and test pairs can be read off user_item" in described
    assert Path("shop.svg").read_text().startswith("<?xml")
    found = json.loads(run("data", "describe", "shop", "--json")[1])
    assert [finding["check"] for finding in found["warnings"]] == ["leak"]
    assert found["held_out"]["covered_share"] == 1.0

    code, out, _ = run("data", "import", *leaky, "--out", "hidden", "--hide-held-out-items")
    assert code == 0
    assert "warning" not in out
    removed = len(load("shop").ui) - len(load("hidden").ui)
    assert f"{removed:,} user-item pairs ({removed / len(load('shop').ui):.1%}) came with held-out bundles" in out
    assert removed > 100
    origin = Path("hidden/origin.toml").read_text()
    assert f"hidden = {removed}" in origin and "hide_held_out_items = true" in origin
    assert not json.loads(run("data", "describe", "hidden", "--json")[1])["warnings"]


def test_the_option_says_so_if_there_was_nothing_to_remove(run: Run) -> None:
    write("carts.csv", "user,bundle", [(u, b) for u in range(3) for b in range(4)])
    write("bought.csv", "user,item", [(0, 8), (1, 9)])
    write("contents.csv", "bundle,item", [(b, b) for b in range(4)])
    code, out, _ = run("data", "import", *TABLES, "--out", "shop", "--hide-held-out-items", "--split", "leave-one-out")
    assert code == 0
    assert "0 user-item pairs (0.0%) came with held-out bundles and were removed" in out


def test_imported_tables_can_be_kept_as_parquet(run: Run, leaky: list[str]) -> None:
    for name, options in (("text", ()), ("columns", ("--format", "parquet"))):
        assert run("data", "import", *leaky, "--out", name, "--name", "shop", *options)[0] == 0
    assert list(Path("columns").rglob("*.parquet")) and not list(Path("text").rglob("*.parquet"))
    assert load("columns").fingerprint == load("text").fingerprint


def test_import_warns_of_ids_that_do_not_match_and_of_a_wrong_column(run: Run) -> None:
    write("carts.csv", "user,bundle", [(f"u{u}", b) for u in range(8) for b in range(5)])
    write("bought.csv", "user,item", [(u, u % 5) for u in range(20)])
    write("contents.csv", "bundle,item", [(b, b) for b in range(5)])
    code, out, _ = run("data", "import", *TABLES, "--out", "shop")
    assert code == 0
    assert "user ids hardly overlap: 0 of the 8 in user_bundle are among the 20 in user_item" in out
    assert "user_bundle has 'u0', user_item has '0'" in out
    assert "check the columns (clbr data import, --columns)." in out
    assert "user_item: nearly each row has another user (20 users in 20 pairs)" in out


def test_small_data_is_split_by_leave_one_out_as_the_error_says(run: Run, tmp_path: Path) -> None:
    write("carts.csv", "user,bundle", [("ann", 1), ("ann", 2), ("bob", 2), ("bob", 1), ("cem", 1)])
    write("bought.csv", "user,item", [("ann", 5)])
    write("contents.csv", "bundle,item", [(1, 5), (2, 6)])
    words = ["data", "import", *TABLES, "--out", "shop"]
    for part in ("leave-one-out holds out one pair", "given takes a split of your own", "(--split)"):
        assert_refused(run, tmp_path, words, part)
    assert run(*words, "--split", "leave-one-out")[0] == 0
    dataset = load("shop")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (3, 1, 1)


def test_every_form_of_columns_that_the_help_shows_is_taken(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = " ".join(run("data", "import", "--help")[1].replace("│", " ").split())
    assert "user_item.user=buyer" in text and "user=who,item=sku" in text and "--columns again" in text
    write("carts.csv", "who,cart", [(f"u{u}", f"b{b}") for u in range(3) for b in range(4)])
    write("bought.csv", "buyer,sku", [("u0", "x"), ("u1", "y")])
    write("contents.csv", "cart,sku", [("b0", "x"), ("b1", "y")])
    write("people.csv", "who,full name", [("u0", "Ann &amp;  Bo")])
    columns = ["--columns", "user=who,item=sku", "--columns", "bundle=cart", "--columns", "user_item.user=buyer"]
    names = ["--user-names", "people.csv", "--columns", "user_names.name=full name"]
    code, _, err = run("data", "import", *TABLES, *columns, *names, "--out", "shop")
    assert (code, err) == (0, "")
    assert load("shop").users.names == ("Ann & Bo", None, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"user,bundle", b"\xff\xfeu", b"\x00\x01", b'user,bundle\n"', b"user,bundle\n1,2,3\n", b"PAR1", b"user\n1\n"],
)  # fmt: skip
def test_a_broken_table_is_one_message(run: Run, tmp_path: Path, content: bytes) -> None:
    write("bought.csv", "user,item", [("u0", "x")])
    write("contents.csv", "bundle,item", [("b0", "x")])
    Path("carts.csv").write_bytes(content)
    assert_refused(run, tmp_path, ["data", "import", *TABLES, "--out", "shop"], "error: carts.csv")
