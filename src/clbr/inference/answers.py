"""Answers: the typed results of every question. Python returns them, the command line prints them, HTTP sends them.

Ids are the user's own, as text. Ranks count from 1, the best. `to_frame()` gives the rows as a frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from clbr.data.describe import Segment
from clbr.data.frames import make_frame

Question = Literal["why", "history", "contents"]


class Answer(BaseModel):
    """A frozen result; `to_json()` is the same text on the command line and over HTTP."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _backend: str = PrivateAttr("polars")
    _integer_ids: frozenset[str] = PrivateAttr(frozenset())

    def to_json(self) -> str:
        """The answer as one JSON object."""
        return self.model_dump_json()

    def for_frames(self, backend: str, integer_ids: Iterable[str]) -> Self:
        """Set the kind of frame that `to_frame()` gives, and which kinds of ids are whole numbers in it."""
        self._backend, self._integer_ids = backend, frozenset(integer_ids)
        return self

    def __repr__(self) -> str:
        parts = []
        for name, value in self:
            if isinstance(value, list | dict):
                parts.append(f"{len(value)} {name}")
            elif name != "caveat":
                parts.append(f"{name} {value.label if isinstance(value, Node) else value}")
        return f"{type(self).__name__}({', '.join(parts)})"

    __str__ = __repr__

    def _ids(self, kind: str, ids: Iterable[str]) -> list[Any]:
        """Ids in the type that the data has."""
        return [int(id) for id in ids] if kind in self._integer_ids else list(ids)

    def _frame(self, columns: Mapping[str, Sequence[Any]]) -> Any:
        return make_frame(columns, self._backend)


class Node(Answer):
    """A user, a bundle or an item."""

    id: str = Field(examples=["17"])
    name: str | None = Field(None, examples=["Sea stories"])

    @property
    def label(self) -> str:
        """The name, or the id of a node without one."""
        return self.name or self.id


class RankedBundle(Node):
    """A bundle in a recommendation list."""

    rank: int = Field(description="1 is best")
    score: float


class Recommendations(Answer):
    """A user's best bundles, best first. There are fewer than k if fewer are left."""

    user: Node | None = Field(description="null for an unseen user")
    k: int
    recommended: list[RankedBundle]

    def to_frame(self) -> Any:
        """Columns: bundle, name, rank, score."""
        rows = self.recommended
        ids = {"bundle": self._ids("bundle", (row.id for row in rows))}
        return self._frame(ids | _columns(rows, "name", "rank", "score"))


class RecommendationBatch(Answer):
    """The lists of several users, in the order of the request."""

    lists: list[Recommendations]

    def for_frames(self, backend: str, integer_ids: Iterable[str]) -> Self:
        """Also for each of the lists."""
        kinds = frozenset(integer_ids)
        for one in self.lists:
            one.for_frames(backend, kinds)
        return super().for_frames(backend, kinds)


class Move(Node):
    """A bundle before and after the edits; a rank is null where the bundle is not in the list."""

    rank_before: int | None
    rank_after: int | None
    score_before: float
    score_after: float


class WhatIf(Answer):
    """A user's list before and after edits of the data. `moves` holds every bundle of either list, the later first."""

    user: Node
    k: int
    before: list[RankedBundle]
    after: list[RankedBundle]
    moves: list[Move]
    warnings: list[str] = Field(description="edits that have no effect, and why")
    caveat: str = Field(description="what the answer cannot say")

    def to_frame(self) -> Any:
        """Columns: bundle, name, rank_before, rank_after, score_before, score_after."""
        ids = {"bundle": self._ids("bundle", (move.id for move in self.moves))}
        moved = ("rank_before", "rank_after", "score_before", "score_after")
        return self._frame(ids | _columns(self.moves, "name", *moved))


class SegmentAudience(Answer):
    """How many users of a segment have the bundle in their lists."""

    users: int
    before: int
    after: int


class Audience(Answer):
    """The users who have a bundle among their first k, before and after edits of its contents."""

    bundle: Node
    k: int
    users: int = Field(description="all users")
    before: int
    after: int
    segments: dict[Segment, SegmentAudience]
    entered: list[Node] = Field(description="users who have it only after the edits; at most `max_users`")
    left: list[Node] = Field(description="users who had it only before the edits; at most `max_users`")
    entered_count: int
    left_count: int
    warnings: list[str]
    caveat: str

    def to_frame(self) -> Any:
        """Columns: user, name, change ("entered" or "left")."""
        rows = [*self.entered, *self.left]
        ids = {"user": self._ids("user", (row.id for row in rows))}
        change = {"change": ["entered"] * len(self.entered) + ["left"] * len(self.left)}
        return self._frame(ids | _columns(rows, "name") | change)


class RankedUser(Node):
    """A user, and the rank that a bundle has in the user's list."""

    rank: int


class NewBundleAudience(Answer):
    """The users in whose lists an unseen bundle of these items ranks best."""

    items: list[Node]
    k: int
    users: int = Field(description="all users")
    audience: int = Field(description="users who have it among their first k")
    best: list[RankedUser] = Field(description="the k users with the best ranks")
    members: list[RankedUser] = Field(description="the audience, best ranks first; at most `max_users`")
    caveat: str

    def to_frame(self) -> Any:
        """Columns: user, name, rank."""
        return self._frame(
            {"user": self._ids("user", (row.id for row in self.best))} | _columns(self.best, "name", "rank")
        )


class Evidence(Node):
    """An item or a bundle of a user's history."""

    kind: Literal["item", "bundle"]


class Swap(Answer):
    """An item of a bundle, and the item that replaces it."""

    old: Node
    new: Node


class Attempt(Answer):
    """The best rank that was reached with so many edits, and these edits."""

    edits: int
    rank: int
    evidence: list[Evidence]
    swaps: list[Swap]


class Explanation(Answer):
    """The smallest edits found that take a bundle out of a user's list, or bring it in; verified by a what-if.

    `question`: "why" (removals from the history), "history" (additions to it) or "contents" (swaps in the bundle).
    """

    question: Question
    user: Node
    bundle: Node
    k: int
    rank: int = Field(description="in the user's whole list")
    found: bool
    out_of_budget: bool = Field(description="nothing was found because the budget was used up")
    out_of_reach: bool = Field(description="no handful of edits that was tried brings it in")
    rank_after: int | None
    tried: int = Field(description="sets of edits that were tried")
    evidence: list[Evidence]
    swaps: list[Swap]
    nearest: list[Attempt] = Field(description="unless a handful of edits brings it in: how near 1, 2, ... come")
    caveat: str

    def to_frame(self) -> Any:
        """Columns: kind, id, name; for swaps: old, new."""
        if self.question == "contents":
            return self._frame(_swap_columns(self))
        ids = {"id": [self._ids(row.kind, [row.id])[0] for row in self.evidence]}
        return self._frame(_columns(self.evidence, "kind") | ids | _columns(self.evidence, "name"))


class SuggestedSwap(Swap):
    """A swap, and the bundle's audience with it."""

    audience: int
    gain: int


class Suggestions(Answer):
    """The swaps that gain a bundle the most users, each by itself, best first; empty if none was found."""

    bundle: Node
    k: int
    audience: int = Field(description="with the given edits, before any swap")
    swaps: list[SuggestedSwap]
    caveat: str

    def to_frame(self) -> Any:
        """Columns: old, new, audience, gain."""
        return self._frame(_swap_columns(self) | _columns(self.swaps, "audience", "gain"))


class SimilarNode(Node):
    """A node near another one; the score is the cosine of their vectors."""

    rank: int
    score: float


class Similar(Answer):
    """The bundles or items nearest to one, nearest first."""

    kind: Literal["bundle", "item"]
    node: Node
    k: int
    similar: list[SimilarNode]

    def to_frame(self) -> Any:
        """Columns: bundle or item, name, rank, score."""
        ids: dict[str, list[Any]] = {self.kind: self._ids(self.kind, (row.id for row in self.similar))}
        return self._frame(ids | _columns(self.similar, "name", "rank", "score"))


class Accuracy(Answer):
    """How good a recommender is, in sentences, and how it compares with the best baseline."""

    verdict: Literal["unknown", "leak", "below", "not below"]
    sentences: list[str]


def _columns(rows: Sequence[Answer], *names: str) -> dict[str, list[Any]]:
    """The rows' values by name; without names of nodes, if no row has one."""
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    if "name" in columns and not any(columns["name"]):
        del columns["name"]
    return columns


def _swap_columns(answer: Explanation | Suggestions) -> dict[str, list[Any]]:
    """The items that leave and those that replace them."""
    return {side: answer._ids("item", (getattr(swap, side).id for swap in answer.swaps)) for side in ("old", "new")}
