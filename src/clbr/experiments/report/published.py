"""The paper's own figures, to stand beside measured ones."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from clbr.data.dataset import BundleDataset
from clbr.data.sources import PARTIAL, PUBLISHED
from clbr.evaluation.metrics import HEADLINE


class Figure(NamedTuple):
    """A published mean and, where it was stated, its standard deviation; as shares, not percent."""

    mean: float
    sd: float | None


def comparable(dataset: BundleDataset) -> str:
    """Why figures on this data set cannot be held against published ones; empty if they can."""
    if dataset.name in PARTIAL:
        return f"{dataset.name} is a part of {PARTIAL[dataset.name]}: figures are not comparable with published ones."
    stated = PUBLISHED.get(dataset.name)
    if stated is None or dataset.name not in _tables()["overall"]:
        return f"The paper has no figures on {dataset.name}."
    counts = (len(dataset.users), len(dataset.bundles), len(dataset.items))
    if counts != (stated.users, stated.bundles, stated.items):
        return f"This data set is named {dataset.name} but is of another size: not comparable with published figures."
    return ""


def published(table: str, dataset: str, model: str, arm: str) -> dict[str, Figure]:
    """By metric what a table of the paper says of a model's arm; empty where it says nothing."""
    tables = _tables()
    values = tables[table].get(dataset, {}).get(model, {}).get(arm)
    if values is None and arm == "original":  # the other tables leave it to the first
        values = tables["overall"].get(dataset, {}).get(model, {}).get(arm)
    if values is None:
        return {}
    deviations = values.get("sd", [None] * len(values["mean"]))
    figures = zip(values["mean"], deviations, strict=True)
    return {
        metric: Figure(mean / 100, None if sd is None else sd / 100)
        for metric, (mean, sd) in zip(HEADLINE, figures, strict=False)
    }


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("clbr.experiments.report").joinpath("published.toml").read_text())
