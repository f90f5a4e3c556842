"""Results of the CLBR paper, to compare with measured ones."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from clbr.data.dataset import BundleDataset
from clbr.data.sources import PARTIAL, PUBLISHED
from clbr.evaluation.metrics import HEADLINE


class PublishedValue(NamedTuple):
    """A published mean and its standard deviation (None if not stated); shares, not percent."""

    mean: float
    sd: float | None


def why_incomparable(dataset: BundleDataset) -> str:
    """Return why results on this data set cannot be compared with published ones; "" if they can."""
    if dataset.name in PARTIAL:
        return f"{dataset.name} is a part of {PARTIAL[dataset.name]}: not comparable with published results."
    stated = PUBLISHED.get(dataset.name)
    if stated is None or dataset.name not in _tables()["overall"]:
        return f"The paper has no results on {dataset.name}."
    counts = (len(dataset.users), len(dataset.bundles), len(dataset.items))
    if counts != (stated.users, stated.bundles, stated.items):
        return f"This data set is named {dataset.name} but has another size: not comparable with published results."
    return ""


def published_values(table: str, dataset: str, model: str, variant: str) -> dict[str, PublishedValue]:
    """Return the values in a table of the paper for a model and variant, by metric; empty if it has none."""
    tables = _tables()
    values = tables[table].get(dataset, {}).get(model, {}).get(variant)
    if values is None and variant == "original":  # only the first table has it
        values = tables["overall"].get(dataset, {}).get(model, {}).get(variant)
    if values is None:
        return {}
    deviations = values.get("sd", [None] * len(values["mean"]))
    pairs = zip(values["mean"], deviations, strict=True)
    return {
        metric: PublishedValue(mean / 100, None if sd is None else sd / 100)
        for metric, (mean, sd) in zip(HEADLINE, pairs, strict=False)
    }


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("clbr.experiments.report").joinpath("published.toml").read_text())
