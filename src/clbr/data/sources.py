"""Public data sets and their published counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """The counts that a paper states for a data set."""

    users: int
    bundles: int
    items: int
    user_bundle: int
    user_item: int
    bundle_item: int
    source: str


_CLBR = "Table 1 of the CLBR paper"

PUBLISHED = {
    "Youshu": Published(8_039, 4_771, 32_770, 51_377, 138_515, 176_667, _CLBR),
    "NetEase": Published(18_528, 22_864, 123_628, 302_303, 1_128_065, 1_778_838, _CLBR),
    "iFashion": Published(53_897, 27_694, 42_563, 1_679_708, 2_290_645, 106_916, "Table 2 of the CrossCBR paper"),
}

PARTIAL = {"NetEasePartial": "NetEase"}
"""Incomplete copies of a data set. Their results are not comparable with published ones."""
