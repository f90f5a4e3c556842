"""Settings of counterfactual views."""

from collections.abc import Collection
from typing import Literal, Self

from pydantic import Field, model_validator

from clbr.config import Config
from clbr.data.pairs import Relation


class ViewsConfig(Config):
    """What counterfactual views are like, and what part they have in training."""

    sampler: Literal["heuristic", "stochastic", "casr", "dropout"] = Field("heuristic", description="who edits")
    ratio_ub: float = Field(0.1, ge=0, lt=1, description="edits of user-bundle, as a share of its edges")
    ratio_ui: float = Field(0.1, ge=0, lt=1, description="edits of user-item")
    ratio_bi: float = Field(0.1, ge=0, lt=1, description="edits of bundle-item")
    views: int = Field(4, ge=1, description="how many there are; each epoch takes one of them")
    redraw: bool = Field(False, description="draw a new view every epoch instead")
    sampler_batch: int = Field(256, ge=2, le=1 << 20, description="pairs that the sampler judges against each other")
    upper: float = Field(0.8, gt=0, lt=1, description="a+: what is added scores above this share of the best")
    lower: float = Field(1.2, ge=1, description="a-: what is dropped scores below this multiple of the worst")
    literal: bool = Field(False, description="judge edges and other pairs in the same batches, as the paper is written")
    additions: float | None = Field(
        None, ge=0, le=1, description="share of additions, if stochastic; left out: as the heuristic sampler has it"
    )
    confident: float = Field(0.1, gt=0, le=1, description="casr: the top share of a user's bundles that may be added")
    view_weight: float = Field(1.0, ge=0, description="of the task on the view; the factual task has weight 1")
    view_positives: bool = Field(False, description="the task on the view learns the view's choices, not the factual")
    constraint: Literal["adaptive", "constant", "contrastive", "none"] = Field(
        "adaptive", description="between view and fact; contrastive: adaptive's own and others as a log ratio"
    )
    distance: Literal["exponential", "cosine"] = Field("exponential", description="D of the constraint")
    tau: float = Field(1.0, gt=0, description="temperature of the exponential distance, and of contrastive")
    omega_u: float = Field(0.1, ge=0, description="weight of the users' constraint")
    omega_b: float = Field(0.1, ge=0, description="weight of the bundles' constraint")
    lambda_u: float = Field(1.0, ge=0, description="adaptive: weight of the other users; the paper's times (n - 1)")
    lambda_b: float = Field(1.0, ge=0, description="adaptive: weight of the other bundles")
    threshold: float | None = Field(None, description="constant: how far is near enough; left out: D at cosine 0.9")
    hinge: bool = Field(True, description="constant: nothing is asked of what is near enough")
    per_level: bool = Field(False, description="constrain each level's vectors by themselves, not side by side")
    nodes: int = Field(256, ge=0, description="users and bundles of a batch under the constraint, by chance; 0: all")
    warm_up: int = Field(0, ge=0, description="epochs in which the constraint grows to its full weight")
    measure_every: int = Field(
        10, ge=0, description="epochs from one look at alignment and entropy to the next; 0: none"
    )

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        constrained = self.constraint != "none" and (self.omega_u or self.omega_b)
        if not constrained and not self.view_weight:
            raise ValueError("the views have no part in it: give view_weight, or a constraint and its omegas")
        if self.sampler == "casr" and (self.ratio_ui or self.ratio_bi):
            raise ValueError("casr edits user-bundle pairs only: set ratio_ui and ratio_bi to 0")
        return self

    @property
    def ratios(self) -> dict[Relation, float]:
        """By relation; those that are not edited are left out."""
        ratios: dict[Relation, float] = {"ub": self.ratio_ub, "ui": self.ratio_ui, "bi": self.ratio_bi}
        return {relation: ratio for relation, ratio in ratios.items() if ratio}

    def within(self, relations: Collection[Relation]) -> Self:
        """The same without edits of other relations."""
        return self.model_copy(update={f"ratio_{r}": 0.0 for r in self.ratios if r not in relations})

    @property
    def needs_selection(self) -> bool:
        """Whether a trained model is asked what it makes of pairs."""
        mixed = self.sampler == "stochastic" and self.additions is None
        return bool(self.ratios) and (self.sampler in ("heuristic", "casr") or mixed)
