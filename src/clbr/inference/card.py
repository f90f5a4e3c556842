"""A model card in words: trained on what, how good, for whom not."""

import numpy as np

from clbr.data.dataset import BundleDataset
from clbr.data.sources import PARTIAL
from clbr.inference.artifact import About
from clbr.models.registry import find_model


def card(about: About, dataset: BundleDataset) -> str:
    """The card as Markdown."""
    way = "in the original way" if about.paradigm == "original" else f"with counterfactual views ({about.paradigm})"
    lines = [
        f"# {about.model} on {about.data}",
        "",
        f"A recommender of bundles: {about.model} ({find_model(about.model).citation}), trained {way}, "
        f"seed {about.seed}, with clbr {about.version}. The epoch ({about.best_epoch}) was chosen on validation.",
        "",
        "## Trained on what",
        "",
        f"{about.data}: {about.users:,} users, {about.bundles:,} bundles, {about.items:,} items; "
        f"{len(dataset.train):,} user-bundle pairs, {len(dataset.ui):,} user-item pairs, "
        f"{len(dataset.bi):,} bundle-item pairs. Checksum {about.fingerprint[:16]}.",
    ]
    if about.data in PARTIAL:
        lines += ["", f"This is a part of {PARTIAL[about.data]}: figures are not comparable with published ones."]
    lines += ["", "## How good", "", *_metrics(about)]
    if about.diversity:
        lines += ["", "## What diversity costs", "", *_diversity(about)]
    lines += ["", "## For whom not", "", *_limits(dataset)]
    return "\n".join(lines) + "\n"


def _metrics(about: About) -> list[str]:
    if not about.test:
        return ["Not known: the data set has no test pairs."]
    names = list(about.test)
    rows = [
        "Full ranking over all bundles, percent. Heavy users chose more bundles than the median user, light ones at "
        "most as many" + (", cold ones none." if "cold" in about.segments else "."),
        "",
        "| test | users | " + " | ".join(names) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    everyone = sum(values["users"] for values in about.segments.values())
    for name, values in {"all": about.test | {"users": everyone}, **about.segments}.items():
        rows.append(
            f"| {name} | {values['users']:,.0f} | " + " | ".join(f"{100 * values[m]:.2f}" for m in names) + " |"
        )
    return rows


def _diversity(about: About) -> list[str]:
    rows = [
        "For some of the users with validation pairs: what is found, percent, and how much of their contents two neighbours "
        "in a list of 20 share.",
        "",
        "| diversity | recall@20 on validation | shared contents |",
        "|---|---|---|",
    ]
    for share, found in about.diversity.items():
        rows.append(f"| {share} | {100 * found['recall@20']:.2f} | {100 * found['shared contents']:.1f} |")
    return rows


def _limits(dataset: BundleDataset) -> list[str]:
    """Who is known too little."""
    chose = np.bincount(dataset.train[:, 0], minlength=len(dataset.users)) > 0
    has_items = np.bincount(dataset.ui[:, 0], minlength=len(dataset.users)) > 0
    taken = np.bincount(dataset.train[:, 1], minlength=len(dataset.bundles)) > 0
    filled = np.bincount(dataset.bi[:, 0], minlength=len(dataset.bundles)) > 0
    tested = np.isin(np.flatnonzero(~chose & has_items), dataset.test[:, 0]).any()
    unknown = "" if tested else ", and no test pair tells how good it is"
    return [
        f"- {(~chose & has_items).sum():,} users have items but no bundle: what they get is drawn from their items "
        f"alone{unknown}.",
        f"- {(~chose & ~has_items).sum():,} users have neither: what they get says nothing about them.",
        f"- {(~taken & filled).sum():,} bundles were chosen by nobody in training: they are placed by their contents "
        f"alone. {(~taken & ~filled).sum():,} have no contents either.",
        "- It has learned from choices among what people were shown. It knows nothing of stock, price, age or taste "
        "that these choices do not show, and it repeats the fashions that are in them.",
    ]
