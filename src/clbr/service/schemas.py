"""Answers as the service gives them. What a field means is said in its description."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from clbr.data.describe import Segment
from clbr.inference.explain import Question
from clbr.service import limits
from clbr.service.requests import Kind


class Told(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Node(Told):
    """A user, a bundle or an item."""

    id: str = Field(examples=["17"])
    name: str | None = Field(None, examples=["Sea stories"])


class Found(Node):
    """A node that a search found."""

    size: int = Field(description="a user's choices, a bundle's items, or the bundles that hold an item")


class Search(Told):
    """What a search found, best first."""

    kind: Kind
    text: str
    total: int = Field(description="all that match, listed or not")
    found: list[Found]


class User(Node):
    """A user and what she has chosen."""

    segment: Segment
    bundles: list[Node]
    items: list[Node]


class Bundle(Node):
    """A bundle and what is in it."""

    chosen_by: int = Field(description="users, in training")
    items: list[Node]


class Item(Node):
    """An item and where it is."""

    bundles: int = Field(description="that hold it")
    users: int = Field(description="who chose it")


class Place(Node):
    """A bundle at its place in a list."""

    place: int
    score: float


class List(Told):
    """A user's best bundles, best first; fewer than asked for if fewer are left."""

    user: Node | None = Field(description="null for someone never seen")
    top: int
    places: list[Place]


class Lists(Told):
    """The lists of several users, in their order."""

    lists: list[List]


class Move(Node):
    """A bundle before and after; a place is null beyond the list."""

    before: int | None
    after: int | None
    score_before: float
    score_after: float


class UserAnswer(Told):
    """A user's list before and after, and how each bundle of either moved, those of the later list first."""

    user: Node
    top: int
    before: list[Place]
    after: list[Place]
    moves: list[Move]
    warnings: list[str]
    note: str


class Change(Told):
    """How many of a segment have the bundle in their lists."""

    users: int
    before: int
    after: int


class BundleAnswer(Told):
    """A bundle's audience, those who have it in their lists, before and after."""

    bundle: Node
    top: int
    users: int = Field(description="all there are")
    before: int
    after: int
    segments: dict[Segment, Change]
    entered: list[Node] = Field(description=f"at most {limits.SHOWN} of those who have it only afterwards")
    left: list[Node]
    entered_count: int
    left_count: int
    warnings: list[str]
    note: str


class Thing(Node):
    """Something of a history."""

    kind: Literal["item", "bundle"]


class Swap(Told):
    """An item of a bundle and another in its place."""

    old: Node
    new: Node


class Why(Told):
    """The smallest edits that were found to do it. Places count in her whole list."""

    question: Question
    user: Node
    bundle: Node
    top: int
    place: int
    found: bool
    out_of_budget: bool
    rank_after: int | None
    tried: int
    things: list[Thing]
    swaps: list[Swap]
    note: str


class GoodSwap(Swap):
    """A swap, and the audience with it."""

    audience: int
    gain: int


class Swaps(Told):
    """The best swaps, each by itself and seen to hold; none, if none was found to gain anything."""

    bundle: Node
    top: int
    audience: int = Field(description="with the edits that were given, without any swap")
    swaps: list[GoodSwap]
    note: str


class Limits(Told):
    """How much may be asked at once."""

    top: int
    edits: int
    found: int
    batch: int
    budget: int


class About(Told):
    """The recommender, and what people call its nodes."""

    artifact: str = Field(description="a short checksum: another one, another recommender")
    model: str
    paradigm: str
    seed: int
    data: str
    version: str
    best_epoch: int
    users: int
    bundles: int
    items: int
    supports_whatif: bool = Field(description="whether it can be asked what if, why, and about someone never seen")
    words: dict[Kind, tuple[str, str]]
    validation: dict[str, float]
    test: dict[str, float]
    segments: dict[str, dict[str, float]]
    diversity: dict[str, dict[str, float]]
    card: str
    note: str
    report: bool
    limits: Limits


class Swapped(Told):
    """Which artifact answered before, and which one does now."""

    before: str
    after: str


class Address(Told):
    """Where to look."""

    path: str


class Status(Told):
    """Whether the service is there."""

    status: Literal["live", "ready"]


class Refusal(Told):
    """What was wrong, and what to do."""

    error: str
    request: str
    kind: Kind | None = Field(None, description="of an id that is not known")
    id: str | None = None
