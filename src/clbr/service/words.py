"""What the page calls users, bundles and items: readers, lists and books, for instance."""

import re
from dataclasses import dataclass
from typing import Self

from clbr.errors import InputError

MAX_LENGTH = 40
IRREGULAR = {
    "person": "people",
    "child": "children",
    "man": "men",
    "woman": "women",
    "knife": "knives",
    "life": "lives",
    "wife": "wives",
    "series": "series",
    "species": "species",
}


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
    """The English plural, by rule: families, dishes, boxes, days, shelves; and that of a few irregular words."""
    for one, many in IRREGULAR.items():
        if re.search(rf"\b{one}$", word, re.IGNORECASE):
            return word[: 1 - len(one)] + many[1:]  # both begin with the same letter, which may be a capital
    if re.search(r"(el|hal|cal|wol|ar|lea|loa|thie)f$", word, re.IGNORECASE):
        return f"{word[:-1]}ves"
    if re.search(r"[^aeiou\W]y$", word, re.IGNORECASE):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|z|ch|sh)$", word, re.IGNORECASE) else f"{word}s"
