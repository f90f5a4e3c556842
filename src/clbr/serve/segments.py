"""Users by how much is known of them: heavy, light and cold."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Pairs

Segment = Literal["heavy", "light", "cold"]
SEGMENTS: tuple[Segment, ...] = ("heavy", "light", "cold")


def segment_users(chosen: Pairs, users: int) -> NDArray[np.int64]:
    """For each user the number of her segment in SEGMENTS.

    Cold ones have chosen no bundle, light ones at most as many as the median of those who have, heavy ones more.
    """
    degrees = np.bincount(chosen[:, 0], minlength=users)
    middle = np.median(degrees[degrees > 0]) if degrees.any() else 0
    return np.select([degrees == 0, degrees <= middle], [2, 1], 0)
