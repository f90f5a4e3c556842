"""Limits of the service, which a TOML file can change. A request beyond one of them gets an error that names it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from clbr.config import Config

MOST = 1_000_000
BOUNDS = {"integer": "maximum", "array": "maxItems", "string": "maxLength"}
"""The keys of a JSON schema that bound a number and the length of a list or text."""


class Limits(Config):
    """What one request may ask for, and what the service does at once."""

    k: int = Field(100, ge=1, le=MOST, description="length of a list")
    edits: int = Field(200, ge=1, le=MOST, description="ids in each list of edits, and in what an unseen user likes")
    batch_users: int = Field(1000, ge=1, le=MOST, description="users in one batch, bundles in one request for previews")
    batch_rows: int = Field(20_000, ge=1, le=MOST, description="rows in all lists of one batch together")
    filter: int = Field(10_000, ge=1, le=MOST, description="bundles that a request allows or denies")
    found: int = Field(50, ge=1, le=MOST, description="nodes in the answer to a search")
    text: int = Field(200, ge=1, le=MOST, description="characters of an id or of a search text")
    budget: int = Field(400, ge=1, le=MOST, description="sets of edits that an explanation may try")
    max_users: int = Field(100_000, ge=0, le=MOST, description="users of an audience, listed in one answer")
    header_bytes: int = Field(1 << 16, ge=1 << 10, description="size of a request's head")
    body_bytes: int = Field(1 << 20, ge=1 << 10, description="size of a request's body")
    body_seconds: float = Field(10.0, gt=0, description="time in which a request has to arrive")
    answer_seconds: float = Field(20.0, gt=0, description="time in which an answer has to be computed, with the queue")
    stop_seconds: float = Field(5.0, gt=0, description="time in which a computation that was given up has to stop")
    queue: int = Field(32, ge=1, description="requests that wait for the worker")
    concurrent: int = Field(512, ge=1, description="requests that are being answered")
    report_seconds: float = Field(60.0, gt=0, description="lifetime of the address of the report")


DEFAULT = Limits()
_current: ContextVar[Limits] = ContextVar("limits", default=DEFAULT)


@contextmanager
def applied(limits: Limits) -> Iterator[None]:
    """Within the block, requests are validated by these limits."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def limit(name: str) -> int:
    """The limit of this name that holds now."""
    value: int = getattr(_current.get(), name)
    return value


@dataclass(frozen=True)
class AtMost:
    """Annotation of a field: at most the limit of this name, as a number or as the length of a list or text."""

    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        if "type" not in described:  # of several types, each has its own limit
            return described
        return described | {BOUNDS[described["type"]]: limit(self.name)}

    def _check(self, value: Any) -> Any:
        found, most = value if isinstance(value, int) else len(value), limit(self.name)
        if found > most:
            what = "" if isinstance(value, int) else " characters" if isinstance(value, str) else " entries"
            raise PydanticCustomError("limit", "Expected at most {most}{what}", {"most": most, "what": what})
        return value


def default(name: str, usual: int) -> Any:
    """A number that a request may leave out: the usual one, or the limit of this name if that is smaller."""

    def value() -> int:
        return min(usual, limit(name))

    return Field(default_factory=value, json_schema_extra=lambda schema: schema.update(default=value()))
