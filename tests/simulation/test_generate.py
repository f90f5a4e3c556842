from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import BundleDataset, EdgeEdits, InputError, World, describe, simulate
from clbr.data.describe import COUNTS
from clbr.data.pairs import contains, encode
from clbr.data.sources import PUBLISHED
from clbr.simulation import choices
from clbr.simulation import nodes as nodes_module
from clbr.simulation.choices import _best, _candidates
from clbr.simulation.parameters import LEVELS, VARIANTS, WORLDS


def test_the_same_seed_gives_the_same_world_and_another_seed_another(tiny: World) -> None:
    again, other = simulate("tiny"), simulate("tiny", seed=1)
    assert again.dataset.train.tolist() == tiny.dataset.train.tolist()
    assert (again.tastes == tiny.tastes).all()
    assert other.dataset.train.tolist() != tiny.dataset.train.tolist()


CHECKSUMS = {"youshu": "4d94dc1e03209612", "netease": "0e966acbba803939", "tiny": "310931e6f64cb5be"}


@pytest.mark.parametrize("like", list(WORLDS))
def test_the_fixed_parameters_have_not_changed(like: str) -> None:
    """Results on a world are comparable only if its parameters stay the same."""
    assert sha256(WORLDS[like].to_toml().encode()).hexdigest().startswith(CHECKSUMS[like])
    assert VARIANTS == {"plain": {}, "sparser": {"density": 0.5}, "denser": {"density": 2.0}, "noisier": {"noise": 2.0}}


@pytest.mark.parametrize(
    ("like", "scale", "seed", "fingerprint"),
    [
        ("tiny", 1.0, 1, "ecd8b6d36f790a77a7de0db91dd2e833d91833a7064224f02eb7a043a6132a2d"),
        ("youshu", 0.25, 0, "1b18b9860003d9dd85a91e52761d187a7a0521cd6db877c6150143ac3bd8f7e5"),
        ("netease", 0.1, 3, "aafc8a7ca8f40e07b97e22d713129ab703351a2a0df8a522dd379168c7c3034a"),
    ],
)
def test_simulated_data_are_bit_identical_to_those_of_earlier_versions(
    like: str, scale: float, seed: int, fingerprint: str
) -> None:
    assert simulate(like, scale=scale, seed=seed).dataset.fingerprint == fingerprint


def test_the_tiny_world_has_not_changed(tiny: World) -> None:
    assert (len(tiny.dataset.train), len(tiny.dataset.validation), len(tiny.dataset.test)) == (2_915, 515, 770)
    assert tiny.dataset.bi[:4, 1].tolist() == [39, 66, 68, 82]
    assert (tiny.dataset.bundles.label(0), tiny.dataset.items.label(0)) == ("Nursery starter kit", "trowel")


@pytest.fixture(scope="module")
def youshu_like() -> World:
    return simulate("youshu")


def test_sizes_and_edge_counts_are_within_five_percent_of_the_published_ones(youshu_like: World) -> None:
    found, published = describe(youshu_like.dataset), PUBLISHED["Youshu"]
    for what in COUNTS:
        assert found.count(what) == pytest.approx(getattr(published, what), rel=0.05), what


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_a_scaled_world_has_scaled_sizes_and_edges(scale: float) -> None:
    found, published = describe(simulate("youshu", scale=scale).dataset), PUBLISHED["Youshu"]
    for what in COUNTS:
        assert found.count(what) == pytest.approx(scale * getattr(published, what), rel=0.05), what


SIDES = [("ub", "users", "bundles"), ("ui", "users", "items"), ("bi", "bundles", "items")]


@pytest.mark.parametrize(("relation", "left", "right"), SIDES)
def test_degree_distributions_follow_those_of_the_real_data(
    youshu_like: World, real: Callable[[str], BundleDataset], relation: str, left: str, right: str
) -> None:
    """Side by side: the share of nodes without an edge, and every quantile up to the 95th, within a third or two."""
    for side, nodes in enumerate((left, right)):
        simulated, measured = (_degrees(d, relation, side, nodes) for d in (youshu_like.dataset, real("Youshu")))
        assert (simulated == 0).mean() == pytest.approx((measured == 0).mean(), abs=0.01)
        levels = [level for level in LEVELS if level <= 0.95]
        ours, theirs = (np.quantile(d[d > 0], levels) for d in (simulated, measured))
        np.testing.assert_allclose(ours, theirs, rtol=1 / 3, atol=2, err_msg=f"{relation} {nodes}")
        # The few largest are matched in size, not exactly.
        assert simulated.max() == pytest.approx(measured.max(), rel=0.35)


def _degrees(dataset: BundleDataset, relation: str, side: int, nodes: str) -> np.ndarray:
    pairs = (
        np.concatenate([dataset.train, dataset.validation, dataset.test])
        if relation == "ub"
        else getattr(dataset, relation)
    )
    return np.bincount(pairs[:, side], minlength=len(getattr(dataset, nodes)))


def test_a_variant_changes_its_own_parameter_only() -> None:
    plain, sparse, dense, noisy = (
        simulate("youshu", scale=0.2, variant=v) for v in ("plain", "sparser", "denser", "noisier")
    )
    edges = [describe(world.dataset).count("user_bundle") for world in (plain, sparse, dense, noisy)]
    assert edges[1] == pytest.approx(edges[0] / 2, rel=0.05)
    assert edges[2] == pytest.approx(edges[0] * 2, rel=0.05)
    assert edges[3] == edges[0]
    assert sparse.dataset.bi.tolist() == plain.dataset.bi.tolist()
    assert noisy.config.noise == 2 * plain.config.noise


def test_users_choose_what_they_prefer_among_what_they_are_shown(tiny: World) -> None:
    """Edges have a higher true preference, and a higher exposure, than pairs drawn at random."""
    rng = np.random.default_rng(0)
    for relation, left, right in SIDES:
        edges = tiny.dataset.train if relation == "ub" else getattr(tiny.dataset, relation)
        sizes = [len(getattr(tiny.dataset, nodes)) for nodes in (left, right)]
        others = np.stack([rng.choice(edges[:, 0], 4000), rng.integers(sizes[1], size=4000)], axis=1)
        others = others[~contains(encode(edges, sizes[1]), encode(others, sizes[1]))]
        for truth in (tiny.preference, tiny.exposure):
            chosen, rest = truth(relation, edges), truth(relation, others)  # type: ignore[arg-type, operator]
            assert np.quantile(chosen, 0.5) > np.quantile(rest, 0.6), (relation, truth)


@pytest.mark.parametrize("relation", ["ub", "ui", "bi"])
def test_exposure_is_how_often_things_are_shown(tiny: World, relation: str) -> None:
    """Compared with candidates that are drawn two hundred times, without guaranteed pairs."""
    shown = tiny.shown[relation]  # type: ignore[index]
    rows, width = np.arange(20), len(shown.popularity)
    rng, nothing = np.random.default_rng(0), np.empty(0, np.int64)
    seen = np.zeros(20 * width)
    for _ in range(200):
        codes = _candidates(rng, shown, rows, nothing)
        seen[codes] += 1 / 200
    pairs = np.stack(np.divmod(np.arange(20 * width), width), axis=1)
    np.testing.assert_allclose(shown.per_draw(pairs).reshape(20, width).sum(axis=1), 1.0, rtol=1e-9)
    stated = tiny.exposure(relation, pairs)  # type: ignore[arg-type]
    assert np.abs(seen - stated).max() < 0.2
    assert seen.mean() == pytest.approx(stated.mean(), rel=0.02)


def test_the_noise_of_pairs_is_scaled_by_the_worlds_noise() -> None:
    quiet, loud = (simulate("tiny", variant=variant) for variant in ("plain", "noisier"))
    pair = (np.arange(50), np.arange(50))
    np.testing.assert_allclose(loud.pair_noise("ub", *pair), 2 * quiet.pair_noise("ub", *pair), rtol=1e-5)


def test_no_more_candidates_are_in_a_block_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(*arguments: object) -> np.ndarray:
        codes = _candidates(*arguments)  # type: ignore[arg-type]
        sizes.append(len(codes))
        return codes

    monkeypatch.setattr(choices, "_candidates", counting)
    monkeypatch.setattr(choices, "BLOCK", 5_000)
    simulate("tiny")
    assert max(sizes) < 7_000  # a block may exceed it by one user's draws and guaranteed pairs
    assert len(sizes) > 20


def test_worlds_do_not_depend_on_how_many_vectors_are_computed_at_once(
    tiny: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "ROWS", 7)
    monkeypatch.setattr(choices, "GATHERED", 100)
    again = simulate("tiny")
    assert (again.items == tiny.items).all()
    assert again.dataset.fingerprint == tiny.dataset.fingerprint


def test_rows_with_too_few_candidates_are_shown_all_in_groups_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users want more items than the four that are drawn: they choose from all, and no array exceeds a block."""
    config = WORLDS["tiny"]
    sizes: list[int] = []

    def counting(lefts: np.ndarray, utility: np.ndarray, picks: np.ndarray) -> np.ndarray:
        sizes.append(len(lefts))
        return _best(lefts, utility, picks)

    monkeypatch.setattr(choices, "_best", counting)
    monkeypatch.setattr(choices, "BLOCK", 2_000)
    world_nodes = nodes_module.draw_nodes(config, 0)
    shown = world_nodes.shown["ui"]
    world_nodes.shown["ui"] = replace(shown, draws=np.minimum(shown.draws, 4))
    ui = np.concatenate([pairs for part, pairs in choices.chosen_pairs(config, 0, world_nodes) if part == "ui"])
    assert np.bincount(ui[:, 0], minlength=600).tolist() == world_nodes.picks["ui"].tolist()
    assert max(sizes) < 3_000
    assert any(size % 240 == 0 and size > 0 for size in sizes)  # groups of rows with all 240 items


def test_the_best_of_each_left_node_are_taken_and_of_equal_ones_the_first() -> None:
    lefts = np.array([0, 0, 0, 2, 2, 2, 2, 5], np.int32)
    utility = np.array([1.0, np.inf, -3.0, 0.5, -0.0, 0.0, 0.5, -7.0], np.float32)
    picks = np.array([2, 0, 3, 0, 0, 4])
    assert _best(lefts, utility, picks).tolist() == [True, True, False, True, True, False, True, True]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), max_size=40), st.integers(0, 9))
def test_the_best_are_those_of_a_sort_of_all(drawn: list[tuple[int, int]], seed: int) -> None:
    lefts = np.array(sorted(left for left, _ in drawn), np.int32)
    utility = np.array([value / 2 for _, value in drawn], np.float32)
    picks = np.random.default_rng(seed).integers(1, 6, 5)
    expected = []
    for left in set(lefts.tolist()):
        mine = [at for at in range(len(lefts)) if lefts[at] == left]
        expected += sorted(mine, key=lambda at: -utility[at])[: picks[left]]
    assert np.flatnonzero(_best(lefts, utility, picks)).tolist() == sorted(expected)


@pytest.mark.parametrize("relation", ["ui", "bi"])
def test_choices_follow_edits_of_history_and_of_contents(tiny: World, relation: str) -> None:
    """After an edit the choices are the best by the edited preference and the same noise."""
    user = int(tiny.dataset.ui[0, 0])
    if relation == "ui":
        edits = EdgeEdits(drop={"ui": tiny.dataset.ui[tiny.dataset.ui[:, 0] == user]})
    else:
        edits = EdgeEdits(drop={"bi": tiny.dataset.bi[::2]})
    pairs = np.stack([np.full(150, user), np.arange(150)], axis=1)
    utility = tiny.preference("ub", pairs, edits) + tiny.pair_noise("ub", np.array([user]), np.arange(150))
    everything = np.concatenate([tiny.dataset.train, tiny.dataset.validation, tiny.dataset.test])
    has = set(everything[everything[:, 0] == user, 1].tolist())
    expected = [bundle for bundle in np.argsort(-utility).tolist() if bundle not in has]
    chosen = tiny.choices([user], 150, edits)[0]
    assert chosen[: len(expected)].tolist() == expected
    assert chosen.tolist() != tiny.choices([user], 150)[0].tolist()


def test_a_users_next_choices_are_the_best_that_she_does_not_have(tiny: World) -> None:
    user, bundles = 7, np.arange(150)
    pairs = np.stack([np.full(150, user), bundles], axis=1)
    utility = tiny.preference("ub", pairs) + tiny.pair_noise("ub", np.array([user]), bundles)
    everything = np.concatenate([tiny.dataset.train, tiny.dataset.validation, tiny.dataset.test])
    has = set(everything[everything[:, 0] == user, 1].tolist())
    expected = [bundle for bundle in np.argsort(-utility).tolist() if bundle not in has][:10]
    assert tiny.choices(np.array([3, user]), 10)[1].tolist() == expected


def test_an_edit_of_contents_changes_the_preference_for_that_bundle_only(tiny: World) -> None:
    bundle = int(tiny.dataset.bi[0, 0])
    dropped = tiny.dataset.bi[tiny.dataset.bi[:, 0] == bundle][:2]
    edits = EdgeEdits(drop={"bi": dropped})
    pairs = np.stack([np.full(150, 7), np.arange(150)], axis=1)
    moved = np.flatnonzero(tiny.preference("ub", pairs, edits) != tiny.preference("ub", pairs))
    assert moved.tolist() == [bundle]


def test_an_edit_of_history_pulls_a_users_taste_towards_the_item(tiny: World) -> None:
    """Bundles close to an added item gain preference for this user, and for no other."""
    user = int(tiny.dataset.ui[0, 0])
    mine = tiny.dataset.ui[tiny.dataset.ui[:, 0] == user, 1]
    item = next(i for i in range(240) if i not in mine)
    edits = EdgeEdits(add={"ui": np.array([[user, item]])})
    pairs = np.stack([np.full(150, user), np.arange(150)], axis=1)
    change = tiny.preference("ub", pairs, edits) - tiny.preference("ub", pairs)
    near = tiny._contents(None)[:, : tiny.items.shape[1]] @ tiny.items[item]
    assert np.corrcoef(change, near)[0, 1] > 0.3
    others = pairs.copy()
    others[:, 0] = user + 1
    assert (tiny.preference("ub", others, edits) == tiny.preference("ub", others)).all()


def test_a_bundle_taken_back_can_be_chosen_again_and_one_given_cannot(tiny: World) -> None:
    user = int(tiny.dataset.train[0, 0])
    first = tiny.choices(np.array([user]), 1)[0, 0]
    given = EdgeEdits(add={"ub": np.array([[user, first]])})
    assert first not in tiny.choices(np.array([user]), 150, given)
    taken = EdgeEdits(drop={"ub": tiny.dataset.train[:1]})
    assert tiny.dataset.train[0, 1] in tiny.choices(np.array([user]), 150, taken)
    assert (tiny.choices(np.array([user]), 150) == -1).any()  # fewer bundles than k remain


def test_the_tiny_world_has_the_unique_names_of_a_shop(tiny: World) -> None:
    names = tiny.dataset.items.names
    assert names is not None
    assert "keyboard" in names
    assert "mouse" in names
    for nodes in (tiny.dataset.items, tiny.dataset.bundles):
        assert nodes.names is not None
        assert len(set(nodes.names)) == len(nodes)


def test_a_bundle_is_filled_with_things_of_its_theme(tiny: World) -> None:
    fits = tiny.item_theme[tiny.dataset.bi[:, 1]] == tiny.bundle_theme[tiny.dataset.bi[:, 0]]
    assert fits.mean() > 4 / 12


@pytest.mark.parametrize(
    "wrong", [{"like": "yousho"}, {"scale": 0.0}, {"scale": 1e6}, {"seed": -1}, {"variant": "odd"}]
)
def test_wrong_arguments_of_simulate_are_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        simulate(**({"like": "tiny"} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("like", list(WORLDS))
def test_a_world_may_be_very_small(like: str) -> None:
    assert len(simulate(like, scale=0.01).dataset.train) > 0
