"""The choices of a simulated world, block by block: each left node is shown candidates and takes the best of them."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from queue import Empty, Queue
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Codes, Pairs, Relation, contains, decode, distinct
from clbr.data.split import SPLITS, split_random
from clbr.rng import generator
from clbr.simulation.nodes import WorldNodes
from clbr.simulation.parameters import WorldConfig
from clbr.simulation.world import Exposure, Vectors, contents, pair_noise, states

BLOCK = 1_500_000
"""Candidates per block. It limits the memory, and it is a part of every world: another value gives other worlds."""

GATHERED = 65_536
"""Pairs whose vectors are gathered at once: few enough to stay in the cache."""


def chosen_pairs(config: WorldConfig, seed: int, nodes: WorldNodes) -> Iterator[tuple[str, Pairs]]:
    """The pairs of a world, in blocks with the part they belong to: bi and ui in turn, then the splits of ub.

    The blocks of a part come in sorted order. Nothing is kept but the vectors of the nodes, so the memory does not
    depend on the number of pairs.
    """

    def choose(relation: Relation, left: Vectors, right: Vectors) -> Iterator[tuple[slice, Pairs, Pairs]]:
        """Blocks: the left nodes that it spans, its pairs, and its pairs counted from the first of these nodes."""
        for pairs in _choose(config, seed, relation, nodes, left, right):
            first, last = pairs[0, 0], pairs[-1, 0]
            yield slice(first, last + 1), pairs, pairs - np.array([first, 0], np.int32)

    nothing = np.empty((0, 2), np.int32)
    bundles = contents(nodes.bundle_style, nodes.items, nothing)
    users = states(config, nodes.tastes, nodes.user_style, nodes.items, nothing)

    def fill_bundles() -> Iterator[tuple[str, Pairs]]:
        for span, pairs, local in choose("bi", nodes.themes[nodes.bundle_theme], nodes.items):
            bundles[span] = contents(nodes.bundle_style[span], nodes.items, local)
            yield "bi", pairs

    def choose_items() -> Iterator[tuple[str, Pairs]]:
        for span, pairs, local in choose("ui", nodes.tastes, nodes.items):
            users[span] = states(config, nodes.tastes[span], nodes.user_style[span], nodes.items, local)
            yield "ui", pairs

    yield from _in_threads(fill_bundles(), choose_items())  # neither depends on the other
    split = generator(seed, "split")
    for _, pairs, local in choose("ub", users, bundles):
        labels = split_random(local[:, 0], 0.1, 0.2, split)
        for label, part in enumerate(SPLITS):
            yield part, pairs[labels == label]


def _in_threads(*streams: Iterator[tuple[str, Pairs]]) -> Iterator[tuple[str, Pairs]]:
    """The blocks of all streams as they come, each stream in a thread of its own. Few blocks wait to be taken."""
    blocks: Queue[tuple[str, Pairs] | BaseException | None] = Queue(maxsize=1)
    stopped = Event()

    def run(stream: Iterator[tuple[str, Pairs]]) -> None:
        try:
            for block in stream:
                blocks.put(block)
                if stopped.is_set():
                    return
            blocks.put(None)
        except BaseException as error:
            blocks.put(error)

    threads = [Thread(target=run, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            block = blocks.get()
            if isinstance(block, BaseException):
                raise block
            if block is None:
                running -= 1
            else:
                yield block
    finally:
        stopped.set()
        while any(thread.is_alive() for thread in threads):  # a thread may wait to put a block
            with suppress(Empty):
                blocks.get(timeout=0.05)


def _choose(
    config: WorldConfig, seed: int, relation: Relation, nodes: WorldNodes, left: Vectors, right: Vectors
) -> Iterator[Pairs]:
    """For each left node its guaranteed pairs, then its best candidates, `picks` in all; as blocks of sorted pairs."""
    rng = generator(seed, "world", "exposure", relation)
    exposure, picks, width = nodes.shown[relation], nodes.picks[relation], len(right)
    guaranteed = _guaranteed_pairs(rng, exposure, picks)

    def best(codes: Codes, first: Codes) -> Codes:
        pairs = decode(codes, width)
        utility = _match(left, right, pairs)
        utility *= np.float32(getattr(config, relation).taste)
        utility += nodes.appeal[relation][pairs[:, 1]]
        utility += pair_noise(config, seed, relation, pairs[:, 0], pairs[:, 1])
        utility[contains(first, codes)] = np.inf
        return codes[_best(pairs[:, 0], utility, picks)]

    ends = np.flatnonzero(np.diff(np.cumsum(exposure.draws) // BLOCK, append=-1)) + 1
    for start, end in pairwise([0, *ends.tolist()]):
        rows = start + np.flatnonzero(picks[start:end])
        if not len(rows):
            continue
        first = guaranteed[slice(*np.searchsorted(guaranteed, [rows[0] * width, (rows[-1] + 1) * width]))]
        codes = _candidates(rng, exposure, rows, first)
        lefts = codes // width
        short = rows[np.bincount(lefts - rows[0])[rows - rows[0]] < picks[rows]]
        blocks = [best(codes if not len(short) else codes[~np.isin(lefts, short)], first)]
        # A row with too few candidates is shown all.
        for group in np.array_split(short, -(-len(short) * width // BLOCK)) if len(short) else ():
            blocks.append(best((group[:, None] * width + np.arange(width)).ravel(), first))
        yield decode(np.sort(np.concatenate(blocks)) if len(short) else blocks[0], width)


def _match(left: Vectors, right: Vectors, pairs: Pairs) -> Vectors:
    """The inner product of the vectors of each pair."""
    match = np.empty(len(pairs), np.float32)
    for start in range(0, len(pairs), GATHERED):
        lefts, rights = pairs[start : start + GATHERED].T
        np.einsum("nd,nd->n", left[lefts], right[rights], out=match[start : start + GATHERED])
    return match


def _best(lefts: NDArray[np.int32], utility: NDArray[np.float32], picks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs are the `picks[left]` of highest utility of their left node, of equal ones the first.

    `lefts` must be sorted. A sort of whole numbers (left, utility) gives the least utility taken of each left node.
    """
    if not len(lefts):
        return np.zeros(0, bool)
    starts = np.flatnonzero(np.diff(lefts, prepend=-1))
    counts = np.diff(starts, append=len(lefts))
    wanted = picks[lefts[starts]]
    bits = (0.0 - utility).view(np.int32)  # highest first; 0.0 - x is never -0.0, which has other bits than 0.0
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # now in the order of the numbers
    keys = np.repeat(np.arange(len(starts)) << 32, counts) + bits
    last = np.sort(keys)[starts + np.minimum(wanted, counts) - 1]
    best = keys <= np.repeat(last, counts)
    tied = np.repeat(np.add.reduceat(best, starts, dtype=np.int64) > wanted, counts)
    if tied.any():
        at = np.flatnonzero(tied)
        order = at[np.lexsort((keys[at],))]  # stable: of equal keys the first
        best[at] = False
        best[order[_rank_within(lefts[order], len(picks)) < picks[lefts[order]]]] = True
    return best


def _guaranteed_pairs(rng: np.random.Generator, exposure: Exposure, picks: NDArray[np.int64]) -> Codes:
    """One pair for each right node with popularity, so that it has an edge; as sorted codes.

    The left node is drawn by its degree and its interest in the theme. It gets no more pairs than its degree.
    """
    rights = rng.permutation(np.flatnonzero(exposure.popularity > 0))
    themes = exposure.theme[rights]
    points = themes + rng.random(len(rights))
    lefts = np.empty(len(rights), np.int64)
    for theme, column in enumerate(exposure.interest.T):
        cumulative = np.cumsum(column[exposure.profile] * picks + 1e-12)
        cumulative /= cumulative[-1]
        cumulative += theme
        at = np.flatnonzero(themes == theme)
        lefts[at] = np.minimum(np.searchsorted(cumulative, points[at], side="right"), len(picks) - 1)
    order = np.argsort(lefts, kind="stable")
    within = order[_rank_within(lefts[order], len(picks)) < picks[lefts[order]]]
    return np.sort(lefts[within] * len(exposure.popularity) + rights[within])


def _rank_within(lefts: NDArray[np.integer], nodes: int) -> NDArray[np.int64]:
    """The position of each pair among the pairs of its left node, from 0. `lefts` must be sorted."""
    counts = np.bincount(lefts, minlength=nodes)
    return np.arange(len(lefts)) - np.repeat(np.cumsum(counts) - counts, counts)


def _candidates(rng: np.random.Generator, exposure: Exposure, rows: NDArray[np.intp], guaranteed: Codes) -> Codes:
    """The distinct pairs shown to these rows, and the guaranteed ones, as sorted codes."""
    width = len(exposure.popularity)
    cumulative, ends = exposure.cumulative, exposure.theme_ends
    at = np.repeat(np.arange(len(rows)), exposure.draws[rows])  # the position of each draw's left node in `rows`
    points = rng.random(len(at))
    targeted = np.flatnonzero(rng.random(len(at)) < exposure.targeted)
    theme = _draw_themes(rng, exposure, rows, at[targeted])
    low, high = cumulative[ends[theme]], cumulative[ends[theme + 1]]
    possible = high > low  # a draw for a theme without candidates stays untargeted
    points[targeted[possible]] = (low + points[targeted] * (high - low))[possible]
    order = np.argsort(points)  # a search for sorted points reads the large table in its order
    position = np.searchsorted(cumulative, points[order], side="right") - 1
    codes = rows[at[order]] * width + exposure.by_theme[np.minimum(position, width - 1)]
    return distinct(np.concatenate([codes, guaranteed]))


def _draw_themes(
    rng: np.random.Generator, exposure: Exposure, rows: NDArray[np.intp], at: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A theme for each position in `rows`, drawn by the interest of that row."""
    cumulative = np.cumsum(exposure.interest[exposure.profile[rows]], axis=1)
    cumulative /= cumulative[:, -1:]
    cumulative += rows[:, None]  # row r runs from r to r + 1, so one search serves all rows
    themes = cumulative.shape[1]
    drawn = np.searchsorted(cumulative.ravel(), rows[at] + rng.random(len(at)), side="right") - at * themes
    return np.asarray(np.minimum(drawn, themes - 1))
