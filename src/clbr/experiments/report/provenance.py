"""With what an experiment was made: settings, versions, machines, data."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from clbr.data.dataset import BundleDataset
from clbr.experiments.report.grid import Grid, plain
from clbr.experiments.report.results import Results, told


def settings(results: Results) -> Iterator[tuple[str, str]]:
    """For each model and arm its settings as TOML, and what varies."""
    varied: dict[tuple[str, str], dict[str, list[str]]] = {}
    for group in results.groups:
        values = varied.setdefault((group.model, group.arm), {})
        for key, value in group.point.items():
            if told(value) not in values.setdefault(key, []):
                values[key].append(told(value))
    for (model, arm), values in varied.items():
        first = next(group for group in results.groups if (group.model, group.arm) == (model, arm))
        config = first.placed[0].cell.config.to_toml().splitlines()
        shown = [line for line in config if not line.startswith(("data = ", "seed = "))]
        notes = [f"# varied: {key} = {', '.join(those)}; below as in the first" for key, those in values.items()]
        yield f"{model}, {arm}", "\n".join([*notes, *shown])


def environment(results: Results) -> Grid:
    """Versions, machine and threads of the cells, each with how many cells had it where they differ; the data."""
    informative_relations = [record.environment for record in results.records.values()]
    counts: dict[str, Counter[str]] = {}
    for one in informative_relations:
        for what, value in _flat(one):
            counts.setdefault(what, Counter())[value] += 1
    rows = []
    for what, found in counts.items():
        several = len(found) > 1
        values = [f"{value} ({count} cells)" if several else value for value, count in sorted(found.items())]
        rows.append([what, ", ".join(values)])
    dataset = results.dataset
    seeds = sorted({seed for group in results.done for seed in group.records})
    rows += [["data", counts_of(dataset)], ["data fingerprint", dataset.fingerprint]]
    rows.append(["seeds", ", ".join(map(str, seeds))])
    caption = f"{dataset.name}, {results.seeds}, {len(informative_relations)} cells."
    return Grid("Versions and data", caption, ["what", "which"], plain(rows), 2)


def counts_of(dataset: BundleDataset) -> str:
    """A data set's name and sizes."""
    return repr(dataset).removeprefix("BundleDataset(").removesuffix(")")


def _flat(environment: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for what, value in environment.items():
        if what == "data":  # a share of the pairs has a name of its own; the whole is told apart
            continue
        for key, inner in value.items() if isinstance(value, dict) else [(what, value)]:
            yield key, str(inner)
