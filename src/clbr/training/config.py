"""The settings of a run: which model on which data, and how it is trained."""

import tomllib
from typing import Any, Self

from pydantic import Field, model_validator

from clbr.config import Config, nearest
from clbr.counterfactual.config import ViewsConfig
from clbr.errors import InputError
from clbr.graph.edits import without_effect
from clbr.models.base import Encoder
from clbr.models.registry import find_model
from clbr.training.presets import Preset, find_preset


class TrainConfig(Config):
    """How a model is trained."""

    epochs: int = Field(100, ge=1, description="at most this many")
    batch_size: int = Field(2048, ge=1, description="choices in a step")
    negatives: int = Field(1, ge=1, description="bundles not chosen, for each choice")
    learning_rate: float = Field(1e-3, gt=0, description="Adam's learning rate")
    decay: float = Field(1.0, gt=0, le=1, description="factor on the rate after every decay_every epochs; 1: none")
    decay_every: int = Field(1, ge=1, description="epochs from one decay to the next")
    weight_decay: float = Field(0.0, ge=0, description="L2 on all parameters, as Adam applies it")
    clip: float | None = Field(None, gt=0, description="longest gradient; longer ones are cut")
    evaluate_every: int = Field(1, ge=1, description="epochs from one look at validation to the next")
    patience: int = Field(20, ge=1, description="looks at validation without a better one before training stops")
    metric: str = Field(
        "recall@20", pattern=r"^(recall|ndcg|hit|mrr|map)@[1-9]\d{0,5}$", description="chosen on, on validation"
    )
    hard_from: int | None = Field(None, ge=1, description="epoch from which negatives are hard (a second stage)")
    hard_history: float = Field(0.4, ge=0, le=1, description="share of negatives that hold much of what the user has")
    hard_contents: float = Field(0.4, ge=0, le=1, description="share of negatives that resemble the bundle chosen")
    hardest: float = Field(0.3, gt=0, le=1, description="share of all bundles that counts as hard")

    @model_validator(mode="after")
    def _shares_of_one(self) -> Self:
        if self.hard_history + self.hard_contents > 1:
            raise ValueError("hard_history and hard_contents are shares: together 1 at most")
        return self


PARADIGMS: dict[str, dict[str, Any] | None] = {
    "original": None,
    "clbr": {},
    "casr": {"sampler": "casr", "ratio_ui": 0.0, "ratio_bi": 0.0, "constraint": "none", "view_positives": True},
}
"""The ways to train by name, as changes to the settings of views; None: no views."""


class RunConfig(Config):
    """All that makes a run what it is."""

    data: str = Field(description="the data folder")
    model: str = Field(description="the model's name")
    seed: int = Field(0, ge=0, description="decides everything that is drawn")
    settings: dict[str, Any] = Field(default_factory=dict, description="the model's settings")
    train: TrainConfig = Field(description="how it is trained")
    paradigm: str = Field("original", description="original, clbr or casr")
    views: ViewsConfig | None = Field(None, description="its counterfactual views, if the paradigm has any")


def compose(
    data: str,
    model: str,
    *,
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    seed: int = 0,
    paradigm: str = "original",
) -> RunConfig:
    """The settings of a run: defaults, then the preset, then changes by name, of model, training or views."""
    known = find_model(model).settings
    if paradigm not in PARADIGMS:
        raise InputError(f"unknown paradigm '{paradigm}', {nearest(paradigm, list(PARADIGMS))}")
    base = find_preset(model, preset) if preset else Preset()
    settings, train = dict(base.settings), dict(base.train)
    views = dict(PARADIGMS[paradigm] or {})
    of_casr = base.views.get("sampler") == "casr"
    if of_casr and paradigm == "clbr":  # to leave them out would draw other views than the preset names
        raise InputError(f"preset {preset}: its views are those of casr: add --paradigm casr, or take its [views] out")
    with_views = base.views if paradigm != "original" and of_casr == (paradigm == "casr") else {}
    for key, value in {**with_views, **(changes or {})}.items():
        if key in TrainConfig.model_fields:
            train[key] = value
        elif key in known.model_fields:
            settings[key] = value
        elif key in ViewsConfig.model_fields:
            if paradigm == "original":
                raise InputError(f"'{key}' is a setting of counterfactual views: add --paradigm clbr")
            views[key] = value
        else:
            hint = nearest(key, [*known.model_fields, *TrainConfig.model_fields, *ViewsConfig.model_fields])
            raise InputError(f"unknown setting '{key}' of {model}, {hint}")
    if paradigm == "casr" and (views["sampler"] != "casr" or views["constraint"] != "none"):
        raise InputError("casr has its own sampler and no constraint: for others, --paradigm clbr")
    whole: dict[str, Any] = {"data": data, "model": model, "seed": seed, "paradigm": paradigm}
    whole["settings"] = known.make(settings, f"settings of {model}").model_dump(mode="json")
    whole["train"] = TrainConfig.make(train, "training").model_dump(mode="json", exclude_none=True)
    if paradigm != "original":
        if not issubclass(find_model(model), Encoder) or not find_model(model).relations:
            raise InputError(f"{model} makes no vectors of a graph, and {paradigm} needs a model that does")
        whole["views"] = ViewsConfig.make(views, f"views of {paradigm}").model_dump(mode="json", exclude_none=True)
    return RunConfig.make(whole)


def ineffective_edits(config: RunConfig) -> list[str]:
    """In words, what the views would edit without effect: relations that the model does not look at."""
    asked = config.views.ratios if config.views else ()
    idle = [relation for relation in asked if relation not in find_model(config.model).relations]
    return [f"{without_effect(config.model, relation)} (ratio_{relation} is taken as 0)" for relation in idle]


def parse_changes(texts: list[str]) -> dict[str, Any]:
    """key=value texts; a value is TOML where it can be, else text."""
    changes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise InputError(f"--set {text}: expected key=value, for instance learning_rate=0.002")
        try:
            changes[key.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            changes[key.strip()] = value.strip()
    return changes
