"""What the page calls users, bundles and items: readers, lists and books, for instance."""

import re
from dataclasses import dataclass
from typing import Self

from clbr.errors import InputError

MAX_LENGTH = 40


@dataclass(frozen=True)
class Words:
    """Singular and plural of each."""

    user: tuple[str, str] = ("reader", "readers")
    bundle: tuple[str, str] = ("list", "lists")
    item: tuple[str, str] = ("item", "items")

    @classmethod
    def parse(cls, text: str) -> Self:
        """ "reader,list,book"; a plural that is not regular follows a slash: "person/people,series/series,dish"."""
        words = [word.strip() for word in text.split(",")]
        if len(words) != 3 or not all(words) or len(text) > 3 * MAX_LENGTH:
            raise InputError(f"'{text[:60]}': expected words for users, bundles and items: reader,list,book", "words")
        return cls(*(_both(word) for word in words))


def _both(word: str) -> tuple[str, str]:
    one, slash, many = (part.strip() for part in word.partition("/"))
    if not one or (slash and not many):
        raise InputError(f"'{word}': expected a word, or its singular and plural: person/people", "words")
    return one, many or plural(one)


def plural(word: str) -> str:
    """The regular English plural: families, dishes, boxes, days."""
    if re.search(r"[^aeiou\W]y$", word, re.IGNORECASE):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|z|ch|sh)$", word, re.IGNORECASE) else f"{word}s"
