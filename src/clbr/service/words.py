"""What people call users, bundles and items: readers, lists and books, for instance."""

from dataclasses import dataclass
from typing import Self

from clbr.errors import InputError

LONGEST = 40


@dataclass(frozen=True)
class Words:
    """Each as (one, many)."""

    user: tuple[str, str] = ("reader", "readers")
    bundle: tuple[str, str] = ("list", "lists")
    item: tuple[str, str] = ("item", "items")

    @classmethod
    def parse(cls, text: str) -> Self:
        """ "reader,list,book", or with plurals that are not one with an s: "person/people,box/boxes,dish/dishes"."""
        words = [word.strip() for word in text.split(",")]
        if len(words) != 3 or not all(words) or len(text) > 3 * LONGEST:
            raise InputError(f"--words {text[:60]}: expected three, for users, bundles and items: reader,list,book")
        return cls(*(_both(word) for word in words))


def _both(word: str) -> tuple[str, str]:
    one, slash, many = (part.strip() for part in word.partition("/"))
    if not one or (slash and not many):
        raise InputError(f"--words {word}: expected a word, or one and many of it: person/people")
    return one, many or f"{one}s"
