from pathlib import Path

import polars as pl
import pytest

from clbr import BundleDataset, InputError, SplitConfig, import_tables, load, save
from clbr.data.checks import DataWarning
from clbr.data.tables import Imported, read_table

CHOSEN = [("ann", "b1"), ("ann", "b2"), ("ann", "b3"), ("bob", "b1"), ("bob", "b2"), ("bob", "b3"), ("cy", "b1")]
BOUGHT = [("ann", "lamp"), ("dee", "rug")]
CONTENTS = [("b1", "lamp"), ("b2", "rug"), ("b3", "lamp"), ("b3", "vase")]


def write(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Path:
    if path.suffix == ".parquet":
        pl.DataFrame(rows, schema=list(columns), orient="row").write_parquet(path)
    else:
        separator = "," if path.suffix == ".csv" else "\t"
        path.write_text("\n".join(separator.join(map(str, row)) for row in (columns, *rows)) + "\n")
    return path


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    return {
        "user_bundle": write(tmp_path / "chosen.csv", ("user", "bundle"), CHOSEN),
        "user_item": write(tmp_path / "bought.tsv", ("user_id", "item_id"), BOUGHT),
        "bundle_item": write(tmp_path / "contents.parquet", ("Bundle", "Item"), CONTENTS),
    }


def everything(dataset: BundleDataset) -> dict[str, set[tuple[str, str]]]:
    """All pairs under their outside ids."""
    sides = {"ui": (dataset.users, dataset.items), "bi": (dataset.bundles, dataset.items)}
    named = {}
    for part in ("train", "validation", "test", "ui", "bi"):
        left, right = sides.get(part, (dataset.users, dataset.bundles))
        named[part] = {(left.id(a), right.id(b)) for a, b in getattr(dataset, part).tolist()}
    return named


def test_three_tables_of_three_kinds_become_a_dataset(tables: dict[str, Path]) -> None:
    dataset = import_tables(**tables, name="home").dataset
    assert dataset.users.ids == ("ann", "bob", "cy", "dee")
    assert dataset.bundles.ids == ("b1", "b2", "b3")
    assert dataset.items.ids == ("lamp", "rug", "vase")
    named = everything(dataset)
    assert named["train"] | named["validation"] | named["test"] == set(CHOSEN)
    assert (len(named["train"]), len(named["validation"]), len(named["test"])) == (3, 2, 2)
    assert named["ui"] == set(BOUGHT)
    assert named["bi"] == set(CONTENTS)


def test_the_result_is_a_folder_that_loads(tables: dict[str, Path], tmp_path: Path) -> None:
    imported = import_tables(**tables, name="home")
    loaded = load(save(imported.dataset, tmp_path / "home", origin=imported.origin.to_toml()))
    assert everything(loaded) == everything(imported.dataset)
    assert 'user_bundle = "chosen.csv"' in (tmp_path / "home" / "origin.toml").read_text()


def test_repeated_pairs_are_merged_and_counted(tables: dict[str, Path], tmp_path: Path) -> None:
    before = import_tables(**tables).dataset
    tables["user_bundle"] = write(tmp_path / "twice.csv", ("user", "bundle"), [*CHOSEN, CHOSEN[0], CHOSEN[0]])
    imported = import_tables(**tables)
    assert imported.origin.merged == {"user_bundle": 2, "user_item": 0, "bundle_item": 0}
    assert imported.origin.rows["user_bundle"] == 9
    assert everything(imported.dataset) == everything(before)


def test_neither_the_order_of_rows_nor_of_columns_matters(tables: dict[str, Path], tmp_path: Path) -> None:
    before = everything(import_tables(**tables).dataset)
    tables["user_bundle"] = write(tmp_path / "back.csv", ("bundle", "user"), [(b, u) for u, b in reversed(CHOSEN)])
    assert everything(import_tables(**tables).dataset) == before


def test_the_seed_decides_the_random_split(tables: dict[str, Path]) -> None:
    splits = {
        frozenset(everything(import_tables(**tables, split=SplitConfig(seed=seed)).dataset)["test"])
        for seed in range(8)
    }
    assert len(splits) > 1


def test_columns_are_named_for_all_tables_or_for_one(tmp_path: Path, tables: dict[str, Path]) -> None:
    before = everything(import_tables(**tables).dataset)
    tables["user_bundle"] = write(tmp_path / "a.csv", ("customer", "note", "cart"), [(u, "x", b) for u, b in CHOSEN])
    tables["user_item"] = write(tmp_path / "b.csv", ("buyer", "sku"), BOUGHT)
    tables["bundle_item"] = write(tmp_path / "c.csv", ("cart", "sku"), CONTENTS)
    columns = {"user": "customer", "bundle": "cart", "item": "sku", "user_item.user": "buyer"}
    assert everything(import_tables(**tables, columns=columns).dataset) == before


def test_whole_number_ids_are_ordered_as_numbers(tmp_path: Path) -> None:
    ids = ["10", "9", "100", "007"]
    pairs = [(user, bundle) for user in ids for bundle in ids]
    path = write(tmp_path / "a.csv", ("user", "bundle"), pairs)
    items = write(tmp_path / "b.csv", ("user", "item"), pairs)
    contents = write(tmp_path / "c.csv", ("bundle", "item"), pairs)
    assert import_tables(path, items, contents).dataset.users.ids == ("007", "9", "10", "100")


def test_whole_numbers_match_text_across_formats_even_as_floats(tmp_path: Path) -> None:
    pairs = [(user, bundle) for user in range(3) for bundle in range(4)]
    path = write(tmp_path / "a.csv", ("user", "bundle"), pairs)  # type: ignore[arg-type]
    pl.DataFrame({"user": [0.0, 1.0, 2.0], "item": [5, 6, 7]}).write_parquet(tmp_path / "b.parquet")
    contents = write(tmp_path / "c.csv", ("bundle", "item"), [(0, 5), (3, 7)])  # type: ignore[list-item]
    dataset = import_tables(path, tmp_path / "b.parquet", contents).dataset
    assert dataset.users.ids == ("0", "1", "2")
    assert dataset.items.ids == ("5", "6", "7")


def timed(tmp_path: Path, tables: dict[str, Path], times: list[str]) -> Imported:
    rows = [(*pair, time) for pair, time in zip([*CHOSEN, CHOSEN[0]], times, strict=True)]
    tables["user_bundle"] = write(tmp_path / "timed.csv", ("user", "bundle", "time"), rows)
    return import_tables(**tables, split=SplitConfig(method="last"))


@pytest.mark.parametrize(
    "times",
    [
        ["3", "1", "2", "1", "2", "3", "1", "9"],
        [str(1577836800000000000 + t) for t in (3, 1, 2, 1, 2, 3, 1, 9)],
        ["1.5", "0.5", "1.0", "0.1", "0.2", "0.3", "1", "9"],
        ["2024-03-01", "2024-01-01", "2024-02-01", "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-01", "2025-01-01"],
        ["2024-01-01 12:00:03", *["2024-01-01 12:00:01", "2024-01-01 12:00:02"], *["2024-01-01 12:00:01"] * 1,
         "2024-01-01 12:00:02", "2024-01-01 12:00:03", "2024-01-01 12:00:01", "2024-01-01 12:00:09"],
    ],
)  # fmt: skip
def test_the_last_pair_by_time_is_for_test_and_the_first_time_of_a_repeated_pair_counts(
    tmp_path: Path, tables: dict[str, Path], times: list[str]
) -> None:
    named = everything(timed(tmp_path, tables, times).dataset)
    assert named["test"] == {("ann", "b1"), ("bob", "b3")}
    assert named["validation"] == {("ann", "b3"), ("bob", "b2")}


def test_a_given_split_is_used(tmp_path: Path, tables: dict[str, Path]) -> None:
    labels = ["train", "validation", "test", "train", "validation", "test", "train"]
    rows = [(*pair, label) for pair, label in zip(CHOSEN, labels, strict=True)]
    tables["user_bundle"] = write(tmp_path / "given.csv", ("user", "bundle", "split"), rows)
    named = everything(import_tables(**tables, split=SplitConfig(method="given")).dataset)
    assert named["test"] == {("ann", "b3"), ("bob", "b3")}
    assert named["validation"] == {("ann", "b2"), ("bob", "b2")}


def test_nodes_without_a_name_have_none_and_names_without_a_node_are_counted(
    tmp_path: Path, tables: dict[str, Path]
) -> None:
    names = write(tmp_path / "names.csv", ("item", "name"), [("vase", "Blue vase"), ("sofa", "Sofa")])
    imported = import_tables(**tables, item_names=names)
    assert imported.dataset.items.names == (None, None, "Blue vase")
    assert imported.unmatched_names == 1


def test_an_id_with_two_names_keeps_the_first_and_gives_a_warning(tmp_path: Path, tables: dict[str, Path]) -> None:
    rows = [
        ("vase", "Blue vase"),
        ("lamp", "Lamp"),
        ("vase", "Red vase"),
        ("vase", ""),
        ("lamp", " Lamp "),
        ("rug", "Rug"),
    ]
    names = write(tmp_path / "names.csv", ("item", "name"), rows)
    with pytest.warns(DataWarning, match="names.csv: 1 item has more than one name") as found:
        imported = import_tables(**tables, item_names=names)
    (message,) = [str(one.message) for one in found if "name" in str(one.message)]
    assert "item 'vase' is 'Blue vase' and 'Red vase'. The first one is kept." in message
    assert [one.message for one in imported.description.warnings if one.check == "names"] == [message]
    assert imported.dataset.items.names == ("Lamp", "Rug", "Blue vase")


def test_users_have_names_too_and_the_id_column_may_be_called_id(tmp_path: Path, tables: dict[str, Path]) -> None:
    names = write(tmp_path / "names.csv", ("id", "name"), [("bob", "Bob"), ("ann", "Ann")])
    assert import_tables(**tables, user_names=names).dataset.users.names == ("Ann", "Bob", None, None)


def test_names_of_which_none_matches_are_an_error(tmp_path: Path, tables: dict[str, Path]) -> None:
    names = write(tmp_path / "names.csv", ("item", "name"), [("17", "Blue vase")])
    with pytest.raises(
        InputError, match=r"names.csv: none of its ids is in the relations: it has item '17', they have 'lamp'"
    ):
        import_tables(**tables, item_names=names)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("x.csv", b"user,bundle\nann,\n", r"x.csv, line 2: bundle id '' is empty"),
        ("x.csv", b"user,bundle\n1,2\n-3,2\n", "line 3: user id '-3' is negative"),
        ("x.csv", b"user,bundle\n1,2\n1.5,2\n", "line 3: user id '1.5' is not a whole number"),
        ("x.csv", b"user\nann\n", "no column 'bundle'; its first line names 'user'"),
        ("x.csv", b"ann,b1\nbob,b2\n", "no column 'user'; its first line names 'ann', 'b1'. Give the table a header"),
        ("x.csv", b"user:bundle\nann:b1\n", "no column 'user'; its first line names 'user:bundle'"),
        ("x.csv", b'user,bundle\n"ann,b1\nbob,b2\n', "x.csv, line 4: 1 columns, but the header has 2"),
        ("x.csv", b'user,bundle\nann,b1\n"b"ob,b2\n', "x.csv, line 3: cannot be read for its quotes"),
        ("x.csv", b"\n\nuser,bundle\n\nann,b1\n,\nbob,\n", "x.csv, line 7: bundle id '' is empty"),
        ("x.csv", b"user,bundle\nann,b1,b2\n", "x.csv, line 2: 3 columns, but the header has 2"),
        ("x.csv", b"user,bundle\nann,b1\nb\xff,b2\n", "x.csv, line 3: bytes that are not UTF-8 text"),
        ("x.csv", b"user,bundle\n", "x.csv: has no rows, expected at least one"),
        ("x.csv", b"", "x.csv"),
        ("x.parquet", b"PAR1 and then nothing", "not a complete Parquet file"),
        ("x.xlsx", b"PK", "expected a file that ends in .csv, .tsv, .txt, .parquet, .pq"),
    ],
)
def test_a_bad_table_is_named_with_line_value_and_what_to_do(
    tmp_path: Path, tables: dict[str, Path], file: str, content: bytes, message: str
) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        import_tables(**(tables | {"user_bundle": tmp_path / file}))


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " ", "   "])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_the_header_decides_the_separator(tmp_path: Path, tables: dict[str, Path], separator: str, suffix: str) -> None:
    before = everything(import_tables(**tables).dataset)
    rows = [("user", "bundle"), *CHOSEN]
    path = tmp_path / f"other{suffix}"
    path.write_text("".join(f"{separator.join(row)}{' ' * (n % 2)}\n" for n, row in enumerate(rows)))
    assert everything(import_tables(**(tables | {"user_bundle": path})).dataset) == before


def test_a_separator_in_quotes_or_beside_the_usual_one_does_not_decide(tmp_path: Path, tables: dict[str, Path]) -> None:
    for header in ('"a;b;c",user,bundle', "a;b;c,user,bundle", "note of a user;user;bundle"):
        separator = ";" if header.startswith("note") else ","
        rows = [header, *(f"x y{separator}{u}{separator}{b}" for u, b in CHOSEN)]
        (tmp_path / "x.csv").write_text("\n".join(rows))
        assert import_tables(**(tables | {"user_bundle": tmp_path / "x.csv"})).dataset.users.ids == (
            "ann",
            "bob",
            "cy",
            "dee",
        )


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_spaces_blank_lines_line_ends_and_a_byte_order_mark_have_no_effect(
    tmp_path: Path, tables: dict[str, Path], line_end: str
) -> None:
    before = everything(import_tables(**tables).dataset)
    rows = ["", " user , bundle", "", *(f"{u} ,  {b}{line_end}" for u, b in CHOSEN), "", ""]
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbf" + line_end.join(rows).encode())
    tables["user_bundle"] = tmp_path / "x.csv"
    assert everything(import_tables(**tables, columns={"user_bundle.user": "user"}).dataset) == before


def test_names_are_cleaned(tmp_path: Path, tables: dict[str, Path]) -> None:
    text = 'item|name\nlamp|  Lamp &amp;\t shade \nrug|&nbsp;\nvase|5" vase, &quot;blue&#39;s&quot;\n'
    (tmp_path / "names.csv").write_text(text)
    dataset = import_tables(**tables, item_names=tmp_path / "names.csv").dataset
    assert dataset.items.names == ("Lamp & shade", None, '5" vase, "blue\'s"')


def test_sets_too_small_for_shares_are_split_by_leave_one_out_or_given(tmp_path: Path, tables: dict[str, Path]) -> None:
    rows = [("ann", "b1"), ("ann", "b2"), ("bob", "b1"), ("bob", "b3"), ("cy", "b2")]
    tables["user_bundle"] = write(tmp_path / "few.csv", ("user", "bundle"), rows)
    with pytest.raises(InputError, match=r"no user has three pairs or more. For small data: leave-one-out .*; given"):
        import_tables(**tables)
    named = everything(import_tables(**tables, split=SplitConfig(method="leave-one-out")).dataset)
    ((tester, _),), ((validator, _),) = named["test"], named["validation"]
    assert (tester, validator) == ("ann", "bob")
    tables["user_bundle"] = write(tmp_path / "fewer.csv", ("user", "bundle"), rows[:3])
    with pytest.raises(InputError, match=r"leaves validation empty; one user has two pairs. For small data: .*; given"):
        import_tables(**tables, split=SplitConfig(method="leave-one-out"))
    labelled = [
        (*row, label) for row, label in zip(rows, ["train", "test", "train", "validation", "train"], strict=True)
    ]
    tables["user_bundle"] = write(tmp_path / "own.csv", ("user", "bundle", "split"), labelled)
    assert everything(import_tables(**tables, split=SplitConfig(method="given")).dataset)["test"] == {("ann", "b2")}


def test_a_table_can_be_a_folder_of_parquet_files_with_any_name(tmp_path: Path, tables: dict[str, Path]) -> None:
    expected = everything(import_tables(**tables).dataset)
    frame, folder = pl.read_parquet(tables["bundle_item"]), tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(InputError, match="parts: is a folder without Parquet files"):
        import_tables(**tables | {"bundle_item": folder})
    frame[:1].write_parquet(folder / "a.parquet")
    frame[1:].write_parquet(folder / "b.parquet")
    assert everything(import_tables(**tables | {"bundle_item": folder}).dataset) == expected


def test_columns_of_parquet_files_that_have_no_role_are_not_read(tmp_path: Path, tables: dict[str, Path]) -> None:
    before = everything(import_tables(**tables).dataset)
    frame = pl.read_parquet(tables["bundle_item"])
    wide = frame.rename({"Item": " part"}).with_columns(price=pl.lit(7.5), Time=pl.lit(3))
    wide.write_parquet(tables["bundle_item"])
    columns = {"bundle_item.item": "part"}
    assert everything(import_tables(**tables, columns=columns).dataset) == before
    table = read_table("bundle_item", tables["bundle_item"], columns)
    kinds = dict(zip(table.frame.columns, table.frame.to_native().dtypes, strict=True))
    assert kinds["price"] == pl.Null and kinds["Time"] == pl.Int32
    with pytest.raises(InputError, match="its columns are 'Bundle', ' part', 'price', 'Time'"):
        import_tables(**tables)


def test_parquet_files_of_a_folder_with_other_columns_are_an_error(tmp_path: Path, tables: dict[str, Path]) -> None:
    folder = tmp_path / "chosen.parquet"
    folder.mkdir()
    pl.DataFrame({"user": ["ann"], "bundle": ["b1"]}).write_parquet(folder / "a.parquet")
    pl.DataFrame({"user": ["bob"], "bundle": [7]}).write_parquet(folder / "b.parquet")
    message = "b.parquet: has the columns user String, bundle Int64, and a.parquet has user String, bundle String"
    with pytest.raises(InputError, match=message):
        import_tables(**tables | {"user_bundle": folder})


def test_a_truncated_parquet_file_is_an_error(tmp_path: Path, tables: dict[str, Path]) -> None:
    whole = tables["bundle_item"].read_bytes()
    for cut in (4, len(whole) // 2, len(whole) - 1):
        tables["bundle_item"].write_bytes(whole[:cut])
        with pytest.raises(InputError, match="contents.parquet: not a complete Parquet file"):
            import_tables(**tables)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"user": [1.5], "bundle": ["b"]}), r"row 1: user id '1.5' is not a whole number"),
        (pl.DataFrame({"user": [3, -1], "bundle": ["b", "c"]}), r"row 2: user id '-1' is negative"),
        (pl.DataFrame({"user": [None, 2], "bundle": ["b", "c"]}), r"row 1: user id '' is empty"),
        (
            pl.DataFrame({"user": [float("nan"), 0.5], "bundle": ["b", "c"]}),
            r"row 1: user id 'nan' is not a whole number",
        ),
        (pl.DataFrame({"user": [1.0, float("inf")], "bundle": ["b", "c"]}), r"row 2: user id 'inf' is not a whole"),
        (pl.DataFrame({"user": [1.0, None], "bundle": ["b", "c"]}), r"row 2: user id '' is empty"),
        (pl.DataFrame({"user": [True], "bundle": ["b"]}), "column 'user' is Boolean, expected text or whole numbers"),
    ],
)
def test_a_bad_parquet_column_is_named(
    tmp_path: Path, tables: dict[str, Path], frame: pl.DataFrame, message: str
) -> None:
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=message):
        import_tables(**(tables | {"user_bundle": tmp_path / "x.parquet"}))


@pytest.mark.parametrize(
    ("column", "values", "method"),
    [("time", [[1], [2]], "last"), ("time", [True, False], "last"), ("time", [1.0, float("nan")], "last"),
     ("time", [1, None], "last"), ("split", [["a"], ["b"]], "given"), ("split", [1, 2], "given")],
)  # fmt: skip
def test_a_parquet_column_of_times_or_splits_of_another_kind_is_an_error(
    tmp_path: Path, tables: dict[str, Path], column: str, values: list[object], method: str
) -> None:
    pl.DataFrame({"user": ["a", "b"], "bundle": ["x", "y"], column: values}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"x.parquet.*{column}"):
        import_tables(**(tables | {"user_bundle": tmp_path / "x.parquet"}), split=SplitConfig.make({"method": method}))


def test_a_utf16_file_is_an_error_that_says_so(tmp_path: Path, tables: dict[str, Path]) -> None:
    (tmp_path / "x.csv").write_text("user,bundle\na,b\n", encoding="utf-16")
    with pytest.raises(InputError, match="UTF-16 text, expected UTF-8"):
        import_tables(**(tables | {"user_bundle": tmp_path / "x.csv"}))


def test_a_column_of_the_exact_name_is_preferred_to_a_similar_one(tmp_path: Path, tables: dict[str, Path]) -> None:
    rows = [("?", u, b) for u, b in CHOSEN]
    tables["user_bundle"] = write(tmp_path / "both.CSV".replace("CSV", "csv"), ("user_id", "user", "bundle"), rows)
    assert import_tables(**tables).dataset.users.ids == ("ann", "bob", "cy", "dee")


def test_bad_times_splits_and_column_roles_are_named(tmp_path: Path, tables: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="time 'soon' is not a number, a date or a date with a time"):
        timed(tmp_path, tables, ["1", "2", "soon", *"12345"])
    with pytest.raises(InputError, match="no column 'split'"):
        import_tables(**tables, split=SplitConfig(method="given"))
    rows = [(*pair, "tune") for pair in CHOSEN]
    path = write(tmp_path / "given.csv", ("user", "bundle", "split"), rows)
    with pytest.raises(InputError, match=r"given.csv, line 2: split 'tune', expected train, validation, test"):
        import_tables(**(tables | {"user_bundle": path}), split=SplitConfig(method="given"))
    with pytest.raises(InputError, match=r"columns: unknown key 'usr', did you mean 'user'\?"):
        import_tables(**tables, columns={"usr": "x"})


def test_a_pair_given_to_two_splits_and_a_split_without_test_are_an_error(
    tmp_path: Path, tables: dict[str, Path]
) -> None:
    rows = [(*pair, split) for pair in CHOSEN for split in ("train", "test")]
    path = write(tmp_path / "given.csv", ("user", "bundle", "split"), rows)
    with pytest.raises(
        InputError,
        match=r"given.csv, line 3: user 'ann' and bundle 'b1' are a pair of test, but of train in .*given.csv, line 2 \(7 such\)",
    ):
        import_tables(**(tables | {"user_bundle": path}), split=SplitConfig(method="given"))
    path = write(tmp_path / "few.csv", ("user", "bundle"), CHOSEN[:2])
    with pytest.raises(InputError, match="few.csv: the split leaves validation empty; no user has three pairs or more"):
        import_tables(**(tables | {"user_bundle": path}))
