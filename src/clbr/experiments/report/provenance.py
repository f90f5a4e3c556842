"""Provenance of a report: the settings of its cells with their presets, versions, machines and data."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clbr.data.dataset import BundleDataset
from clbr.experiments.report.grid import Grid, plain_rows
from clbr.experiments.report.results import Results, format_value
from clbr.files import portable
from clbr.training.config import find_preset


def preset_name(results: Results, model: str, variant: str) -> str:
    """Return the preset of a model in a variant; "none" if it has none."""
    spec = results.spec
    chosen = spec.variants[variant]
    name, _ = find_preset(model, spec.preset_of(model, chosen), results.dataset.name, chosen.paradigm)
    return (portable(Path(name)) if name.endswith(".toml") else name) or "none"


def settings(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the label and the settings (TOML) of each model and variant; comments name the preset and what varies."""
    varied: dict[tuple[str, str], dict[str, list[str]]] = {}
    for group in results.groups:
        values = varied.setdefault((group.model, group.variant), {})
        for key, value in group.point.items():
            if format_value(value) not in values.setdefault(key, []):
                values[key].append(format_value(value))
    for (model, variant), values in varied.items():
        first = next(group for group in results.groups if (group.model, group.variant) == (model, variant))
        config = first.cells[0].cell.config.to_toml().splitlines()
        lines = [line for line in config if not line.startswith(("data = ", "seed = "))]
        notes = [f"# preset: {preset_name(results, model, variant)}"]
        notes += [f"# varied: {key} = {', '.join(texts)}; below: the first value" for key, texts in values.items()]
        yield f"{model}, {variant}", "\n".join([*notes, *lines])


def environment(results: Results) -> Grid:
    """Return presets, versions, machine and threads of the cells, and the data. Different values are counted."""
    environments = [record.environment for record in results.records.values()]
    counts: dict[str, Counter[str]] = {}
    for one in environments:
        for name, value in _flat(one):
            counts.setdefault(name, Counter())[value] += 1
    rows = [["presets", _presets(results)]]
    for name, found in counts.items():
        several = len(found) > 1
        values = [f"{value} ({count} cells)" if several else value for value, count in sorted(found.items())]
        rows.append([name, ", ".join(values)])
    dataset = results.dataset
    seeds = sorted({seed for group in results.done for seed in group.records})
    rows += [["data", counts_of(dataset)], ["data fingerprint", dataset.fingerprint]]
    rows.append(["seeds", ", ".join(map(str, seeds))])
    caption = f"{dataset.name}, {results.seeds}, {len(environments)} cells."
    return Grid("Presets, versions and data", caption, ["", "value"], plain_rows(rows), 2)


def _presets(results: Results) -> str:
    """Return the preset of each model, by variant where they differ."""
    names: dict[str, dict[str, str]] = {}
    for group in results.groups:
        names.setdefault(group.model, {})[group.variant] = preset_name(results, group.model, group.variant)
    parts = []
    for model, by_variant in names.items():
        for preset in dict.fromkeys(by_variant.values()):
            variants = [variant for variant, name in by_variant.items() if name == preset]
            which = "" if len(variants) == len(by_variant) else f" ({', '.join(variants)})"
            parts.append(f"{model}{which}: {preset}")
    return "; ".join(parts)


def counts_of(dataset: BundleDataset) -> str:
    """Return a data set's name and sizes, as text."""
    return repr(dataset).removeprefix("BundleDataset(").removesuffix(")")


def _flat(environment: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries of an environment, nested ones by their own names; the data have rows of their own."""
    for name, value in environment.items():
        if name != "data":
            for key, inner in value.items() if isinstance(value, dict) else [(name, value)]:
                yield key, str(inner)
