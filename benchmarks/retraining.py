"""How well does what-if with fixed parameters agree with retraining on the edited data, and with the truth of a world?

A few items of another user are added to the history of many users at once. The model is retrained on the edited data
with the same seed. For each user the change of all bundles' scores by what-if is compared with the change by retraining
(rank correlation); retraining on the same data with another seed shows the effect of the seed alone. With --world the
true change is known as well: of the bundles that enter a user's first 20, the share that the user would truly choose
(the true first 20 of bundles that the user does not have, and those of validation and test), and the share of random ones.

    python benchmarks/retraining.py DATA --preset youshu --out runs [--paradigm clbr] [--world]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from clbr.data.dataset import BundleDataset
from clbr.data.folder import ORIGIN, load, save
from clbr.data.pairs import neighbours
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.export import export
from clbr.inference.whatif import edited_state, factual_state
from clbr.models.base import Scorer
from clbr.rng import generator
from clbr.simulation.generate import SimulateConfig, draw
from clbr.simulation.parameters import world_config
from clbr.simulation.world import World
from clbr.training.config import compose
from clbr.training.run import resume, start
from clbr.training.run_folder import best_scorer
from clbr.training.runtime import use_threads

EDITED_USERS, ADDED_ITEMS, K = 200, 10, 20


def train_scorer(folder: Path, data: Path, dataset: BundleDataset, options: argparse.Namespace, seed: int) -> Scorer:
    """Train a run, or resume it; return its scorer."""
    config = compose(str(data.resolve()), options.model, preset=options.preset, seed=seed, paradigm=options.paradigm)
    resume(folder) if (folder / "config.toml").exists() else start(folder, config, dataset)
    return best_scorer(folder, dataset)


def draw_edits(dataset: BundleDataset, count: int) -> tuple[np.ndarray, EdgeEdits]:
    """Draw users, and for each some items of another user that the user does not have."""
    rng = generator(0, "edited users")
    users = np.sort(rng.permutation(np.unique(dataset.train[:, 0]))[:count])
    added = []
    for user in users.tolist():
        other = int(rng.choice(np.setdiff1d(dataset.ui[:, 0], [user])))
        new = np.setdiff1d(neighbours(dataset.ui, other), neighbours(dataset.ui, user))
        added += [(user, item) for item in rng.permutation(new)[:ADDED_ITEMS].tolist()]
    return users, EdgeEdits(add={"ui": np.array(added, np.int32)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="crosscbr")
    parser.add_argument("--preset")
    parser.add_argument("--paradigm", default="original")
    parser.add_argument("--world", action="store_true", help="the data were simulated: compare with the truth")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    dataset = load(options.data)
    name = f"{dataset.name}-{options.model}-{options.paradigm}"
    before = train_scorer(options.out / f"{name}-0", options.data, dataset, options, 0)
    folder = options.out / f"{name}-artifact"
    if not folder.exists():
        export(options.out / f"{name}-0", folder)
    artifact = open_artifact(folder)
    print(f"{options.model}, {options.paradigm}, {dataset.name}: {ADDED_ITEMS} items added to each edited user")
    if options.world:
        origin = SimulateConfig.from_toml(options.data / ORIGIN)
        world = draw(world_config(origin.like, origin.scale, origin.variant), origin.seed)
        compare_with_truth(artifact, world, dataset)
    else:
        compare_with_retraining(artifact, before, dataset, options)


def compare_with_retraining(
    artifact: Artifact, before: Scorer, dataset: BundleDataset, options: argparse.Namespace
) -> None:
    """Edit some users at once, retrain on all their edits, and print the rank correlations."""
    users, edits = draw_edits(dataset, EDITED_USERS)
    shape = (len(dataset.users), len(dataset.items))
    edited = replace(dataset, name=f"{dataset.name}-edited", ui=edits.apply_to("ui", dataset.ui, shape))
    data = options.out / edited.name
    if not data.exists():
        save(edited, data)
    name, rows = f"{dataset.name}-{options.model}-{options.paradigm}", torch.from_numpy(users)
    old, new = factual_state(artifact), edited_state(artifact, edits)
    whatif_changes = (new.users[rows] @ new.bundles.T - old.users[rows] @ old.bundles.T)[:, :-1]
    retrained = train_scorer(options.out / f"{name}-edited-0", data, edited, options, 0)
    other_seed = train_scorer(options.out / f"{name}-1", options.data, dataset, options, 1)
    for label, scorer in (("on the edited data", retrained), ("on the same data, other seed", other_seed)):
        changes = scorer.scores(rows) - before.scores(rows)
        found = [spearmanr(one, other).statistic for one, other in zip(whatif_changes, changes, strict=True)]
        print(f"rank correlation of what-if changes with retraining {label}, {len(users)} users: ", end="")
        print(f"mean {np.mean(found):.3f}, sd {np.std(found):.3f}", flush=True)


def compare_with_truth(artifact: Artifact, world: World, dataset: BundleDataset) -> None:
    """Edit every user who has a bundle, one by one, and compare the changes with the world's."""
    users, edits = draw_edits(dataset, len(dataset.users))
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
