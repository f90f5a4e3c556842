"""Requests of the service, and the few answers that only a service gives. All other answers are the library's."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from clbr.data.pairs import Kind, Relation
from clbr.evaluation.agreement import Agreement
from clbr.evaluation.protocol import BestBaseline
from clbr.inference.answers import Accuracy, Answer
from clbr.inference.audience import MAX_USERS
from clbr.inference.explain import BUDGET
from clbr.service.limits import AtMost, Limits, default


def _text(value: object) -> object:
    """A whole number as an id."""
    return str(value) if type(value) is int else value


Text = Annotated[str, StringConstraints(min_length=1), AtMost("text")]
Id = Annotated[Text, BeforeValidator(_text, json_schema_input_type=Text | int)]
K = Annotated[int, AtMost("k"), Field(ge=1, description="length of the list", examples=[20])]
Ids = Annotated[list[Id], AtMost("edits")]
Filter = Annotated[list[Id], AtMost("filter")]
Pair = Annotated[tuple[Id, Id], Field(strict=False)]  # JSON has lists only
Pairs = Annotated[list[Pair], AtMost("edits")]
Diversity = Annotated[float, Field(ge=0, le=1, description="0: by score; up to 1: bundles that share fewer items")]
MaxUsers = Annotated[int, AtMost("max_users"), Field(ge=0, description="users listed at most, in each list")]
KEEP_CHOSEN = "list bundles that the user has chosen, too"


class Body(BaseModel):
    """A request in JSON; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def arguments(self) -> dict[str, Any]:
        """The arguments of the recommender's method."""
        return dict(self)


class Query(BaseModel):
    """A request in an address, where every value is text; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ById(Query):
    """One node."""

    id: Id = Field(examples=["17"])


class FindRequest(Query):
    """A search."""

    kind: Kind
    text: Annotated[str, AtMost("text")] = Field("", examples=["sea"])
    limit: Annotated[int, AtMost("found"), Field(ge=1)] = default("found", 10)


class PreviewsRequest(Body):
    """Bundles of which the first items are wanted."""

    bundles: Annotated[list[Id], AtMost("batch_users")] = Field(examples=[["5", "6"]])
    items: int = Field(3, ge=0, le=20, description="items of each bundle at most")


class SimilarRequest(Query):
    """A bundle or an item whose nearest ones are wanted."""

    kind: Literal["bundle", "item"]
    id: Id = Field(examples=["5"])
    k: K = default("k", 10)


class RecommendQuery(Query):
    """A user's list."""

    user: Id = Field(examples=["17"])
    k: K = default("k", 20)
    diversity: Diversity = 0.0
    keep_chosen: bool = Field(False, description=KEEP_CHOSEN)


class RecommendRequest(Body):
    """The list of a user, or of an unseen user who likes some items or bundles."""

    user: Id | None = Field(None, examples=["17"])
    likes_items: Ids = Field(default=[], description="of an unseen user")
    likes_bundles: Ids = []
    k: K = default("k", 20)
    keep_chosen: bool = Field(False, description=KEEP_CHOSEN)
    allow: Filter | None = Field(None, description="only these bundles")
    deny: Filter = Field(default=[], description="none of these bundles")
    diversity: Diversity = 0.0


class RecommendBatchRequest(Body):
    """The lists of several users."""

    users: Annotated[list[Id], AtMost("batch_users")] = Field(min_length=1, examples=[["17", "18"]])
    k: K = default("k", 20)


class EditsById(Body):
    """Edits of any relation, as pairs of ids."""

    add: dict[Relation, Pairs] = Field(default={}, examples=[{"ui": [["17", "3"]]}])
    drop: dict[Relation, Pairs] = {}


class WhatIfRequest(Body):
    """What if a user's history were different?"""

    user: Id = Field(examples=["17"])
    add_items: Ids = Field(default=[], examples=[["3"]])
    drop_items: Ids = Field(default=[], examples=[[]])
    add_bundles: Ids = Field(default=[], examples=[[]])
    drop_bundles: Ids = Field(default=[], examples=[[]])
    edits: EditsById | None = Field(None, description="edits of anything, in place of the four above")
    k: K = default("k", 20)

    def arguments(self) -> dict[str, Any]:
        """With the edits as plain values."""
        return dict(self) | {"edits": dict(self.edits) if self.edits else None}


class AudienceRequest(Body):
    """What if a bundle's contents were different?"""

    bundle: Id = Field(examples=["5"])
    add_items: Ids = Field(default=[], examples=[["3"]])
    drop_items: Ids = Field(default=[], examples=[[]])
    swap: Pairs = Field(default=[], description="(old item, new item) pairs", examples=[[]])
    edits: EditsById | None = Field(None, description="edits of anything, in place of the three above")
    k: K = default("k", 20)
    max_users: MaxUsers = default("max_users", MAX_USERS)

    def arguments(self) -> dict[str, Any]:
        """With the edits as plain values."""
        return dict(self) | {"edits": dict(self.edits) if self.edits else None}


class NewBundleRequest(Body):
    """Who would want an unseen bundle of these items?"""

    items: Annotated[list[Id], AtMost("edits")] = Field(min_length=1, examples=[["3", "7"]])
    k: K = default("k", 20)
    max_users: MaxUsers = default("max_users", MAX_USERS)


class ExplainRequest(Body):
    """Why is a bundle in a user's list, or what would bring it there?"""

    user: Id = Field(examples=["17"])
    bundle: Id = Field(examples=["5"])
    of: Literal["history", "contents"] = Field("history", description="what may be edited: the history or the bundle")
    k: K = default("k", 20)
    budget: Annotated[int, AtMost("budget"), Field(ge=1, description="sets of edits that are tried at most")] = default(
        "budget", BUDGET
    )


class SuggestRequest(Body):
    """Which swap would gain a bundle the most users?"""

    bundle: Id = Field(examples=["5"])
    add_items: Ids = Field(default=[], examples=[["3"]])
    drop_items: Ids = Field(default=[], examples=[[]])
    k: K = default("k", 20)
    count: int = Field(5, ge=1, le=8, description="swaps in the answer at most")


class AboutService(Answer):
    """The recommender that answers, and what its users, bundles and items are called."""

    artifact: str = Field(description="short checksum; another one means another recommender")
    model: str
    paradigm: str
    seed: int
    data: str
    version: str
    best_epoch: int
    users: int
    bundles: int
    items: int
    supports_whatif: bool = Field(description="whether it answers what-if, explanations and unseen users")
    words: dict[Kind, tuple[str, str]]
    validation: dict[str, float]
    test: dict[str, float]
    segments: dict[str, dict[str, float]]
    baseline: BestBaseline | None = Field(description="the best baseline on validation, with its test metrics")
    accuracy: Accuracy = Field(description="the test metrics beside those of the baseline, in sentences")
    whatif_agreement: dict[str, Agreement] = Field(description="of what-if answers with retraining, if measured")
    diversity: dict[str, dict[str, float]]
    card: str
    caveat: str
    report: bool
    limits: Limits = Field(description="k: at most the number of bundles")


class Swapped(Answer):
    """Which artifact answered before, and which one answers now."""

    before: str | None = Field(description="null if none answered")
    after: str


class Address(Answer):
    """A path of the service."""

    path: str


class Status(Answer):
    """Whether the service runs."""

    status: Literal["live", "ready"]


class ErrorPayload(Answer):
    """What was wrong, and what to do."""

    error: str
    request: str
    kind: Kind | None = Field(None, description="of an unknown id")
    id: str | None = None
