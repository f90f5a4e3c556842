import numpy as np
import pytest

from clbr import BundleDataset, InputError, Nodes
from clbr.errors import UnknownIdError
from conftest import make_dataset


def test_its_repr_states_its_sizes(small: BundleDataset) -> None:
    assert repr(small) == (
        "BundleDataset(small: 3 users, 4 bundles, 5 items; train 5, validation 2, test 3, ui 4, bi 6)"
    )


def test_pairs_are_sorted() -> None:
    shuffled = make_dataset(train=np.array([[2, 2], [0, 1], [2, 1], [0, 0], [1, 1]]))
    assert shuffled.train.tolist() == make_dataset().train.tolist()


def test_it_cannot_be_changed(small: BundleDataset) -> None:
    with pytest.raises(ValueError, match="read-only"):
        small.train[0, 0] = 1
    with pytest.raises(AttributeError):
        small.train = small.test  # type: ignore[misc]
    with pytest.raises(TypeError):
        small.merged["ui"] = 3  # type: ignore[index]


def test_it_keeps_its_own_copy() -> None:
    mine = np.array([[0, 0]])
    dataset = make_dataset(train=mine)
    mine[0, 0] = 2
    assert dataset.train.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": [[0, 4]]}, "train: row 0 has bundle 4, expected 0 to 3"),
        ({"train": [[0, 0], [-1, 0]]}, "train: row 1 has user -1, expected 0 to 2"),
        ({"ui": [[0, 5]]}, "ui: row 0 has item 5, expected 0 to 4"),
        ({"bi": [[4, 0]]}, "bi: row 0 has bundle 4, expected 0 to 3"),
        ({"bi": [[1, 3], [0, 0], [1, 3]]}, "bi: bundle 1 and item 3 are a pair twice"),
        ({"validation": [[0, 1]]}, r"user 0 and bundle 1 are a pair in train and in validation \(1 such\)"),
        ({"validation": [[0, 3], [1, 3]]}, r"user 0 and bundle 3 are a pair in validation and in test \(2 such\)"),
        ({"train": []}, "no user-bundle pair to train on"),
        ({"train": [[0.5, 1.0]]}, r"train: expected an \(n, 2\) array of whole numbers, got float64"),
        ({"train": [[0, 1, 2]]}, r"train: expected an \(n, 2\) array"),
    ],
)
def test_a_wrong_one_cannot_be_built(change: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_dataset(**{part: np.array(pairs) for part, pairs in change.items()})


def test_nodes_have_ids_and_names() -> None:
    nodes = Nodes("bundle", 3, ("x", "y", "z"), ("Ex", None, "Zed"))
    assert [nodes.label(i) for i in range(3)] == ["Ex", "y", "Zed"]
    assert nodes.index("z") == 2
    assert Nodes("item", 3).id(2) == "2"
    assert Nodes("item", 3).index("2") == 2


def test_a_whole_number_is_looked_up_as_its_text() -> None:
    nodes = Nodes("bundle", 3, ("7", "17", "x"))
    assert (nodes.index(17), nodes.find(7), nodes.find(8)) == (1, 0, None)
    assert (Nodes("item", 3).index(2), Nodes("item", 3).find(3), Nodes("item", 3).find(-1)) == (2, None, None)
    with pytest.raises(UnknownIdError, match="unknown bundle '170', did you mean '17'") as caught:
        nodes.index(170)
    assert (caught.value.kind, caught.value.id) == ("bundle", "170")


def test_ids_are_given_back_in_the_users_own_type() -> None:
    assert Nodes("user", 3, ("7", "17", "x")).values(np.array([2, 0])) == ["x", "7"]
    assert Nodes("user", 2, ("7", "17"), integer_ids=True).values([1, 0, 1]) == [17, 7, 17]
    indices = Nodes("user", 9).values(np.array([3, 8]))
    assert indices == [3, 8]
    assert all(type(index) is int for index in indices)
    large = Nodes("user", 2, ("7", str(2**63)), integer_ids=True)
    assert large.values([1, 0]) == [2**63, 7]


def test_a_name_is_accepted_where_it_is_the_only_one_and_an_id_wins() -> None:
    nodes = Nodes("bundle", 5, ("x", "y", "z", "17", "w"), ("Ex", None, "x", "Tea time", " Jam "))
    assert [nodes.index(one) for one in ("Ex", "x", "Tea time", "  Tea time ", "Jam", 17)] == [0, 0, 3, 3, 4, 3]
    assert nodes.find("tea time") is None  # upper and lower case differ
    assert Nodes("item", 2, None, ("1", "Leek")).index("1") == 1
    assert [Nodes("item", 2, None, ("1", "Leek")).index(one) for one in ("0", "Leek")] == [0, 1]


def test_a_name_of_several_nodes_is_an_error_that_lists_their_ids() -> None:
    nodes = Nodes("item", 8, tuple("abcdefgh"), (*["Tea"] * 7, "Jam"))
    with pytest.raises(
        InputError, match=r"^7 items have the name 'Tea': give the id of one \(a, b, c, d, e and 2 more\)$"
    ):
        nodes.index("Tea")
    assert nodes.index("Jam") == 7


def test_names_are_not_read_unless_an_id_is_unknown() -> None:
    nodes = Nodes("item", 2, ("a", "b"), ("Tea", "Jam"))
    nodes.index("a")
    assert "_named" not in vars(nodes)
    nodes.index("Tea")
    assert "_named" in vars(nodes)


@pytest.mark.parametrize(
    ("nodes", "unknown", "message"),
    [
        (Nodes("bundle", 2, ("jazz-1", "rock-1")), "jaz-1", "unknown bundle 'jaz-1', did you mean 'jazz-1'"),
        (Nodes("item", 3000, tuple(f"sku{i}" for i in range(3000))), "sku2999x", "did you mean 'sku2999' or 'sku"),
        (Nodes("item", 2, ("tea", "jam")), "?", "unknown item '\\?', for instance 'tea' is one"),
        (Nodes("user", 3), "3", "unknown user '3': expected a number from 0 to 2"),
        (Nodes("user", 3), "-1", "unknown user '-1'"),
        (Nodes("item", 2, ("a1", "b2"), ("Black tea", "Jam")), "Blak tea", "'Blak tea', did you mean 'Black tea'\\?"),
        (Nodes("item", 2, None, ("Black tea", "Jam")), "Blak tea", "from 0 to 1, or a name; did you mean 'Black tea'"),
        (
            Nodes("item", 3000, None, (*(f"Jam {i}" for i in range(2999)), "Tea time")),
            "tea time",
            "or a name; did you mean 'Tea time'",
        ),
    ],
)
def test_an_unknown_id_is_an_error_with_a_hint(nodes: Nodes, unknown: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        nodes.index(unknown)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Nodes("user", 0),
        lambda: Nodes("user", 10**9),
        lambda: Nodes("user", 2, ("a",)),
        lambda: Nodes("user", 2, ("a", "a")),
        lambda: Nodes("user", 2, None, ("a", "b", "c")),
        lambda: Nodes("user", 2, ("7", "x"), integer_ids=True),
    ],
)
def test_wrong_nodes_cannot_be_built(wrong: object) -> None:
    with pytest.raises(InputError):
        wrong()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "[bold]", "$x$", "a\nb", ".hidden", "x" * 101, "nul\0"])
def test_a_name_that_could_be_a_path_or_markup_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="expected a letter or digit"):
        make_dataset(name=name)
    assert make_dataset(name="Bücher 2 (neu)").name == "Bücher 2 (neu)"


def test_popularity_counts_training_users_only(small: BundleDataset) -> None:
    assert small.popularity.tolist() == [1, 3, 1, 0]
