"""World: a simulated data set with its truth: preferences, exposure, and the effect of edits.

A user has a taste. An item is close to its theme. A bundle is the mean of its items, and has a style that its items do
not determine. A user is *shown* candidates, partly by popularity, partly by popularity within the user's themes, and
*chooses* those of the highest utility:

    utility = taste weight * <taste, item or bundle> + appeal + noise * Gumbel(left, right)

A user's items change the user's taste in bundles (drift), and a bundle's items determine its vector, so edits of all
three relations have an effect. The Gumbel term is a fixed function of the pair: after an edit a user has the same
noise, so only the edit changes the user's choices.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, Relation, incidence, row_pointers, sorted_pairs
from clbr.graph.edits import EdgeEdits
from clbr.rng import pair_gumbel
from clbr.simulation.parameters import WorldConfig

Vectors = NDArray[np.float32]
STYLE_DIM = 4
"""Dimension of the style vectors."""


@dataclass(frozen=True, eq=False)
class Exposure:
    """How candidates are drawn: by popularity among all right nodes, or within a theme of the left node."""

    popularity: NDArray[np.float64]  # (right,), sums to 1
    theme: NDArray[np.int64]  # (right,)
    interest: NDArray[np.float64]  # (profiles, themes), rows sum to 1
    profile: NDArray[np.int64]  # (left,), the row of `interest` of each left node
    draws: NDArray[np.int64]  # (left,), number of candidates drawn
    targeted: float

    def per_draw(self, pairs: Pairs) -> NDArray[np.float64]:
        """The probability that one draw gives this pair."""
        left, right = pairs[:, 0], pairs[:, 1]
        theme = self.theme[right]
        within = self.popularity[right] / np.maximum(self.theme_popularity[theme], 1e-300)
        empty = self.interest @ (self.theme_popularity == 0)  # a draw for a theme without candidates is untargeted
        profile = self.profile[left]
        anywhere = (1 - self.targeted) + self.targeted * empty[profile]
        return np.asarray(anywhere * self.popularity[right] + self.targeted * self.interest[profile, theme] * within)

    def probability(self, pairs: Pairs) -> NDArray[np.float64]:
        """The probability that at least one draw gives this pair."""
        return -np.expm1(self.draws[pairs[:, 0]] * np.log1p(-np.minimum(self.per_draw(pairs), 1 - 1e-12)))

    @cached_property
    def theme_popularity(self) -> NDArray[np.float64]:
        """The sum of popularity in each theme."""
        return np.bincount(self.theme, weights=self.popularity, minlength=self.interest.shape[1]).astype(np.float64)

    @cached_property
    def by_theme(self) -> NDArray[np.int64]:
        """The right nodes in the order of their themes."""
        return np.argsort(self.theme, kind="stable")

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """The sums of popularity in the order of `by_theme`, from 0 to 1."""
        return np.concatenate([[0.0], np.cumsum(self.popularity[self.by_theme])])

    @cached_property
    def theme_ends(self) -> NDArray[np.int64]:
        """Theme t is at [theme_ends[t], theme_ends[t + 1]) of `by_theme`."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.theme, minlength=self.interest.shape[1]))])


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """A simulated data set with its truth."""

    config: WorldConfig
    seed: int
    dataset: BundleDataset
    tastes: Vectors  # (users, d)
    items: Vectors  # (items, d), unit length
    user_style: Vectors  # (users, STYLE_DIM), unit length
    bundle_style: Vectors  # (bundles, STYLE_DIM), unit length
    themes: Vectors  # (themes, d), unit length
    item_theme: NDArray[np.int64]
    bundle_theme: NDArray[np.int64]
    appeal: dict[Relation, NDArray[np.float32]]
    shown: dict[Relation, Exposure]

    def __repr__(self) -> str:
        return f"World({self.config.name}, seed {self.seed}: {self.dataset!r})"

    def preference(self, relation: Relation, pairs: Pairs, edits: EdgeEdits | None = None) -> Vectors:
        """The true preference of each pair, shown or not, after `edits` if any: the utility without its noise.

        For "ub" and "ui" it is a user's preference, for "bi" how well an item fits a bundle's theme.
        """
        if relation == "ub":
            left, right = self._states(edits), self._contents(edits)
        else:
            left, right = (self.tastes if relation == "ui" else self.themes[self.bundle_theme]), self.items
        return self._match(relation, left, right, pairs)

    def exposure(self, relation: Relation, pairs: Pairs) -> NDArray[np.float64]:
        """The probability that the left node was shown the right one."""
        return self.shown[relation].probability(pairs)

    def choices(self, users: NDArray[np.int64], k: int, edits: EdgeEdits | None = None) -> NDArray[np.int64]:
        """The k bundles of highest utility for each user, best first, after `edits` if any.

        Bundles that the user has (in any split, as edited) are left out; -1 where no bundle remains.
        """
        bundles = len(self.dataset.bundles)
        owned = sorted_pairs(np.concatenate([self.dataset.train, self.dataset.validation, self.dataset.test]))
        owned = edits.apply_to("ub", owned, (len(self.tastes), bundles)) if edits else owned
        pointers = row_pointers(owned[:, 0], len(self.dataset.users))
        left, right = self._states(edits), self._contents(edits)
        chosen = []
        for block in np.array_split(np.asarray(users), -(-len(users) // 256) or 1):
            utility = self.config.ub.taste * left[block] @ right.T + self.appeal["ub"]  # (n, bundles)
            utility += self.pair_noise("ub", block[:, None], np.arange(bundles)[None, :])
            lengths = pointers[block + 1] - pointers[block]
            positions = np.repeat(pointers[block] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            utility[np.repeat(np.arange(len(block)), lengths), owned[positions, 1]] = -np.inf
            best = np.argsort(-utility, axis=1, kind="stable")[:, :k]
            chosen.append(np.where(np.isfinite(np.take_along_axis(utility, best, axis=1)), best, -1))
        return np.concatenate(chosen)

    def pair_noise(self, relation: Relation, left: NDArray[np.integer], right: NDArray[np.integer]) -> Vectors:
        """The noise in the utility of each pair (left and right broadcast)."""
        return pair_noise(self.config, self.seed, relation, left, right)

    def _match(self, relation: Relation, left: Vectors, right: Vectors, pairs: Pairs) -> Vectors:
        taste = getattr(self.config, relation).taste
        match = np.einsum("nd,nd->n", left[pairs[:, 0]], right[pairs[:, 1]])
        return np.asarray(taste * match + self.appeal[relation][pairs[:, 1]])

    def _states(self, edits: EdgeEdits | None) -> Vectors:
        """The users' vectors for bundles, after `edits`."""
        ui = edits.apply_to("ui", self.dataset.ui, (len(self.tastes), len(self.items))) if edits else self.dataset.ui
        return states(self.config, self.tastes, self.user_style, self.items, ui)

    def _contents(self, edits: EdgeEdits | None) -> Vectors:
        """The bundles' vectors, after `edits`."""
        bi, shape = self.dataset.bi, (len(self.bundle_style), len(self.items))
        bi = edits.apply_to("bi", bi, shape) if edits else bi
        return contents(self.bundle_style, self.items, bi)


def states(config: WorldConfig, tastes: Vectors, style: Vectors, items: Vectors, ui: Pairs) -> Vectors:
    """The users' vectors for bundles, (users, d + STYLE_DIM): taste, drifted to their items, and style."""
    drifted = tastes + config.drift * mean_of(items, ui, len(tastes))
    return np.concatenate([drifted, config.style * style], axis=1, dtype=np.float32)


def contents(style: Vectors, items: Vectors, bi: Pairs) -> Vectors:
    """The bundles' vectors, (bundles, d + STYLE_DIM): the mean of their items, and style."""
    return np.concatenate([mean_of(items, bi, len(style)), style], axis=1, dtype=np.float32)


def mean_of(vectors: Vectors, pairs: Pairs, rows: int) -> Vectors:
    """For each left node the mean vector of its right nodes, zero if it has none. Pairs must be sorted."""
    relation = incidence(pairs, rows, len(vectors))
    return np.asarray(relation @ vectors / np.maximum(np.diff(relation.indptr), 1)[:, None].astype(np.float32))


def pair_noise(
    config: WorldConfig, seed: int, relation: Relation, left: NDArray[np.integer], right: NDArray[np.integer]
) -> Vectors:
    """The noise in the utility of each pair (left and right broadcast)."""
    return (config.noise * pair_gumbel(seed, f"mood {relation}", left, right)).astype(np.float32)
