"""Settings of counterfactual views."""

from collections.abc import Collection
from typing import Literal, Self

from pydantic import Field, model_validator

from clbr.config import Config
from clbr.data.pairs import Relation


class ViewsConfig(Config):
    """How counterfactual views are drawn, and how they enter the loss."""

    sampler: Literal["heuristic", "stochastic", "casr", "dropout"] = Field(
        "heuristic", description="how the pairs to add and to drop are selected"
    )
    ratio_ub: float = Field(0.1, ge=0, lt=1, description="edits of user-bundle, as a share of its edges")
    ratio_ui: float = Field(0.1, ge=0, lt=1, description="edits of user-item")
    ratio_bi: float = Field(0.1, ge=0, lt=1, description="edits of bundle-item")
    views: int = Field(4, ge=1, description="number of views; each epoch uses one of them")
    redraw: bool = Field(False, description="draw a new view for every epoch instead")
    sampler_batch: int = Field(256, ge=2, le=1 << 20, description="pairs that the sampler scores in one batch")
    upper: float = Field(0.8, gt=0, lt=1, description="a+: pairs above this share of the highest score are added")
    lower: float = Field(1.2, ge=1, description="a-: edges below this multiple of the lowest score are dropped")
    literal: bool = Field(False, description="score edges and other pairs in the same batches, as in the paper")
    additions: float | None = Field(
        None, ge=0, le=1, description="stochastic: share of additions; left out: the heuristic sampler's share"
    )
    confident: float = Field(0.1, gt=0, le=1, description="casr: the top share of a user's bundles that may be added")
    view_weight: float = Field(1.0, ge=0, description="weight of the view's task loss; the factual graph's has 1")
    view_positives: bool = Field(False, description="take the positives of the view's task loss from the view")
    constraint: Literal["adaptive", "constant", "contrastive", "none"] = Field(
        "adaptive", description="between the embeddings on the view and on the factual graph; contrastive: InfoNCE"
    )
    distance: Literal["exponential", "cosine"] = Field("exponential", description="D of the constraint")
    tau: float = Field(1.0, gt=0, description="temperature of the exponential distance, and of contrastive")
    omega_u: float = Field(0.1, ge=0, description="weight of the users' constraint")
    omega_b: float = Field(0.1, ge=0, description="weight of the bundles' constraint")
    lambda_u: float = Field(1.0, ge=0, description="adaptive: weight of the other users; the paper's times (n - 1)")
    lambda_b: float = Field(1.0, ge=0, description="adaptive: weight of the other bundles")
    threshold: float | None = Field(None, description="constant: the largest D without loss; left out: D at cosine 0.9")
    hinge: bool = Field(True, description="constant: no loss for a D below the threshold")
    per_level: bool = Field(False, description="constrain each level's embeddings separately, not concatenated")
    nodes: int = Field(
        256, ge=0, description="users and bundles of a batch under the constraint, a random sample; 0: all"
    )
    warm_up: int = Field(0, ge=0, description="epochs in which the constraint grows to its full weight")
    measure_every: int = Field(
        10, ge=0, description="epochs between two measurements of alignment and entropy; 0: none"
    )

    @model_validator(mode="after")
    def _check_views_used(self) -> Self:
        has_constraint = self.constraint != "none" and (self.omega_u or self.omega_b)
        if not has_constraint and not self.view_weight:
            raise ValueError("the views are not used: set view_weight, or a constraint and its omegas, above 0")
        if self.sampler == "casr" and (self.ratio_ui or self.ratio_bi):
            raise ValueError("casr edits user-bundle pairs only: set ratio_ui and ratio_bi to 0")
        return self

    @property
    def ratios(self) -> dict[Relation, float]:
        """Share of edits by relation, without the relations that are not edited."""
        ratios: dict[Relation, float] = {"ub": self.ratio_ub, "ui": self.ratio_ui, "bi": self.ratio_bi}
        return {relation: ratio for relation, ratio in ratios.items() if ratio}

    def within(self, relations: Collection[Relation]) -> Self:
        """Return the same settings with a ratio of 0 for every relation that is not in `relations`."""
        return self.model_copy(update={f"ratio_{r}": 0.0 for r in self.ratios if r not in relations})

    @property
    def needs_selection(self) -> bool:
        """Whether the sampler needs the scores of a selection model."""
        uses_heuristic_share = self.sampler == "stochastic" and self.additions is None
        return bool(self.ratios) and (self.sampler in ("heuristic", "casr") or uses_heuristic_share)


class CASRConfig(ViewsConfig):
    """Views of CASR: user-bundle additions by its own sampler, learned as positives, without a constraint."""

    sampler: Literal["heuristic", "stochastic", "casr", "dropout"] = Field("casr", description="casr's own sampler")
    ratio_ui: float = Field(0.0, ge=0, lt=1, description="edits of user-item: none")
    ratio_bi: float = Field(0.0, ge=0, lt=1, description="edits of bundle-item: none")
    view_positives: bool = Field(True, description="take the positives of the view's task loss from the view")
    constraint: Literal["adaptive", "constant", "contrastive", "none"] = Field("none", description="none")

    @model_validator(mode="after")
    def _check_is_casr(self) -> Self:
        if self.sampler != "casr" or self.constraint != "none":
            raise ValueError("casr has its own sampler and no constraint; for others choose the paradigm clbr")
        return self
