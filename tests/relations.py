"""Three small relations as frames, for tests of what is built from frames."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl

Make = Callable[[dict[str, Any]], Any]
MAKERS = [pd.DataFrame, pl.DataFrame]
USERS, BUNDLES = ["u10", "u9", "u2"], ["b3", "b1", "b2", "b4"]
CHOSEN = {"user": [u for u in USERS for _ in BUNDLES], "bundle": BUNDLES * len(USERS)}
BOUGHT = {"user": ["u9", "u2", "u7"], "item": ["tea", "jam", "tea"]}
CONTENTS = {"bundle": ["b1", "b2", "b3", "b9"], "item": ["tea", "jam", "ham", "tea"]}


def frames(make: Make, **changes: dict[str, Any]) -> dict[str, Any]:
    """The three relations as frames, with some of their columns replaced."""
    relations = {"user_bundle": CHOSEN, "user_item": BOUGHT, "bundle_item": CONTENTS}
    return {name: make(columns | changes.get(name, {})) for name, columns in relations.items()}
