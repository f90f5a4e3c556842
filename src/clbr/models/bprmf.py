"""BPRMF: matrix factorisation trained with BPR on user-bundle pairs (Rendle et al., UAI 2009)."""

from typing import ClassVar

import torch
from torch import nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder, EncoderConfig
from clbr.models.embeddings import Embeddings, Level


class BPRMFConfig(EncoderConfig):
    """Settings of BPRMF."""


class BPRMF(Encoder):
    """One vector per user and per bundle; the graph is not used."""

    config_class = BPRMFConfig
    citation = "Rendle et al., UAI 2009"
    relations: ClassVar[tuple[Relation, ...]] = ()
    cuts_columns = True

    def __init__(self, config: BPRMFConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Return the parameters themselves."""
        return Embeddings({"bundle": Level(self.users, self.bundles)})
