"""How well does what-if with fixed parameters agree with retraining on the edited data, and with the truth of a world?

Many users (or bundles) are edited at once, and the model is retrained on the edited data, with several seeds. For each
edited user the change of all bundles' scores by what-if is compared with the change by retraining; for an edited bundle
the change of all users' scores. What is printed is explained in clbr/evaluation/agreement.py. The edits:

    items-added, items-dropped       ten items of another user, or of the user's own
    bundles-added, bundles-dropped   two bundles of another user, or of the user's own
    swaps                            three items of a bundle, replaced by items of another bundle

With --world the true change is known as well: of the bundles that enter a user's first 20, the share that the user would
truly choose (the true first 20 of bundles that the user does not have, and those of validation and test), and the share
of random ones.

    python benchmarks/retraining.py DATA --seeds 4 --edits items-added,swaps --out runs [--model crosscbr] [--paradigm clbr]
    python benchmarks/retraining.py DATA --world --out runs
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from clbr.data.dataset import BundleDataset
from clbr.data.folder import ORIGIN, load, save
from clbr.data.pairs import Relation, neighbours
from clbr.evaluation.agreement import measure_agreement
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact
from clbr.inference.export import run_artifact
from clbr.inference.whatif import edited_state, factual_state
from clbr.models.base import Scorer, VectorScorer
from clbr.rng import generator
from clbr.simulation.generate import SimulateConfig, draw
from clbr.simulation.parameters import world_config
from clbr.simulation.world import World
from clbr.training.config import compose, defaults_by_data
from clbr.training.run import resume, start
from clbr.training.run_folder import best_scorer
from clbr.training.runtime import use_threads

EDITED, K = 200, 20
SIZES = {"items-added": 10, "items-dropped": 10, "bundles-added": 2, "bundles-dropped": 2, "swaps": 3}
RELATIONS: dict[str, Relation] = {"items": "ui", "bundles": "ub", "swaps": "bi"}


def train_scorer(folder: Path, data: Path, dataset: BundleDataset, options: argparse.Namespace, seed: int) -> Scorer:
    """Train a run, or resume it; return its scorer."""
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
    resume(folder) if (folder / "config.toml").exists() else start(folder, config, dataset)
    return best_scorer(folder, dataset)


def draw_edits(dataset: BundleDataset, kind: str, count: int) -> tuple[np.ndarray, EdgeEdits]:
    """Draw the edited users (or bundles), and for each its edits: of other nodes' pairs, or of its own."""
    what, _, how = kind.partition("-")
    relation, size = RELATIONS[what], SIZES[kind]
    pairs = {"ui": dataset.ui, "ub": dataset.train, "bi": dataset.bi}[relation]
    rng, add, drop = generator(0, "edited users"), [], []
    enough = np.flatnonzero(np.bincount(pairs[:, 0]) > size) if how != "added" else np.unique(dataset.train[:, 0])
    nodes = np.sort(rng.permutation(enough)[:count])
    for node in nodes.tolist():
        own = neighbours(pairs, node)
        if how != "added":
            drop += [(node, one) for one in rng.permutation(own)[:size].tolist()]
        if how != "dropped":
            other = int(rng.choice(np.setdiff1d(pairs[:, 0], [node])))
            new = np.setdiff1d(neighbours(pairs, other), own)
            add += [(node, one) for one in rng.permutation(new)[:size].tolist()]
    edits = {name: {relation: np.array(found, np.int32)} for name, found in (("add", add), ("drop", drop)) if found}
    return nodes, EdgeEdits(**edits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="trilevel")
    parser.add_argument("--preset")
    parser.add_argument("--paradigm", default="original")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--edits", default="items-added", help=f"some of {', '.join(SIZES)}, separated by commas")
    parser.add_argument("--world", action="store_true", help="the data were simulated: compare with the truth")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    dataset = load(options.data)
    print(f"{options.model}, {options.paradigm}, {dataset.name}")
    artifacts, before = [], []
    for seed in range(1 if options.world else options.seeds):
        run = options.out / f"{dataset.name}-{options.model}-{options.paradigm}-{seed}"
        before.append(train_scorer(run, options.data, dataset, options, seed))
        artifacts.append(run_artifact(run, dataset))
    if options.world:
        origin = SimulateConfig.from_toml(options.data / ORIGIN)
        world = draw(world_config(origin.like, origin.scale, origin.variant), origin.seed)
        compare_with_truth(artifacts[0], world, dataset)
        return
    for kind in options.edits.split(","):
        compare_with_retraining(kind, artifacts, before, dataset, options)


def compare_with_retraining(
    kind: str, artifacts: list[Artifact], before: list[Scorer], dataset: BundleDataset, options: argparse.Namespace
) -> None:
    """Edit some nodes at once, retrain on all their edits with every seed, and print the agreement."""
    nodes, edits = draw_edits(dataset, kind, EDITED)
    sizes = {"users": len(dataset.users), "bundles": len(dataset.bundles), "items": len(dataset.items)}
    shapes: dict[Relation, tuple[int, int]] = {
        "ub": (sizes["users"], sizes["bundles"]),
        "ui": (sizes["users"], sizes["items"]),
        "bi": (sizes["bundles"], sizes["items"]),
    }
    edited = replace(
        dataset,
        name=f"{dataset.name}-edited-{kind}",
        train=edits.apply_to("ub", dataset.train, shapes["ub"]),
        validation=_without(dataset.validation, edits),
        test=_without(dataset.test, edits),
        ui=edits.apply_to("ui", dataset.ui, shapes["ui"]),
        bi=edits.apply_to("bi", dataset.bi, shapes["bi"]),
    )
    data = options.out / edited.name
    if not data.exists():
        save(edited, data)
    answers, retrained = [], []
    for seed, (artifact, plain) in enumerate(zip(artifacts, before, strict=True)):
        old, new = factual_state(artifact), edited_state(artifact, edits)
        run = options.out / f"{edited.name}-{options.model}-{options.paradigm}-{seed}"
        after = train_scorer(run, data, edited, options, seed)
        predicted = [VectorScorer(state.users[:-1], state.bundles[:-1]) for state in (old, new)]  # no unseen nodes
        answers.append(_changes(kind, nodes, *predicted))
        retrained.append(_changes(kind, nodes, plain, after))
    found, mean = np.stack(answers), np.stack(answers).mean(0, keepdims=True)
    print(f"{kind}, one answer: {measure_agreement(found, np.stack(retrained))}")
    print(f"{kind}, the mean of {len(found)} answers: {measure_agreement(mean, np.stack(retrained), same_seeds=False)}")
    size = {
        "answers": np.stack(answers),
        "retrained": np.stack(retrained),
        "between two seeds without edits": _changes(kind, nodes, before[0], before[1]),
    }
    described = ", ".join(f"{name} {one.std(-1).mean():.3f}" for name, one in size.items())
    print(f"{kind}, sd of the changes: {described}", flush=True)


def _without(pairs: np.ndarray, edits: EdgeEdits) -> np.ndarray:
    """Held-out pairs that were not added to training."""
    added = {tuple(pair) for pair in edits.add["ub"].tolist()} if "ub" in edits.add else set()
    return pairs[[tuple(pair) not in added for pair in pairs.tolist()]] if added else pairs


def _changes(kind: str, nodes: np.ndarray, before: Scorer, after: Scorer) -> np.ndarray:
    """The change of the scores of each edited user for all bundles, or of each edited bundle for all users."""
    found = []
    for one in (before, after):
        assert isinstance(one, VectorScorer)
        scores = one.bundles[nodes] @ one.users.T if kind == "swaps" else one.users[nodes] @ one.bundles.T
        found.append(scores.double().numpy())
    return found[1] - found[0]


def compare_with_truth(artifact: Artifact, world: World, dataset: BundleDataset) -> None:
    """Edit every user who has a bundle, one by one, and compare the changes with the world's."""
    users, edits = draw_edits(dataset, "items-added", len(dataset.users))
    true_choices, added = world.choices(users, K, edits), edits.add["ui"]
    bundles = np.arange(len(dataset.bundles))
    correct: list[bool] = []
    random_shares, correlations = [], []
    for user, choices in zip(users.tolist(), true_choices.tolist(), strict=True):
        user_edits = EdgeEdits(add={"ui": added[added[:, 0] == user]})
        if not user_edits.touches("ui"):
            continue
        held_out = (neighbours(pairs, user).tolist() for pairs in (dataset.validation, dataset.test))
        wanted = {*choices}.union(*held_out)
        old, new = factual_state(artifact), edited_state(artifact, user_edits)
        listed = old.ranking(user, K)
        entered = [bundle for bundle in new.ranking(user, K) if bundle not in listed]
        correct += [bundle in wanted for bundle in entered]
        random_shares += [len(wanted) / (len(bundles) - len(neighbours(dataset.train, user)))] * len(entered)
        pairs = np.stack([np.full(len(bundles), user), bundles], axis=1)
        true_change = world.preference("ub", pairs, user_edits) - world.preference("ub", pairs)
        change = (new.scores(user) - old.scores(user))[:-1]
        correlations.append(float(spearmanr(change, true_change).statistic))
    share = np.mean(correct)
    error = 1.96 * (share * (1 - share) / len(correct)) ** 0.5
    print(f"of {len(correct)} bundles that enter, truly chosen: {100 * share:.1f} % ± {100 * error:.1f}; ", end="")
    print(f"of random bundles {100 * np.mean(random_shares):.1f} %")
    mean, deviation = np.mean(correlations), np.std(correlations)
    print(f"rank correlation of the change with the true change: mean {mean:.3f}, sd {deviation:.3f}")


if __name__ == "__main__":
    main()
