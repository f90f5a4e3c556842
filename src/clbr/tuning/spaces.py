"""Search spaces: which settings a hyperparameter search tries, and with which values."""

from math import prod
from typing import Any

from clbr.counterfactual.strategy import STRATEGIES
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS
from clbr.models.base import SearchSpace
from clbr.models.registry import find_model
from clbr.training.config import RunConfig, TrainConfig


def search_space(config: RunConfig) -> SearchSpace:
    """Return the space to search: that of the model, or with views that of the training strategy.

    Settings without effect are left out. Raises `InputError` if the model has no search space.
    """
    model, strategy = find_model(config.model), STRATEGIES[config.paradigm]
    if config.views is not None:
        unused = [f"ratio_{relation}" for relation in RELATIONS if relation not in model.relations]
        without_effect = {*unused, *strategy.ineffective(config.views)}
        return {key: values for key, values in strategy.search_space.items() if key not in without_effect}
    known = {*TrainConfig.model_fields, *model.config_class.model_fields}
    space = {key: values for key, values in model.search_space.items() if key in known}
    if not space:
        raise InputError(f"{config.model} has no settings to search; choose another model", "model")
    return space


def nearby(values: list[Any], own: Any) -> list[Any]:
    """Return a setting's own value, which need not be in `values`, and the next lower and higher of the values.

    Values that are no numbers have no order: then all of them are returned.
    """
    if isinstance(own, bool | str):
        return [own, *(value for value in values if value != own)]
    lower, higher = [value for value in values if value < own], [value for value in values if value > own]
    return [own, *lower[-1:], *higher[:1]]


def with_own(values: list[Any], own: Any) -> list[Any]:
    """Return the values and a setting's own value, if it is not among them."""
    return values if own in values else [own, *values]


def size(space: SearchSpace) -> int:
    """Return the number of different settings in a search space."""
    return prod(len(values) for values in space.values())
