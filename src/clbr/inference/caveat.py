"""The caveat of what-if answers, in every answer and on the model card."""

from collections.abc import Mapping
from typing import Any

from clbr.evaluation.agreement import Agreement
from clbr.models.base import Encoder
from clbr.models.registry import build_model


def whatif_caveat(model: str, settings: dict[str, Any], agreement: Mapping[str, Agreement]) -> str:
    """What a what-if answer cannot say, and how well such answers agree with retraining, if that was measured."""
    measured = "How well this agrees with retraining was not measured for this recommender."
    if agreement:
        figures = (f"{kind.replace('-', ' ')} {one}" for kind, one in agreement.items())
        measured = (
            "For this recommender, the changes of scores correlate with what retraining changes on average: "
            f"{', '.join(figures)}."
        )
    trained = "stay fixed: this is what the model computes from the edited data, not what a model retrained on it would"
    if _parameters_follow(model, settings):
        trained = (
            "follow the edits by one step: this is what retraining would change to first order, not what a model "
            "retrained on the edited data computes"
        )
    return f"The trained parameters {trained}. {measured}"


def _parameters_follow(model: str, settings: dict[str, Any]) -> bool:
    """Whether the parameters follow the edits (influence.py)."""
    built = build_model(model, settings, 1, 1, 1)
    return isinstance(built, Encoder) and built.own_vectors() is not None
