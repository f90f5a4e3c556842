"""How far does what-if with frozen parameters agree with training anew after the edit? And, in a world, with the truth?

Many users are edited at once, each her own history: a few items of another user's are added. The model is trained anew
on the edited data with the same seed. For each user the change of every bundle's score, frozen and retrained, is compared
by rank correlation; training anew on the same data with another seed shows what chance alone does. With --world the
true change is known, too: of the bundles that enter a user's first 20, the share that she truly would choose (her first
20 of all she does not have, or one that validation and test hold back), against bundles drawn by chance.

    python benchmarks/retraining.py DATA --preset youshu --out runs [--paradigm clbr] [--world]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from clbr import BundleDataset, EdgeEdits, load, save
from clbr.data.folder import ORIGIN
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.export import export
from clbr.inference.recommend import of_left
from clbr.inference.whatif import ask_user, edited, factual
from clbr.models.base import Recommender
from clbr.rng import generator
from clbr.simulation.generate import SimulateConfig, draw
from clbr.simulation.parameters import world_config
from clbr.training.config import compose
from clbr.training.run import resume, start
from clbr.training.run_folder import best_recommender
from clbr.training.runtime import use_threads

EDITED, ITEMS, FIRST = 200, 10, 20


def trained(folder: Path, data: Path, dataset: BundleDataset, options: argparse.Namespace, seed: int) -> Recommender:
    config = compose(str(data.resolve()), options.model, preset=options.preset, seed=seed, paradigm=options.paradigm)
    resume(folder) if (folder / "config.toml").exists() else start(folder, config, dataset)
    return best_recommender(folder, dataset)


def edits_of(dataset: BundleDataset, count: int) -> tuple[np.ndarray, EdgeEdits]:
    """For some users items of another user that they do not have."""
    rng = generator(0, "edited users")
    users = np.sort(rng.permutation(np.unique(dataset.train[:, 0]))[:count])
    added = []
    for user in users.tolist():
        other = int(rng.choice(np.setdiff1d(dataset.ui[:, 0], [user])))
        new = np.setdiff1d(of_left(dataset.ui, other), of_left(dataset.ui, user))
        added += [(user, item) for item in rng.permutation(new)[:ITEMS].tolist()]
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
    before = trained(options.out / f"{name}-0", options.data, dataset, options, 0)
    artifact = options.out / f"{name}-artifact"
    if not artifact.exists():
        export(options.out / f"{name}-0", artifact)
    opened = open_artifact(artifact)
    print(f"{options.model}, {options.paradigm}, {dataset.name}: {ITEMS} items added to each user edited")
    if options.world:
        against_truth(opened, options.data, dataset)
    else:
        against_training(opened, before, dataset, options)


def against_training(
    opened: Artifact, before: Recommender, dataset: BundleDataset, options: argparse.Namespace
) -> None:
    """Some users are edited at once, and the model is trained anew on all their edits."""
    users, edits = edits_of(dataset, EDITED)
    shape = (len(dataset.users), len(dataset.items))
    after = replace(dataset, name=f"{dataset.name}-edited", ui=edits.apply_to("ui", dataset.ui, shape))
    place = options.out / after.name
    if not place.exists():
        save(after, place)
    name, rows = f"{dataset.name}-{options.model}-{options.paradigm}", torch.from_numpy(users)
    then, now = factual(opened), edited(opened, edits)
    frozen = (now.users[rows] @ now.bundles.T - then.users[rows] @ then.bundles.T)[:, :-1]
    again = trained(options.out / f"{name}-edited-0", place, after, options, 0)
    other = trained(options.out / f"{name}-1", options.data, dataset, options, 1)
    for what, model in (("on the edited data", again), ("on the same data, other seed", other)):
        changes = model.scores(rows) - before.scores(rows)
        found = [spearmanr(one, change).statistic for one, change in zip(frozen, changes, strict=True)]
        print(f"rank correlation of the frozen change with that of training anew {what}, {len(users)} users: ", end="")
        print(f"mean {np.mean(found):.3f}, sd {np.std(found):.3f}", flush=True)


def against_truth(opened: Artifact, data: Path, dataset: BundleDataset) -> None:
    """Every user who has chosen anything is asked about by herself."""
    origin = SimulateConfig.from_toml(data / ORIGIN)
    world = draw(world_config(origin.like, origin.scale, origin.variant), origin.seed)
    users, edits = edits_of(dataset, len(dataset.users))
    truth, all_added = world.choices(users, FIRST, edits), edits.add["ui"]
    bundles = np.arange(len(dataset.bundles))
    right: list[bool] = []
    chances, correlations = [], []
    for user, chosen in zip(users.tolist(), truth.tolist(), strict=True):
        hers = EdgeEdits(add={"ui": all_added[all_added[:, 0] == user]})
        if not hers.touches("ui"):
            continue
        wanted_any = {*chosen, *of_left(dataset.validation, user).tolist(), *of_left(dataset.test, user).tolist()}
        answer = ask_user(opened, user, hers, FIRST)
        risers = [move.bundle for move in answer.moves if move.before is None]
        right += [bundle in wanted_any for bundle in risers]
        chances += [len(wanted_any) / (len(bundles) - len(of_left(dataset.train, user)))] * len(risers)
        pairs = np.stack([np.full(len(bundles), user), bundles], axis=1)
        wanted = world.preference("ub", pairs, hers) - world.preference("ub", pairs)
        change = (edited(opened, hers).scores(user) - factual(opened).scores(user))[:-1]
        correlations.append(float(spearmanr(change, wanted).statistic))
    share, error = np.mean(right), 1.96 * (np.mean(right) * (1 - np.mean(right)) / len(right)) ** 0.5
    print(f"risers that the user truly would choose: {100 * share:.1f} % ± {100 * error:.1f} of {len(right)}; ", end="")
    print(f"by chance {100 * np.mean(chances):.1f} %")
    print(
        f"rank correlation of the change with the true one: mean {np.mean(correlations):.3f}, sd {np.std(correlations):.3f}"
    )


if __name__ == "__main__":
    main()
