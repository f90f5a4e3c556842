"""What a search tries: a few values for each setting that is worth searching. What is not here stays as it is."""

from math import prod
from typing import Any

from clbr.errors import InputError
from clbr.models.registry import find_model

Grid = dict[str, list[Any]]

DROPOUT = [0.0, 0.1, 0.2, 0.3, 0.5]

# The paper's learning rates. Its decay of the rate (a factor of 0.01 to 0.5 every 2 to 4 units, which are not named)
# is left out: read as epochs, learning dies in ten. Dimension, batch and negatives are the paper's for all.
COMMON: Grid = {
    "learning_rate": [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
    "weight_decay": [0.0, 1e-7, 1e-6, 1e-5, 1e-4],
    "init": ["normal", "xavier"],
}

MODELS: dict[str, Grid] = {
    "bprmf": {},
    "lightgcn": {"layers": [1, 2, 3]},
    "dam": {"hidden_dropout": DROPOUT, "item_task": [0.0, 0.1, 0.5, 1.0]},
    "rgcn": {"layers": [1, 2, 3], "bases": [0, 2, 4], "message_dropout": DROPOUT},
    "bundlenet": {
        "layers": [1, 2, 3],
        "message_dropout": DROPOUT,
        "item_task": [0.0, 0.1, 0.5, 1.0],
        "hide_choices": [True, False],
    },
    "bgcn": {"layers": [1, 2, 3], "message_dropout": DROPOUT, "l2": [0.0, 1e-7, 1e-6, 1e-5, 1e-4]},
    # No augmentation is dropout 0 of either kind.
    "crosscbr": {
        "layers": [1, 2, 3],
        "contrastive_weight": [0.01, 0.02, 0.04, 0.1, 0.2],
        "temperature": [0.1, 0.15, 0.2, 0.25, 0.3, 0.4],
        "augmentation": ["edges", "messages"],
        "item_dropout": DROPOUT,
        "bundle_dropout": DROPOUT,
        "contents_dropout": DROPOUT,
    },
}


# The paper's ratios and weights, and below: timid views under a light constraint do best.
RATIOS = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3]
OMEGAS = [0.0, 0.001, 0.003, 0.01, 0.05, 0.1, 0.5, 1.0]
WEIGHTS = [0.1, 0.3, 0.5, 1.0]

PARADIGMS: dict[str, Grid] = {
    "clbr": {
        "ratio_ub": RATIOS,
        "ratio_ui": RATIOS,
        "ratio_bi": RATIOS,
        "constraint": ["adaptive", "contrastive"],
        "omega_u": OMEGAS,
        "omega_b": OMEGAS,
        "lambda_u": [0.0, 0.5, 1.0, 2.0],
        "lambda_b": [0.0, 0.5, 1.0, 2.0],
        "tau": [0.2, 0.5, 1.0],
        "sampler_batch": [64, 256, 1024],
        "redraw": [False, True],
        "view_weight": WEIGHTS,
        "view_positives": [False, True],
        "warm_up": [0, 10],
    },
    "casr": {"ratio_ub": RATIOS[1:], "confident": [0.01, 0.05, 0.1, 0.3], "view_weight": WEIGHTS},
}

IDLE: dict[str, tuple[str, ...]] = {
    "none": ("constraint", "omega_u", "omega_b", "lambda_u", "lambda_b", "tau", "warm_up"),
    "constant": ("lambda_u", "lambda_b"),
    "contrastive": ("lambda_u", "lambda_b"),
}
"""Settings that say nothing under a constraint, and are not searched from there."""


def grid_of(model: str, paradigm: str = "original") -> Grid:
    """All that is searched for a model: what is common to all models, and its own; with views, their settings alone.

    The ratios of relations that the model does not look at are left out.
    """
    if paradigm in PARADIGMS:
        idle = {"ratio_ub", "ratio_ui", "ratio_bi"} - {f"ratio_{relation}" for relation in find_model(model).relations}
        return {key: values for key, values in PARADIGMS[paradigm].items() if key not in idle}
    if model not in MODELS:
        raise InputError(f"{model} has no search grid; known: {', '.join(sorted(MODELS))}")
    return COMMON | MODELS[model]


def near(values: list[Any], own: Any) -> list[Any]:
    """Of a setting's values the one it has, which need not be among them, and the next ones below and above.

    All others, if they are not numbers: nothing is next to a name.
    """
    if isinstance(own, bool | str):
        return [own, *(value for value in values if value != own)]
    below, above = [value for value in values if value < own], [value for value in values if value > own]
    return [own, *below[-1:], *above[:1]]


def size(grid: Grid) -> int:
    """How many different settings a grid holds."""
    return prod(len(values) for values in grid.values())
