"""A world whose truth is known: who likes what, who is shown what, and what an edit would change.

A user has a taste, an item lies near its theme, a bundle stands where its items stand on average.
Someone is *shown* candidates (by fame, partly within her themes) and *chooses* the best of them:

    utility = taste weight * <taste, theme> + appeal + noise * Gumbel(user, thing)

The Gumbel term is a fixed function of the pair, so a choice after an edit is the same person's choice
in the same mood: only what the edit reaches differs. Items she has pull her taste in bundles (drift);
a bundle's contents decide where it stands, and it has a manner (how it is made) that no item explains.
So all three relations can be edited and answered for.
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
MANNERS = 4
"""Dimensions of what a bundle has beyond its items."""


@dataclass(frozen=True, eq=False)
class Exposure:
    """How candidates are shown: `fame` within the whole catalogue, or within a theme of the one who looks."""

    fame: NDArray[np.float64]  # (right,), sums to 1
    theme: NDArray[np.int64]  # (right,)
    interest: NDArray[np.float64]  # (left, themes), rows sum to 1
    draws: NDArray[np.int64]  # (left,), how many candidates are drawn
    targeted: float

    def per_draw(self, pairs: Pairs) -> NDArray[np.float64]:
        """The probability that one draw shows this pair."""
        left, right = pairs[:, 0], pairs[:, 1]
        theme = self.theme[right]
        within = self.fame[right] / np.maximum(self.theme_fame[theme], 1e-300)
        aimless = self.interest @ (self.theme_fame == 0)  # looks for a theme of which nothing is ever shown
        anywhere = (1 - self.targeted) + self.targeted * aimless[left]
        return np.asarray(anywhere * self.fame[right] + self.targeted * self.interest[left, theme] * within)

    def probability(self, pairs: Pairs) -> NDArray[np.float64]:
        """The probability that the left node is shown the right one at all."""
        return -np.expm1(self.draws[pairs[:, 0]] * np.log1p(-np.minimum(self.per_draw(pairs), 1 - 1e-12)))

    @cached_property
    def theme_fame(self) -> NDArray[np.float64]:
        """How much of all fame each theme has."""
        return np.bincount(self.theme, weights=self.fame, minlength=self.interest.shape[1]).astype(np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """A simulated data set with its truth."""

    config: WorldConfig
    seed: int
    dataset: BundleDataset
    tastes: Vectors  # (users, d)
    items: Vectors  # (items, d), unit length
    user_manner: Vectors  # (users, MANNERS)
    bundle_manner: Vectors  # (bundles, MANNERS), unit length
    themes: Vectors  # (themes, d), unit length
    item_theme: NDArray[np.int64]
    bundle_theme: NDArray[np.int64]
    appeal: dict[Relation, NDArray[np.float32]]
    shown: dict[Relation, Exposure]

    def __repr__(self) -> str:
        return f"World({self.config.name}, seed {self.seed}: {self.dataset!r})"

    def preference(self, relation: Relation, pairs: Pairs, edits: EdgeEdits | None = None) -> Vectors:
        """How much the left node truly wants the right one, shown or not, after `edits` if any.

        For "ub" and "ui" a user's preference, for "bi" how well an item fits the bundle's theme.
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
        """The k bundles each user would choose next if she were shown all, best first, after `edits` if any.

        What she already has (in any split, as edited) she does not choose again; -1 where nothing is left.
        """
        bundles = len(self.dataset.bundles)
        owned = sorted_pairs(np.concatenate([self.dataset.train, self.dataset.validation, self.dataset.test]))
        owned = edits.apply_to("ub", owned, (len(self.tastes), bundles)) if edits else owned
        pointers = row_pointers(owned[:, 0], len(self.dataset.users))
        left, right = self._states(edits), self._contents(edits)
        chosen = []
        for block in np.array_split(np.asarray(users), -(-len(users) // 256) or 1):
            utility = self.config.ub.taste * left[block] @ right.T + self.appeal["ub"]  # (n, bundles)
            utility += self.mood("ub", block[:, None], np.arange(bundles)[None, :])
            lengths = pointers[block + 1] - pointers[block]
            positions = np.repeat(pointers[block] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            utility[np.repeat(np.arange(len(block)), lengths), owned[positions, 1]] = -np.inf
            best = np.argsort(-utility, axis=1, kind="stable")[:, :k]
            chosen.append(np.where(np.isfinite(np.take_along_axis(utility, best, axis=1)), best, -1))
        return np.concatenate(chosen)

    def mood(self, relation: Relation, left: NDArray[np.integer], right: NDArray[np.integer]) -> Vectors:
        """The part of a choice that is chance: noise that belongs to the pair (left and right broadcast)."""
        return mood(self.config, self.seed, relation, left, right)

    def _match(self, relation: Relation, left: Vectors, right: Vectors, pairs: Pairs) -> Vectors:
        taste = getattr(self.config, relation).taste
        match = np.einsum("nd,nd->n", left[pairs[:, 0]], right[pairs[:, 1]])
        return np.asarray(taste * match + self.appeal[relation][pairs[:, 1]])

    def _states(self, edits: EdgeEdits | None) -> Vectors:
        """Each user's taste in bundles: her own, drifted towards the items she has; and in manners."""
        ui = edits.apply_to("ui", self.dataset.ui, (len(self.tastes), len(self.items))) if edits else self.dataset.ui
        return states(self.config, self.tastes, self.user_manner, self.items, ui)

    def _contents(self, edits: EdgeEdits | None) -> Vectors:
        """Where each bundle stands: the mean of its items; and its manner."""
        bi, shape = self.dataset.bi, (len(self.bundle_manner), len(self.items))
        bi = edits.apply_to("bi", bi, shape) if edits else bi
        return contents(self.bundle_manner, self.items, bi)


def states(config: WorldConfig, tastes: Vectors, manner: Vectors, items: Vectors, ui: Pairs) -> Vectors:
    """What users look for in bundles, (users, d + MANNERS)."""
    drifted = tastes + config.drift * mean_of(items, ui, len(tastes))
    return np.concatenate([drifted, config.manner * manner], axis=1, dtype=np.float32)


def contents(manner: Vectors, items: Vectors, bi: Pairs) -> Vectors:
    """What bundles offer, (bundles, d + MANNERS)."""
    return np.concatenate([mean_of(items, bi, len(manner)), manner], axis=1, dtype=np.float32)


def mean_of(vectors: Vectors, pairs: Pairs, rows: int) -> Vectors:
    """For each left node the mean vector of its right nodes, zero where it has none; pairs sorted."""
    relation = incidence(pairs, rows, len(vectors))
    return np.asarray(relation @ vectors / np.maximum(np.diff(relation.indptr), 1)[:, None].astype(np.float32))


def mood(
    config: WorldConfig, seed: int, relation: Relation, left: NDArray[np.integer], right: NDArray[np.integer]
) -> Vectors:
    """The chance in each pair's choice."""
    return (config.noise * pair_gumbel(seed, f"mood {relation}", left, right)).astype(np.float32)
