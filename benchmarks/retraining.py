"""How well does what-if agree with retraining on the edited data, and with the truth of a simulated world?

Many users (or bundles) are edited at once, and the model is retrained on the edited data, with several seeds. For each
edited user the change of all bundles' scores by what-if is compared with the change by retraining; for an edited bundle
the change of all users' scores. What is printed is explained in clbr/evaluation/agreement.py. The edits:

    items-added, items-dropped       ten items of another user, or of the user's own
    bundles-added, bundles-dropped   two bundles of another user, or of the user's own
    swaps, contents-added            three items of a bundle replaced by, or three added of, another bundle's

Scores are compared as they are served, with the vectors of cold-start nodes filled in. With --compare other ways to
answer are measured as well: with all parameters fixed; with only the edited user's own vector moved by one step
(clbr/inference/own_vectors.py), or refitted; of each the mean of the other seeds' answers; and each edit asked alone.
Of an edited bundle the change of its mean score over users is compared as well, which decides how many users get it.
With --popular the users or bundles with the most choices are edited instead of random ones.

With --world the answers are compared with the true change instead, one node at a time. For added items also: of the
bundles that enter a user's first 20, the share that the user would truly choose (the true first 20 of bundles that the
user does not have, and those of validation and test), and the share of random ones. Edits of choices change no
preference in these worlds.

    python benchmarks/retraining.py DATA --seeds 4 --edits items-added,swaps --out runs [--compare] [--popular] [--count 20]
                                    [--model crosscbr] [--paradigm clbr] [--preset FILE.toml]
    python benchmarks/retraining.py DATA --world --edits items-added,items-dropped,swaps,contents-added --out runs
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from clbr.data.dataset import BundleDataset
from clbr.data.folder import ORIGIN, load, save
from clbr.data.pairs import neighbours
from clbr.evaluation.agreement import Changes, measure_agreement
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import Artifact
from clbr.inference.cold_start import encode_filled
from clbr.inference.export import run_artifact
from clbr.inference.own_vectors import RIDGE, ChoiceLoss, move_own_vectors
from clbr.inference.retraining import (
    EDITED,
    SIZES,
    EditKind,
    draw_edits,
    edit_dataset,
    edits_bundles,
    score_changes,
    served,
    whatif_changes,
)
from clbr.inference.whatif import factual_state
from clbr.models.base import Encoder, VectorScorer
from clbr.models.embeddings import Embeddings
from clbr.simulation.generate import SimulateConfig, draw
from clbr.simulation.parameters import world_config
from clbr.simulation.world import World
from clbr.training.config import compose, defaults_by_data
from clbr.training.run import resume, start
from clbr.training.run_folder import read_config
from clbr.training.runtime import use_threads

K = 20


def train_artifact(
    folder: Path, data: Path, dataset: BundleDataset, options: argparse.Namespace, seed: int
) -> Artifact:
    """Train a run, or resume it; return its artifact."""
    by_data = defaults_by_data(options.model, dataset)
    config = compose(
        str(data.resolve()),
        options.model,
        preset=options.preset,
        data_name=dataset.name.partition("-edited")[0],
        by_data=by_data,
        seed=seed,
        paradigm=options.paradigm,
    )
    if (folder / "config.toml").exists():
        if read_config(folder) != config:
            raise SystemExit(f"{folder}: was trained with other settings; choose another --out")
        resume(folder)
    else:
        start(folder, config, dataset)
    return run_artifact(folder, dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="trilevel")
    parser.add_argument("--preset")
    parser.add_argument("--paradigm", default="original")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--edits", default="items-added", help=f"some of {', '.join(SIZES)}, separated by commas")
    parser.add_argument("--compare", action="store_true", help="measure other ways to answer, too")
    parser.add_argument("--popular", action="store_true", help="edit the users or bundles with the most choices")
    parser.add_argument("--count", type=int, default=EDITED, help="how many users or bundles are edited")
    parser.add_argument("--world", action="store_true", help="the data were simulated: compare with the truth")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    dataset = load(options.data)
    print(f"{options.model}, {options.paradigm}, {dataset.name}")
    artifacts = []
    for seed in range(1 if options.world else options.seeds):
        run = options.out / f"{dataset.name}-{options.model}-{options.paradigm}-{seed}"
        artifacts.append(train_artifact(run, options.data, dataset, options, seed))
    if options.world:
        origin = SimulateConfig.from_toml(options.data / ORIGIN)
        world = draw(world_config(origin.like, origin.scale, origin.variant), origin.seed)
        for kind in options.edits.split(","):
            compare_with_truth(kind, artifacts[0], world)
        return
    for kind in options.edits.split(","):
        compare_with_retraining(kind, artifacts, dataset, options)


def compare_with_retraining(
    kind: EditKind,
    artifacts: list[Artifact],
    dataset: BundleDataset,
    options: argparse.Namespace,
) -> None:
    """Edit some nodes at once, retrain on all their edits with every seed, and print the agreement."""
    nodes, edits = draw_edits(dataset, kind, options.count, popular=options.popular)
    which = f"{kind}-popular" if options.popular else kind
    which += "" if options.count == EDITED else f"-{options.count}"
    edited = replace(edit_dataset(dataset, edits), name=f"{dataset.name}-edited-{which}")
    data = options.out / edited.name
    if not data.exists():
        save(edited, data)
    answers, retrained, before = [], [], [served(artifact) for artifact in artifacts]
    for seed, (artifact, plain) in enumerate(zip(artifacts, before, strict=True)):
        run = options.out / f"{edited.name}-{options.model}-{options.paradigm}-{seed}"
        after = served(train_artifact(run, data, edited, options, seed))
        answers.append({"answers": whatif_changes(kind, nodes, artifact, edits)})
        if options.compare:
            answers[-1] |= other_answers(kind, nodes, artifact, edits)
        retrained.append(score_changes(kind, nodes, plain, after))
    anew, seeds = np.stack(retrained), range(options.seeds)
    for name in answers[0]:
        found = np.stack([one[name] for one in answers])
        one = measure_agreement(found, seeds, anew, seeds)
        between = one.between  # of retrainings: the same for all answers
        numbers = f"plain {one.plain:.2f}, one retraining with another {between:.2f}"
        print(f"{kind}, {name}: {one}; {numbers}; {one.users} edited, {one.seeds} seeds; sd {spread(found)}")
        if edits_bundles(kind):
            print(f"{kind}, {name}, {mean_scores(found, anew)}")
    if options.compare:
        for name in answers[0]:
            correlation = mean_of_others(np.stack([one[name] for one in answers]), anew)
            corrected = correlation / between**0.5
            mean = f"{kind}, {name}, mean of the other {options.seeds - 1} seeds"
            print(f"{mean}: {corrected:.2f}; plain {correlation:.2f}")
        alone, together = one_by_one(kind, nodes, artifacts[0], edits), answers[0]["answers"]
        both = (measure_agreement(some[None], [0], anew[1:], seeds[1:]) for some in (alone, together))
        print("{}, seed 0, each edit asked alone: {}; all at once {}; ".format(kind, *both), end="")
        print(f"one with the other {rank_correlation(alone, together):.3f}")
        if edits_bundles(kind):
            print(f"{kind}, seed 0, each edit asked alone, {mean_scores(alone[None], anew)}")
    without = score_changes(kind, nodes, before[0], before[1])
    print(f"{kind}, sd of the changes: retrained {spread(anew)}, two seeds without edits {spread(without)}", flush=True)


def one_by_one(kind: EditKind, nodes: NDArray[np.int64], artifact: Artifact, edits: EdgeEdits) -> Changes:
    """Return the changes of scores that what-if predicts, each node edited alone: as they are asked for in use."""

    return np.concatenate(
        [whatif_changes(kind, nodes[at : at + 1], artifact, edits_of(nodes[at], edits)) for at in range(len(nodes))]
    )


def edits_of(node: int, edits: EdgeEdits) -> EdgeEdits:
    """Return the edits of one node alone."""
    add, drop = ({one: pairs[pairs[:, 0] == node] for one, pairs in side.items()} for side in (edits.add, edits.drop))
    return EdgeEdits(add=add, drop=drop)


def mean_scores(found: Changes, anew: Changes) -> str:
    """Return how well the change of each bundle's mean score agrees with that of retraining, means over seeds."""
    shifts = found.mean((0, 2)), anew.mean((0, 2))
    correlation, error = np.corrcoef(*shifts)[0, 1], np.mean((shifts[0] - shifts[1]) ** 2) ** 0.5
    return f"change of a bundle's mean score: correlation {correlation:.2f}, RMSE {error:.3f}"


def mean_of_others(found: Changes, anew: Changes) -> float:
    """Return the correlation of the mean answer of all seeds but one with the retraining of that one."""
    others = [np.delete(found, seed, axis=0).mean(0) for seed in range(len(found))]
    return float(np.mean([rank_correlation(*pair) for pair in zip(others, anew, strict=True)]))


def rank_correlation(one: Changes, other: Changes) -> float:
    """Return the rank correlation of two changes, mean over users; without users for whom nothing changes."""
    changed = (np.ptp(one, axis=1) > 0) & (np.ptp(other, axis=1) > 0)
    pairs = zip(one[changed], other[changed], strict=True)
    return float(np.mean([spearmanr(*pair).statistic for pair in pairs]))


def spread(changes: Changes) -> str:
    """Return the standard deviation over bundles, mean over users and seeds."""
    return f"{changes.std(-1).mean():.3f}"


def other_answers(kind: EditKind, nodes: NDArray[np.int64], artifact: Artifact, edits: EdgeEdits) -> dict[str, Changes]:
    """Return the changes of scores with all parameters fixed, and with the users' own vectors moved, or refitted."""
    model = artifact.model
    assert isinstance(model, Encoder)
    before, graph = factual_state(artifact), edits.apply(artifact.graph)
    fixed = encode_filled(model, graph)
    found = {"all parameters fixed": fixed}
    if model.own_vectors() and not edits_bundles(kind):
        users, state = nodes.tolist(), (before.graph, before.embeddings)
        found["own vectors moved alone"] = move_own_vectors(model, users, state, (graph, fixed))
        found["own vectors refitted"] = refit(model, graph, fixed, users)
    return {
        name: score_changes(
            kind, nodes, served(artifact), VectorScorer(after.joined("users")[:-1], after.joined("bundles")[:-1])
        )
        for name, after in found.items()
    }


def refit(
    model: Encoder, graph: BundleGraph, embeddings: Embeddings, users: Sequence[int], steps: int = 10
) -> Embeddings:
    """Return the vectors on the edited graph, with each user's own vector where the user's part of the loss is least."""
    own, levels = model.own_vectors(), dict(embeddings.levels)
    assert own is not None
    levels |= {name: replace(levels[name], users=levels[name].users.clone()) for name in own.levels}
    for user in users:
        row = own.table[user].clone()
        for _ in range(steps):
            of_user = {name: (level.users[user], level.bundles) for name, level in levels.items()}
            loss = ChoiceLoss.of(own.levels, of_user, graph, user)
            step = torch.linalg.solve(loss.hessian() + RIDGE * torch.eye(len(row)), -loss.gradient() - RIDGE * row)
            row += step
            for name in own.levels:
                levels[name].users[user] += step
    return Embeddings(levels)


def compare_with_truth(kind: EditKind, artifact: Artifact, world: World) -> None:
    """Edit nodes one by one, and compare the changes of scores with the world's."""
    nodes, edits = draw_edits(world.dataset, kind, len(world.dataset.users))
    found, true = one_by_one(kind, nodes, artifact, edits), true_changes(kind, nodes, world, edits)
    changed = (np.ptp(found, axis=1) > 0) & (np.ptp(true, axis=1) > 0)
    values = [spearmanr(*pair).statistic for pair in zip(found[changed], true[changed], strict=True)]
    error = 1.96 * np.std(values) / len(values) ** 0.5
    print(f"{kind}, rank correlation with the true change: mean {np.mean(values):.3f} ± {error:.3f}, ", end="")
    print(f"sd {np.std(values):.3f}; {len(values)} edited", flush=True)
    if kind == "items-added":
        compare_entered(nodes, found, edits, artifact, world)


def true_changes(kind: EditKind, nodes: NDArray[np.int64], world: World, edits: EdgeEdits) -> Changes:
    """Return the change of the preference of each edited user for all bundles, or of all users for each bundle."""
    other = np.arange(len(world.dataset.users if edits_bundles(kind) else world.dataset.bundles))
    left, right = (grid.ravel() for grid in np.meshgrid(nodes, other, indexing="ij"))
    pairs = np.stack([right, left] if edits_bundles(kind) else [left, right], axis=1)
    change = world.preference("ub", pairs, edits) - world.preference("ub", pairs)
    return change.reshape(len(nodes), len(other)).astype(np.float64)


def compare_entered(
    users: NDArray[np.int64], changes: Changes, edits: EdgeEdits, artifact: Artifact, world: World
) -> None:
    """Print which share of the bundles that enter a user's list the user would truly choose."""
    dataset, state = world.dataset, factual_state(artifact)
    correct: list[bool] = []
    random_shares: list[float] = []
    for user, change, choices in zip(users.tolist(), changes, world.choices(users, K, edits).tolist(), strict=True):
        known = neighbours(dataset.train, user)
        wanted = {*choices}.union(*(neighbours(pairs, user).tolist() for pairs in (dataset.validation, dataset.test)))
        scores = state.scores(user)[:-1].numpy() + change
        scores[known] = -np.inf
        entered = set(np.argsort(-scores, kind="stable")[:K].tolist()) - set(state.ranking(user, K))
        correct += [bundle in wanted for bundle in entered]
        random_shares += [len(wanted) / (len(scores) - len(known))] * len(entered)
    share = np.mean(correct)
    error = 1.96 * (share * (1 - share) / len(correct)) ** 0.5
    print(f"of {len(correct)} bundles that enter, truly chosen: {100 * share:.1f} % ± {100 * error:.1f}; ", end="")
    print(f"of random bundles {100 * np.mean(random_shares):.1f} %", flush=True)


if __name__ == "__main__":
    main()
