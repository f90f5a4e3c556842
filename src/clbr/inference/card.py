"""The model card: what a recommender was trained on, how good it is as served, and for whom it is not."""

import numpy as np

from clbr.data.dataset import BundleDataset
from clbr.data.describe import SEGMENTS, segment_users
from clbr.data.sources import PARTIAL
from clbr.evaluation.baselines import LEAK, best_baseline
from clbr.evaluation.metrics import HEADLINE
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.inference.answers import Accuracy
from clbr.inference.artifact import About, Artifact
from clbr.inference.caveat import whatif_caveat
from clbr.inference.recommend import KnownScorer, diversity_cost
from clbr.models.base import ClosedForm
from clbr.models.cold import COLD_LEVEL
from clbr.models.registry import find_model
from clbr.rng import generator

RECALL = "recall@20"
DIVERSITY_USERS = 300
"""Users for whom the cost of diversity is measured."""
RETRAIN_SHARE = 0.1
"""Training is due when updates have added more than this share of users, bundles, items or pairs of a relation."""


def measure(artifact: Artifact, dataset: BundleDataset) -> About:
    """`About` with metrics of the served scores, filled-in cold-start vectors included."""
    served, found = KnownScorer(artifact), artifact.about
    if len(dataset.validation):
        means = evaluate(served, dataset, split="validation").means
        users = np.unique(dataset.validation[:, 0])
        some = generator(found.seed, "users of diversity").permutation(users)[:DIVERSITY_USERS]
        wanted = dataset.validation[np.isin(dataset.validation[:, 0], some)]
        cost = diversity_cost(artifact, wanted, min(20, len(dataset.bundles)))
        found = found.model_copy(update={"validation": {name: means[name] for name in HEADLINE}, "diversity": cost})
    if len(dataset.test):
        result = evaluate(served, dataset, split="test")
        test = {name: result[name] for name in HEADLINE}
        baseline = best_baseline(dataset, split="test", metric=found.metric)
        update = {"test": test, "segments": _by_segment(result, dataset), "baseline": baseline}
        found = found.model_copy(update=update)
    return found


def _by_segment(result: Evaluation, dataset: BundleDataset) -> dict[str, dict[str, float]]:
    """Test metrics of heavy, light and cold-start users."""
    segment = segment_users(dataset.train, len(dataset.users))[result.users]
    found: dict[str, dict[str, float]] = {}
    for number, name in enumerate(SEGMENTS):
        mine = segment == number
        if mine.any():
            found[name] = {"users": float(mine.sum())}
            found[name] |= {metric: float(result.per_user[metric][mine].mean()) for metric in HEADLINE}
    return found


def summarize_accuracy(about: About) -> Accuracy:
    """What was measured, beside the best baseline, in sentences that hold for every split of the data."""
    recall, baseline = about.test.get(RECALL), about.baseline
    if recall is None:
        return Accuracy(verdict="unknown", sentences=["Accuracy is not known: there were no test pairs to measure."])
    users = f"{sum(values['users'] for values in about.segments.values()):,.0f} users"
    found = f"On average over {users}, {_percent(recall)} of a user's held-out bundles are among the first 20."
    if baseline is None:
        missing = "No simple rule was measured beside it: export the model again to compare."
        return Accuracy(verdict="unknown", sentences=[found, missing])
    rule = f"The {'best ' if about.validation else ''}simple rule, {baseline.name},"
    sentences = [found, f"{rule} finds {_percent(baseline.means[RECALL])}."]
    if any(note.startswith(LEAK) for note in baseline.notes):
        leak = "These figures say nothing about the model: held-out bundles can be read off the items that users have."
        return Accuracy(verdict="leak", sentences=[leak, *sentences])
    if recall < baseline.means[RECALL]:
        return Accuracy(verdict="below", sentences=[*sentences, "The model finds fewer than this rule."])
    if baseline.is_above(about.test):
        below = f"By {baseline.shared_metric(about.test)} the model is below this rule."
        return Accuracy(verdict="below", sentences=[*sentences, below])
    return Accuracy(verdict="not below", sentences=sentences)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def write_card(about: About, dataset: BundleDataset) -> str:
    """The card as Markdown."""
    model, paper = find_model(about.model), find_model(about.model).citation
    chosen = "" if issubclass(model, ClosedForm) else f" The epoch ({about.best_epoch}) was chosen on validation."
    strategy = "" if about.paradigm == "original" else f" with the training strategy {about.paradigm}"
    lines = [
        f"# {about.model} on {about.data}",
        "",
        f"A bundle recommender: {about.model}{f' ({paper})' if paper else ''}, trained{strategy}, "
        f"seed {about.seed}, with clbr {about.version}.{chosen}",
        "",
        "## Training data",
        "",
        f"{about.data}: {about.users:,} users, {about.bundles:,} bundles, {about.items:,} items; "
        f"{len(dataset.train):,} user-bundle pairs, {len(dataset.ui):,} user-item pairs, "
        f"{len(dataset.bi):,} bundle-item pairs. Checksum {about.fingerprint[:16]}.",
    ]
    if about.data in PARTIAL:
        lines += ["", f"This is a part of {PARTIAL[about.data]}: figures are not comparable with published ones."]
    if about.added:
        lines += ["", "## Added since training", "", describe_added(about, dataset)]
    lines += ["", "## Accuracy", "", *_metrics(about, before_update=bool(about.added) and not len(dataset.test))]
    if about.added and about.test and not len(dataset.test):
        lines += ["", "All figures were measured before the last update: it had no test pairs."]
    if about.diversity:
        lines += ["", "## Cost of diversity", "", *_diversity(about)]
    if about.levels and model.relations:
        lines += ["", "## What-if answers", "", whatif_caveat(about.model, about.settings, about.whatif_agreement)]
    lines += ["", "## Limits", "", *_limits(about, dataset)]
    return "\n".join(lines) + "\n"


def describe_added(about: About, dataset: BundleDataset) -> str:
    """How much updates have added since training, and whether training is due."""
    now = {"users": about.users, "bundles": about.bundles, "items": about.items}
    now |= {"user_bundle": len(dataset.train), "user_item": len(dataset.ui), "bundle_item": len(dataset.bi)}
    added = {name: about.added.get(name, 0) for name in now}
    shares = {name: added[name] / max(1, total - added[name]) for name, total in now.items()}
    words = {name: f"{name.replace('_', '-')} pairs" if "_" in name else name for name in now}
    parts = [f"{words[name]} {added[name]:,} ({share:.1%})" for name, share in shares.items()]
    text = f"Added, with the share of what was trained on: {', '.join(parts)}."
    if issubclass(find_model(about.model), ClosedForm):
        return f"{text} The model was computed from all of it, as by training."
    if max(shares.values()) > RETRAIN_SHARE:
        return f"{text} Only new nodes were fitted, and a share is above {RETRAIN_SHARE:.0%}: train again on all data."
    return f"{text} Only new nodes were fitted. Train again on all data when a share is above {RETRAIN_SHARE:.0%}."


def _cold_start(about: About) -> str:
    """What was done about users and bundles without choices."""
    if COLD_LEVEL in about.levels:
        return ": bundles that nobody chose have scores calibrated on validation, cold-start users filled-in vectors"
    return ": cold-start users and bundles have filled-in vectors"


def _metrics(about: About, before_update: bool) -> list[str]:
    if not about.test:
        return ["Not known: the data set has no test pairs."]
    names = list(about.test)
    rows = [
        ("Measured before the update. " if before_update else "")
        + "Full ranking over all bundles, percent, measured on what is served"
        + (_cold_start(about) if about.levels else "")
        + ". Heavy users chose more bundles than the median user, light users at most as many"
        + (", cold users none." if "cold" in about.segments else "."),
        "",
        "| test | users | " + " | ".join(names) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    everyone = sum(values["users"] for values in about.segments.values())
    for name, values in {"all": about.test | {"users": everyone}, **about.segments}.items():
        figures = " | ".join(f"{100 * values[metric]:.2f}" for metric in names)
        rows.append(f"| {name} | {values['users']:,.0f} | {figures} |")
    if about.baseline:
        figures = " | ".join(f"{100 * about.baseline.means[metric]:.2f}" for metric in names)
        rows.append(f"| baseline, all: {about.baseline.label} | {everyone:,.0f} | {figures} |")
        rows += ["", " ".join([about.baseline.verdict(about.model, about.test), *about.baseline.notes])]
    return rows


def _diversity(about: About) -> list[str]:
    rows = [
        f"For at most {DIVERSITY_USERS} users with validation pairs: recall in percent, and the share of items that "
        "two neighbours in a list of 20 have in common.",
        "",
        "| diversity | recall@20 on validation | shared items |",
        "|---|---|---|",
    ]
    for diversity, found in about.diversity.items():
        rows.append(f"| {diversity} | {100 * found['recall@20']:.2f} | {100 * found['shared contents']:.1f} |")
    return rows


def _limits(about: About, dataset: BundleDataset) -> list[str]:
    """For whom there is too little data."""
    used = ("ub", *find_model(about.model).relations)
    has_bundles = np.bincount(dataset.train[:, 0], minlength=len(dataset.users)) > 0
    has_items = np.bincount(dataset.ui[:, 0], minlength=len(dataset.users)) > 0
    is_chosen = np.bincount(dataset.train[:, 1], minlength=len(dataset.bundles)) > 0
    has_contents = np.bincount(dataset.bi[:, 0], minlength=len(dataset.bundles)) > 0
    tested = np.isin(np.flatnonzero(~has_bundles & has_items), dataset.test[:, 0]).any()
    unknown = "" if tested else ", and no test pair measures their quality"
    by_items = "follow from their items alone" if "ui" in used else "are the same for all of them"
    by_contents = "ranked by their contents alone" if "bi" in used else "which the model knows nothing of"
    return [
        f"- Users with items but no bundle: {(~has_bundles & has_items).sum():,}. Their lists {by_items}{unknown}.",
        f"- Users with neither: {(~has_bundles & ~has_items).sum():,}. Their lists say nothing about them.",
        f"- Bundles that nobody chose in training: {(~is_chosen & has_contents).sum():,}, {by_contents}, "
        f"and {(~is_chosen & ~has_contents).sum():,} without contents.",
        "- The model has learned from choices among what people were shown. It knows nothing of stock, price, age or "
        "taste that these choices do not show, and it repeats the popularity that is in them.",
    ]
