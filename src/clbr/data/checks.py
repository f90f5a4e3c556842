"""Checks of a valid data set that may still be wrong: ids, leaks, unseen held-out nodes, suspicious tables."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Ids, Pairs, contains, encode, incidence, items_of_bundles, sorted_pairs

FIRST = 20
"""The cut-off of the ranking by shared items."""
RANKED_USERS = 2000
"""Users whose bundles are ranked by shared items at most; with more, that many at equal distances."""
BLOCK_USERS, BLOCK_PAIRS = 256, 1 << 14
MIN_HELD_OUT = 10
"""Held-out pairs below which shares of them say nothing."""
LEAK_SHARE, LEAK_LIFT = 0.5, 5
UNSEEN_SHARE = 0.05
OVERLAP = 0.1
MIN_ROWS, NEW_IDS, EMPTY_SHARE = 20, 0.95, 0.05


class DataWarning(UserWarning):
    """A data set is valid, but something in it is probably wrong. The message has numbers and what to do."""


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    check: Literal["ids", "leak", "unseen", "table", "names"]
    message: str
    arguments: tuple[str, ...] = ()
    """Arguments of the import that can mend it."""


@dataclass(frozen=True)
class HeldOut:
    """The validation and test pairs: unseen users and bundles, and what the user-item table says about them.

    Shares are of the held-out pairs.
    """

    pairs: int
    unseen_users: int
    """Held-out users without a training pair."""
    unseen_users_share: float
    unseen_bundles: int
    unseen_bundles_share: float
    covered_share: float
    """Pairs whose user has every item of the bundle in user-item."""
    first_share: float
    """Pairs whose bundle is in the first 20 by the share of its items that the user has, without training pairs."""
    chance_share: float
    """The same for a random ranking."""

    @property
    def leaks(self) -> bool:
        """Whether held-out pairs can be read off the user-item table. The rule is explained in docs/data.md."""
        first = self.first_share >= LEAK_SHARE and self.first_share >= LEAK_LIFT * self.chance_share
        return self.pairs >= MIN_HELD_OUT and (self.covered_share >= LEAK_SHARE or first)


def measure_held_out(dataset: BundleDataset) -> HeldOut:
    """Measure the validation and test pairs of a data set."""
    held_out = sorted_pairs(np.concatenate([dataset.validation, dataset.test]))
    counts, shares = [], []
    for side, nodes in enumerate((dataset.users, dataset.bundles)):
        seen = np.bincount(dataset.train[:, side], minlength=len(nodes)) > 0
        unseen = ~seen[held_out[:, side]]
        counts.append(len(np.unique(held_out[unseen, side])))
        shares.append(_mean(unseen))
    owned = _owned_shares(dataset, held_out)
    free = len(dataset.bundles) - np.bincount(dataset.train[:, 0], minlength=len(dataset.users))
    return HeldOut(
        len(held_out),
        unseen_users=counts[0],
        unseen_users_share=shares[0],
        unseen_bundles=counts[1],
        unseen_bundles_share=shares[1],
        covered_share=_mean(owned == 1),
        first_share=_mean(_in_first(dataset, held_out, owned)),
        chance_share=_mean(np.minimum(1, FIRST / np.maximum(1, free[held_out[:, 0]]))),
    )


def _mean(values: NDArray[np.bool_] | NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _owned_shares(dataset: BundleDataset, chosen: Pairs) -> NDArray[np.float64]:
    """For each user-bundle pair the share of the bundle's items that the user has; 0 for a bundle without items."""
    width, known = len(dataset.items), encode(dataset.ui, len(dataset.items))

    def shares(some: Pairs) -> NDArray[np.float64]:
        row, pairs = items_of_bundles(some, dataset.bi, len(dataset.bundles))
        sizes = np.bincount(row, minlength=len(some))
        has = contains(known, encode(pairs, width))
        return np.bincount(row, weights=has, minlength=len(some)) / np.maximum(1, sizes)

    blocks = [shares(chosen[start : start + BLOCK_PAIRS]) for start in range(0, len(chosen), BLOCK_PAIRS)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def _in_first(dataset: BundleDataset, held_out: Pairs, owned: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each held-out pair of the ranked users, the probability that its bundle is in the first 20.

    Bundles with equal shares are in random order. A bundle of which the user has no item is not found.
    """
    users = np.unique(held_out[:, 0])
    if len(users) > RANKED_USERS:
        users = users[np.linspace(0, len(users) - 1, RANKED_USERS).astype(np.int64)]
    n_users, n_bundles, n_items = len(dataset.users), len(dataset.bundles), len(dataset.items)
    ui, train = incidence(dataset.ui, n_users, n_items), incidence(dataset.train, n_users, n_bundles)
    bundles_of_items = incidence(dataset.bi[:, ::-1], n_items, n_bundles)
    sizes = np.maximum(1, np.bincount(dataset.bi[:, 0], minlength=n_bundles)).astype(np.float64)
    found = []
    for start in range(0, len(users), BLOCK_USERS):
        some = users[start : start + BLOCK_USERS]
        shared = ui[some] @ bundles_of_items  # (n, bundles): how many items of the bundle each user has
        shared = (shared - shared.multiply(train[some])).tocsr()  # training pairs are not ranked
        rows = np.repeat(np.arange(len(some)), np.diff(shared.indptr))
        keys = np.sort(rows + shared.data / sizes[shared.indices] / 2)  # sorted by user, then by share
        mine = np.isin(held_out[:, 0], some)
        row = np.searchsorted(some, held_out[mine, 0])
        lower = np.searchsorted(keys, row + owned[mine] / 2, side="left")
        upper = np.searchsorted(keys, row + owned[mine] / 2, side="right")
        above, equal = shared.indptr[row + 1] - upper, np.maximum(1, upper - lower)
        found.append(np.where(owned[mine] > 0, np.clip((FIRST - above) / equal, 0, 1), 0))
    return np.concatenate(found) if found else np.empty(0)


def check(dataset: BundleDataset, held_out: HeldOut) -> tuple[Finding, ...]:
    """What is probably wrong with a data set. `held_out` is what `measure_held_out` gives for it."""
    findings = [*_check_ids(dataset), *_check_tables(dataset)]
    if held_out.pairs >= MIN_HELD_OUT:
        findings += [*_check_leak(held_out), *_check_unseen(held_out)]
    return tuple(findings)


def warn(findings: Iterable[Finding], stacklevel: int) -> None:
    """Issue a `DataWarning` for each finding."""
    for finding in findings:
        warnings.warn(finding.message, DataWarning, stacklevel=stacklevel + 1)


def _columns(dataset: BundleDataset) -> dict[tuple[str, Nodes], Ids]:
    """The ids of each column of pairs, by table and kind of node."""
    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    users, bundles, items = dataset.users, dataset.bundles, dataset.items
    tables = (
        ("user_bundle", chosen, users, bundles),
        ("user_item", dataset.ui, users, items),
        ("bundle_item", dataset.bi, bundles, items),
    )
    return {(table, nodes): pairs[:, side] for table, pairs, *both in tables for side, nodes in enumerate(both)}


def _check_ids(dataset: BundleDataset) -> Iterator[Finding]:
    """Ids of one kind that hardly overlap between the two tables that have them."""
    columns = _columns(dataset)
    for nodes in (dataset.users, dataset.bundles, dataset.items):
        ids = {table: np.unique(column) for (table, of), column in columns.items() if of is nodes}
        (one, these), (other, those) = sorted(ids.items(), key=lambda entry: len(entry[1]))
        shared = len(np.intersect1d(these, those))
        if shared < OVERLAP * len(these):
            yield Finding(
                "ids",
                f"{nodes.kind} ids hardly overlap: {shared:,} of the {len(these):,} in {one} are among the "
                f"{len(those):,} in {other} ({one} has '{nodes.id(np.setdiff1d(these, those)[0])}', {other} has "
                f"'{nodes.id(np.setdiff1d(those, these)[0])}'). Ids that differ are different {nodes.kind}s: write "
                "them alike in both tables, and check the columns",
                ("columns",),
            )


def _check_tables(dataset: BundleDataset) -> Iterator[Finding]:
    """Columns with a new id in each row, and tables with hardly any rows."""
    for (table, nodes), column in _columns(dataset).items():
        different = len(np.unique(column))
        if len(column) >= MIN_ROWS and different >= NEW_IDS * len(column):
            yield Finding(
                "table",
                f"{table}: nearly each row has another {nodes.kind} ({different:,} {nodes.kind}s in {len(column):,} "
                f"pairs). Check that the {nodes.kind} column is the right one, and not a number of the row",
                ("columns",),
            )
        if nodes.kind == table.partition("_")[0] and len(column) < EMPTY_SHARE * len(nodes):
            yield Finding(
                "table",
                f"{table}: almost empty, {len(column):,} pairs for {len(nodes):,} {nodes.kind}s. Check that the table "
                "is complete and its ids are those of the other tables",
            )


def _check_leak(held_out: HeldOut) -> Iterator[Finding]:
    """Held-out pairs that can be read off the user-item table."""
    covered, first, chance = held_out.covered_share, held_out.first_share, held_out.chance_share
    if held_out.leaks:
        yield Finding(
            "leak",
            f"validation and test pairs can be read off user_item: for {covered:.1%} of the {held_out.pairs:,} pairs "
            f"the user has every item of the bundle there, and {first:.1%} of the bundles are in the first {FIRST} by "
            f"the share of their items that the user has ({chance:.1%} by chance). A model that repeats this rule is "
            "rated well and recommends nothing new. Use items that were chosen before the held-out bundles, or hide "
            "the items that came with them",
            ("hide_held_out_items",),
        )


def _check_unseen(held_out: HeldOut) -> Iterator[Finding]:
    """Held-out users and bundles without training pairs."""
    for kind, count, share, known_by in (
        ("user", held_out.unseen_users, held_out.unseen_users_share, "items"),
        ("bundle", held_out.unseen_bundles, held_out.unseen_bundles_share, "contents"),
    ):
        if share >= UNSEEN_SHARE:
            found = f"{count:,} {kind}{'s are' if count > 1 else ' is'} in validation or test, but not in train"
            yield Finding(
                "unseen",
                f"{found}: {share:.1%} of the {held_out.pairs:,} held-out pairs. Only a model that uses their "
                f"{known_by} can rank these. Unless you test cold-start {kind}s, choose another split, or leave out "
                f"{kind}s with few pairs",
                ("split",),
            )
