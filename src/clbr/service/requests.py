"""Questions as the service takes them. What a field means is said in its description."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from clbr.inference.explain import BUDGET
from clbr.service import limits

Id = Annotated[str, StringConstraints(min_length=1, max_length=limits.TEXT)]
Kind = Literal["user", "bundle", "item"]
Top = Annotated[int, Field(ge=1, le=limits.TOP, description="how long the list is", examples=[20])]
Edits = Annotated[list[Id], Field(max_length=limits.EDITS)]
Listed = Annotated[list[Id], Field(max_length=limits.LISTED)]
Diversity = Annotated[float, Field(ge=0, le=1, description="0: by score; up to 1: bundles that share less")]


class Asked(BaseModel):
    """A question; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Query(BaseModel):
    """A question in an address, where all is text; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ById(Query):
    """Which one."""

    id: Id = Field(examples=["17"])


class ByText(Query):
    """Whom to look for."""

    kind: Kind
    text: str = Field("", max_length=limits.TEXT, examples=["sea"])
    limit: int = Field(10, ge=1, le=limits.FOUND)


class ListOf(Query):
    """Whose list."""

    user: Id = Field(examples=["17"])
    top: Top = 20
    diversity: Diversity = 0.0
    keep_chosen: bool = Field(False, description="list what she has chosen, too")


class AskList(Asked):
    """Whose list: a user's, or that of someone never seen, by what she likes."""

    user: Id | None = Field(None, examples=["17"])
    likes_items: Edits = Field(default=[], description="of someone never seen")
    likes_bundles: Edits = []
    top: Top = 20
    keep_chosen: bool = Field(False, description="list what she has chosen, too")
    allow: Listed | None = Field(None, description="only these bundles")
    deny: Listed = Field(default=[], description="none of these bundles")
    diversity: Diversity = 0.0


class AskLists(Asked):
    """The lists of several users."""

    users: list[Id] = Field(min_length=1, max_length=limits.BATCH, examples=[["17", "18"]])
    top: Top = 20


class AskUser(Asked):
    """What if a user's history were different?"""

    user: Id = Field(examples=["17"])
    add_items: Edits = Field(default=[], examples=[["3"]])
    drop_items: Edits = Field(default=[], examples=[[]])
    add_bundles: Edits = Field(default=[], examples=[[]])
    drop_bundles: Edits = Field(default=[], examples=[[]])
    top: Top = 20


class AskBundle(Asked):
    """What if a bundle's contents were different?"""

    bundle: Id = Field(examples=["5"])
    add_items: Edits = Field(default=[], examples=[["3"]])
    drop_items: Edits = Field(default=[], examples=[[]])
    top: Top = 20


class AskWhy(Asked):
    """Why is a bundle in a user's list, or what would it take?"""

    user: Id = Field(examples=["17"])
    bundle: Id = Field(examples=["5"])
    top: Top = 20
    of: Literal["history", "contents"] = Field("history", description="whose edits may answer: hers, or the bundle's")
    budget: int = Field(BUDGET, ge=1, le=limits.BUDGET, description="sets of edits that are tried at most")


class AskSwaps(AskBundle):
    """Which swap would gain a bundle the most audience?"""

    count: int = Field(5, ge=1, le=8, description="swaps that are told at most")
