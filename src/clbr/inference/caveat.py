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
    moved = " (except the own vector of a user whose bundles are edited)" if _moves_own_vectors(model, settings) else ""
    return (
        f"The trained parameters stay fixed{moved}: this is what the model computes from the edited data, not what a "
        f"model retrained on it would. {measured}"
    )


def _moves_own_vectors(model: str, settings: dict[str, Any]) -> bool:
    """Whether edits of a user's bundles move the user's own vector (own_vectors.py)."""
    built = build_model(model, settings, 1, 1, 1)
    return isinstance(built, Encoder) and built.own_vectors() is not None
