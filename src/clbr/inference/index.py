"""An index of the bundle vectors (faiss): ranks among many bundles without scoring all of them.

    index.faiss   the bundle vectors at half precision, in clusters
    index.json    which vectors it was made from, its settings and its measured recall

A search reads the clusters nearest to the user. What it finds is scored again with the vectors of the artifact, so the
listed scores are exact; only a bundle in a cluster that was not read can be missing.
"""

from hashlib import file_digest
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from clbr.config import Config
from clbr.data.pairs import Pairs, contains, positions, row_pointers
from clbr.errors import InputError, UnsupportedError, require
from clbr.evaluation.ranking import rank, top
from clbr.files import atomic_file, read_bytes, write_atomic
from clbr.models.base import VectorScorer
from clbr.rng import generator

INDEX, INDEX_ABOUT = "index.faiss", "index.json"
MIN_BUNDLES = 20_000
"""With fewer bundles exact ranking is as fast (benchmarks/ranking.py)."""
LENGTHS = (20, 100)
"""The recall is measured for lists of these lengths; longer ones are ranked exactly."""
RECALL = 0.995
"""Share of the exact lists that the index has to find for a sample of users."""
SAMPLE = 256
"""Users of the sample."""
EXTRA = 100
"""Bundles that may be left out of a user's list: so much deeper is the search. A user with more is ranked exactly."""
BLOCK = 256
"""Users who are ranked at once."""
PER_CLUSTER = 50
"""Vectors that the clusters are computed from, for each cluster."""
ADDED = 1 << 16
"""Vectors that are added at once."""


class AboutIndex(Config):
    """What an index was made from, and how good it is."""

    vectors: str = Field(description="checksum of the artifact's vectors")
    checksum: str = Field(description="of the index")
    clusters: int
    probes: int = Field(description="clusters that a search reads")
    recall: dict[str, float] = Field(description="share of the exact list that is found, by length of the list")


class BundleIndex:
    """Finds the best bundles of users. `bundles` are the vectors of the bundles that may be listed."""

    def __init__(self, searcher: Any, users: Tensor, bundles: Tensor, chosen: Pairs) -> None:
        self.searcher, self.users, self.bundles, self.chosen = searcher, users, bundles, chosen
        self.pointers = row_pointers(chosen[:, 0], len(users))

    def answers(self, k: int) -> bool:
        """Whether lists of this length are found with the measured recall."""
        return k <= LENGTHS[-1]

    def rank(
        self, users: NDArray[np.int64], k: int, *, keep_chosen: bool = False, deny: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best bundles of each user and their scores: (n, k), -1 where fewer were found.

        Chosen bundles (unless `keep_chosen`) and those of `deny` are left out: so many more are searched for.
        """
        chosen = 0 if keep_chosen else self.pointers[users + 1] - self.pointers[users]
        left_out = np.broadcast_to(chosen + (0 if deny is None else len(deny)), len(users))
        ranking, scores = np.full((len(users), k), -1), np.full((len(users), k), -np.inf, np.float32)
        few = np.flatnonzero(left_out <= EXTRA)
        if len(few):
            wanted = min(k + int(left_out[few].max()), len(self.bundles))
            ranking[few], scores[few] = self._search(users[few], k, wanted, keep_chosen, deny)
        return ranking, scores

    def _search(
        self, users: NDArray[np.int64], k: int, wanted: int, keep_chosen: bool, deny: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        vectors = self.users[torch.from_numpy(users)]  # (n, d)
        found = self.searcher.search(np.ascontiguousarray(vectors.numpy()), wanted)[1]  # (n, wanted), -1: no more
        found.sort(axis=1)  # of equal scores the lower index comes first
        candidates = torch.from_numpy(found)
        near = self.bundles[candidates.clamp(min=0)]  # (n, wanted, d)
        scores = (near @ vectors[:, :, None]).squeeze(2)
        hidden = found < 0
        if not keep_chosen:
            hidden |= self._is_chosen(users, found)
        if deny is not None:
            hidden |= np.isin(found, deny)
        scores[torch.from_numpy(hidden)] = -torch.inf
        best = top(scores, k)
        ranking = candidates.gather(1, best.clamp(min=0)).masked_fill(best < 0, -1)
        values = scores.gather(1, best.clamp(min=0)).masked_fill(best < 0, -torch.inf)
        return ranking.numpy(), values.numpy()

    def _is_chosen(self, users: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each bundle that was found, whether its user has chosen it."""
        row, at = positions(self.pointers, users)
        width = len(self.bundles) + 1
        codes = row * width + self.chosen[at, 1]
        wanted = np.arange(len(users))[:, None] * width + found
        return contains(codes, wanted.ravel()).reshape(found.shape)


def write_index(folder: Path, fingerprint: str, users: Tensor, bundles: Tensor, chosen: Pairs) -> AboutIndex:
    """Build the index of bundle vectors and write it to a folder.

    The fewest clusters are read that reach the recall for a sample of the users. Few bundles, and vectors for which
    that would be more than a quarter of the clusters, raise an `UnsupportedError`: exact ranking is faster.
    """
    faiss = require_faiss()
    if len(bundles) < MIN_BUNDLES:
        text = f"{len(bundles):,} bundles are ranked exactly in no more time; an index helps from {MIN_BUNDLES:,} on"
        raise UnsupportedError(text, "index")
    searcher = build(bundles)
    probes, recall = tune(BundleIndex(searcher, users, bundles, chosen))
    with atomic_file(folder / INDEX) as partial:
        faiss.write_index(searcher, str(partial))
    checksum = file_checksum(folder / INDEX)
    about = AboutIndex(vectors=fingerprint, checksum=checksum, clusters=searcher.nlist, probes=probes, recall=recall)
    write_atomic(folder / INDEX_ABOUT, (about.model_dump_json(indent=2) + "\n").encode())
    return about


def build(bundles: Tensor) -> Any:
    """The faiss index of vectors, in about as many clusters as a cluster has vectors."""
    faiss = require_faiss()
    count, dim = bundles.shape
    searcher = faiss.index_factory(dim, f"IVF{isqrt(count)},SQfp16", faiss.METRIC_INNER_PRODUCT)
    searcher.cp.max_points_per_centroid = PER_CLUSTER
    largest = float(bundles.abs().max()) or 1.0  # half precision ends at 65,504; a common factor changes no ranking
    some = generator(0, "index").permutation(count)[: PER_CLUSTER * searcher.nlist]
    searcher.train((bundles[torch.from_numpy(some)] / largest).numpy())
    for part in torch.split(bundles, ADDED):
        searcher.add((part / largest).numpy())
    return searcher


def tune(index: BundleIndex) -> tuple[int, dict[str, float]]:
    """The fewest clusters to read for the recall, set in the index, and the recall by length of the list."""
    count = int(index.pointers.size - 2)  # without the unseen user
    users = np.unique(np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.int64))
    exact = rank(VectorScorer(index.users, index.bundles), users, LENGTHS[-1], exclude=index.chosen)
    probes = 1
    while probes <= max(1, index.searcher.nlist // 4):
        index.searcher.nprobe = probes
        recall = {str(k): round(_recall(index, users, exact[:, :k]), 4) for k in LENGTHS}
        if min(recall.values()) >= RECALL:
            return probes, recall
        probes *= 2
    text = f"less than {RECALL:.1%} of the best bundles are found by reading a quarter of the vectors; rank exactly"
    raise UnsupportedError(text, "index")


def _recall(index: BundleIndex, users: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """The share of the exact lists that the index finds."""
    found = index.rank(users, exact.shape[1])[0]
    rows = np.arange(len(users))[:, None] * (len(index.bundles) + 1)
    return float(np.isin((rows + exact)[exact >= 0], (rows + found)[found >= 0]).mean())


def open_index(
    folder: Path, fingerprint: str, users: Tensor, bundles: Tensor, chosen: Pairs, mapped: bool
) -> BundleIndex | None:
    """The index in a folder; None if there is none, or if faiss is not installed.

    One of other vectors than those of `fingerprint`, and a damaged one, raise an `InputError`.
    """
    path = folder / INDEX_ABOUT
    if not path.exists():
        return None
    try:
        about = AboutIndex.model_validate_json(read_bytes(path))
    except ValueError:
        raise InputError(f"{path}: is damaged; remove it, or export with an index again") from None
    if about.vectors != fingerprint:
        raise InputError(f"{path}: the index of another artifact; remove it, or export with an index again")
    try:
        faiss = require_faiss()
    except InputError:
        return None
    if file_checksum(folder / INDEX) != about.checksum:
        raise InputError(f"{folder / INDEX}: is damaged (its checksum has changed); export with an index again")
    searcher = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mapped else 0)
    if mapped:
        faiss.downcast_InvertedLists(searcher.invlists).prefetch_nthread = 0  # starting threads takes longer
    searcher.nprobe = about.probes
    return BundleIndex(searcher, users, bundles, chosen)


def require_faiss() -> Any:
    """The package faiss, with as many threads as torch; an error if it is not installed."""
    faiss = require("faiss", "ann")
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def file_checksum(path: Path) -> str:
    """The checksum of a file, read piece by piece."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); export it again") from None
