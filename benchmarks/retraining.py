"""How far does what-if with frozen parameters agree with training anew after the edit? And, in a world, with the truth?

Many users are edited at once, each her own history: a few items of another user's are added. The model is trained anew
on the edited data with the same seed. For each user the change of every bundle's score, frozen and retrained, is compared
by rank correlation; training anew on the same data with another seed shows what chance alone does. With --world the
true change is known, too: of the bundles that enter a user's first 20, the share that she truly would choose (her first
20 of all she does not have), against bundles drawn by chance.

    python benchmarks/retraining.py DATA --preset youshu --out runs [--paradigm clbr] [--world]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from clbr import BundleDataset, EdgeEdits, load, save
from clbr.data.simulate import SimulateConfig, draw
from clbr.data.worlds import world_config
from clbr.data.write import ORIGIN
from clbr.models.interface import Recommender
from clbr.rng import generator
from clbr.serve.artefact import open_artefact
from clbr.serve.export import export
from clbr.serve.recommend import of_left
from clbr.serve.whatif import edited, factual
from clbr.train.environment import use_threads
from clbr.train.folder import best_recommender
from clbr.train.run import resume, start
from clbr.train.settings import compose

EDITED, ITEMS, FIRST = 200, 10, 20


def trained(folder: Path, data: Path, dataset: BundleDataset, options: argparse.Namespace, seed: int) -> Recommender:
    config = compose(str(data.resolve()), options.model, preset=options.preset, seed=seed, paradigm=options.paradigm)
    resume(folder) if (folder / "config.toml").exists() else start(folder, config, dataset)
    return best_recommender(folder, dataset)


def edits_of(dataset: BundleDataset) -> tuple[np.ndarray, EdgeEdits]:
    """For some users items of another user that they do not have."""
    rng = generator(0, "edited users")
    users = np.sort(rng.permutation(np.unique(dataset.train[:, 0]))[:EDITED])
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
    users, edits = edits_of(dataset)
    shape = (len(dataset.users), len(dataset.items))
    after = replace(dataset, name=f"{dataset.name}-edited", ui=edits.apply_to("ui", dataset.ui, shape))
    place = options.out / after.name
    if not place.exists():
        save(after, place)
    name = f"{dataset.name}-{options.model}-{options.paradigm}"
    before = trained(options.out / f"{name}-0", options.data, dataset, options, 0)
    artefact = options.out / f"{name}-artefact"
    if not artefact.exists():
        export(options.out / f"{name}-0", artefact)
    opened = open_artefact(artefact)
    then, now = factual(opened), edited(opened, edits)
    rows = torch.from_numpy(users)
    frozen = (now.users[rows] @ now.bundles.T - then.users[rows] @ then.bundles.T)[:, :-1]
    print(f"{options.model}, {options.paradigm}, {dataset.name}: {len(users)} users, {ITEMS} items added to each")
    if not options.world:
        again = trained(options.out / f"{name}-edited-0", place, after, options, 0).scores(rows) - before.scores(rows)
        chance = trained(options.out / f"{name}-1", options.data, dataset, options, 1).scores(rows) - before.scores(
            rows
        )
        for what, change in (
            ("trained anew on the edited data", again),
            ("trained anew, same data, other seed", chance),
        ):
            found = [spearmanr(one, other).statistic for one, other in zip(frozen, change, strict=True)]
            print(f"rank correlation with the frozen change, {what}: mean {np.mean(found):.3f}, sd {np.std(found):.3f}")
        return
    origin = SimulateConfig.from_toml(options.data / ORIGIN)
    world = draw(world_config(origin.like, origin.scale, origin.variant), origin.seed)
    truth = world.choices(users, FIRST, edits)
    right, shown, chance_right = 0, 0, 0.0
    for row, user in enumerate(users.tolist()):
        old = {p.bundle for p in then.ranking(user, FIRST)}
        risers = [p.bundle for p in now.ranking(user, FIRST) if p.bundle not in old]
        right += len({*risers} & {*truth[row].tolist()})
        shown += len(risers)
        chance_right += len(risers) * FIRST / (len(dataset.bundles) - len(of_left(dataset.train, user)))
    pairs = np.stack(
        [np.repeat(users, len(dataset.bundles)), np.tile(np.arange(len(dataset.bundles)), len(users))], axis=1
    )
    wanted = world.preference("ub", pairs, edits) - world.preference("ub", pairs)
    found = [spearmanr(a, b).statistic for a, b in zip(frozen, wanted.reshape(len(users), -1), strict=True)]
    print(
        f"risers that she truly would choose: {100 * right / shown:.1f} % of {shown}; by chance {100 * chance_right / shown:.1f} %"
    )
    print(f"rank correlation of the change with the true one: mean {np.mean(found):.3f}, sd {np.std(found):.3f}")


if __name__ == "__main__":
    main()
