"""How well what-if answers agree with retraining: many users (or bundles) are edited at once, and models trained anew.

For each edited user the change of all bundles' scores by what-if is compared with the change by retraining; for an
edited bundle the change of all users' scores. The correction for chance is in clbr/evaluation/agreement.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, Relation, contains, encode, neighbours
from clbr.errors import InputError
from clbr.evaluation.agreement import Agreement, Changes, measure_agreement
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact
from clbr.inference.whatif import edited_state, factual_state
from clbr.models.base import VectorScorer
from clbr.models.registry import find_model
from clbr.rng import generator
from clbr.training.config import RunConfig
from clbr.training.run import start

EditKind = Literal["items-added", "items-dropped", "bundles-added", "bundles-dropped", "swaps", "contents-added"]
SIZES: dict[EditKind, int] = {
    "items-added": 10,
    "items-dropped": 10,
    "bundles-added": 2,
    "bundles-dropped": 2,
    "swaps": 3,
    "contents-added": 3,
}
"""How many pairs of a user are added or dropped, or items of a bundle are replaced or added."""
MIN_SEEDS = 3
"""With two seeds the interval would only say how users differ."""
EDITED = 200
"""Users or bundles that are edited."""


def measured_kinds(model: str) -> list[EditKind]:
    """The kinds of edits that an export measures: one for each relation that the model uses."""
    kinds: dict[Relation, EditKind] = {"ui": "items-added", "ub": "bundles-added", "bi": "swaps"}
    return [kind for relation, kind in kinds.items() if relation in find_model(model).relations]


def measure_whatif(
    artifact: Artifact,
    config: RunConfig,
    dataset: BundleDataset,
    seeds: int,
    open_run: Callable[[Path, BundleDataset], Artifact],
    kinds: Iterable[EditKind] | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Agreement]:
    """The agreement of an artifact's answers with retraining, by kind of edits.

    For each of `seeds` other seeds a model is trained on the data, and one on the data of each kind of edits, with the
    settings of the run: `seeds` times (1 + kinds) trainings. `open_run` makes the artifact of a finished one, as scores
    are compared as they are served. `on_progress` gets the number of finished trainings.
    """
    artifact.require_whatif()
    if seeds < MIN_SEEDS:
        raise InputError(f"the agreement with retraining needs {MIN_SEEDS} seeds or more", "measure_whatif")
    kinds = measured_kinds(config.model) if kinds is None else kinds
    kinds = [kind for kind in kinds if len(_with_enough_pairs(dataset, kind)) >= 2]
    found: dict[str, Agreement] = {}
    done = 0
    with TemporaryDirectory() as space:

        def train(data: BundleDataset, seed: int) -> VectorScorer:
            nonlocal done
            folder = Path(space) / str(done)
            start(folder, config.model_copy(update={"seed": seed}), data)
            done += 1
            on_progress(done)
            return served(open_run(folder, data))

        others = [config.seed + 1 + one for one in range(seeds)]
        plain = [train(dataset, seed) for seed in others]
        for kind in kinds:
            nodes, edits = draw_edits(dataset, kind)
            changed = edit_dataset(dataset, edits)
            pairs = zip(plain, others, strict=True)
            retrained = [score_changes(kind, nodes, before, train(changed, seed)) for before, seed in pairs]
            answers = whatif_changes(kind, nodes, artifact, edits)[None]
            found[kind] = measure_agreement(answers, [config.seed], np.stack(retrained), others)
    return found


def _with_enough_pairs(dataset: BundleDataset, kind: EditKind) -> NDArray[np.int64]:
    """The nodes that can be edited: users with a choice, bundles with an item; with more pairs than are dropped."""
    if kind.endswith("added"):
        return np.unique((dataset.bi if edits_bundles(kind) else dataset.train)[:, 0]).astype(np.int64)
    return np.flatnonzero(np.bincount(_pairs(dataset, kind)[:, 0]) > SIZES[kind])


def draw_edits(
    dataset: BundleDataset, kind: EditKind, count: int = EDITED, *, popular: bool = False
) -> tuple[NDArray[np.int64], EdgeEdits]:
    """The edited nodes, and for each its edits: pairs of another node are added, some of its own dropped, or both.

    Random nodes, or those with the most user-bundle pairs (`popular`).
    """
    pairs, size, rng = _pairs(dataset, kind), SIZES[kind], generator(0, "edited users")
    nodes = rng.permutation(_with_enough_pairs(dataset, kind))
    if popular:
        choices = np.bincount(dataset.train[:, 1 if edits_bundles(kind) else 0], minlength=nodes.max() + 1)
        nodes = nodes[np.argsort(-choices[nodes], kind="stable")]
    nodes, lefts = np.sort(nodes[:count]), np.unique(pairs[:, 0])
    add: list[tuple[int, int]] = []
    drop: list[tuple[int, int]] = []
    for node in nodes.tolist():
        own = neighbours(pairs, node)
        if not kind.endswith("added"):
            drop += [(node, one) for one in rng.permutation(own)[:size].tolist()]
        if not kind.endswith("dropped"):
            other = int(rng.choice(lefts[lefts != node]))
            new = np.setdiff1d(neighbours(pairs, other), own)
            add += [(node, one) for one in rng.permutation(new)[:size].tolist()]
    relation = _relation(kind)
    return nodes, EdgeEdits(
        add={relation: np.array(add, np.int32)} if add else {},
        drop={relation: np.array(drop, np.int32)} if drop else {},
    )


def edit_dataset(dataset: BundleDataset, edits: EdgeEdits) -> BundleDataset:
    """The data set with the edits in its training pairs; held-out pairs that were added are held out no longer."""
    users, bundles, items = len(dataset.users), len(dataset.bundles), len(dataset.items)
    train = edits.apply_to("ub", dataset.train, (users, bundles))
    codes = encode(train, bundles)

    def left(pairs: Pairs) -> Pairs:
        return pairs[~contains(codes, encode(pairs, bundles))]

    return replace(
        dataset,
        train=train,
        validation=left(dataset.validation),
        test=left(dataset.test),
        ui=edits.apply_to("ui", dataset.ui, (users, items)),
        bi=edits.apply_to("bi", dataset.bi, (bundles, items)),
    )


def whatif_changes(kind: EditKind, nodes: NDArray[np.int64], artifact: Artifact, edits: EdgeEdits) -> Changes:
    """The changes of scores that what-if predicts, without the unseen user and bundle."""
    after = edited_state(artifact, edits)
    return score_changes(kind, nodes, served(artifact), VectorScorer(after.users[:-1], after.bundles[:-1]))


def served(artifact: Artifact) -> VectorScorer:
    """The scores of a recommender, without the unseen user and bundle: those of cold-start nodes are filled in."""
    state = factual_state(artifact)
    return VectorScorer(state.users[:-1], state.bundles[:-1])


def score_changes(kind: EditKind, nodes: NDArray[np.int64], before: VectorScorer, after: VectorScorer) -> Changes:
    """The change of the scores of each edited user for all bundles, or of each edited bundle for all users."""
    found = [
        one.bundles[nodes] @ one.users.T if edits_bundles(kind) else one.users[nodes] @ one.bundles.T
        for one in (before, after)
    ]
    changes: Changes = (found[1] - found[0]).double().numpy()
    return changes


def edits_bundles(kind: EditKind) -> bool:
    """Whether bundles are edited, in their contents; otherwise users, in their histories."""
    return kind in ("swaps", "contents-added")


def _relation(kind: EditKind) -> Relation:
    return "bi" if edits_bundles(kind) else "ui" if kind.startswith("items") else "ub"


def _pairs(dataset: BundleDataset, kind: EditKind) -> Pairs:
    return {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}[_relation(kind)]
