"""BundleGT: attention among the items of a bundle and among the bundles of a user (Wei et al., SIGIR 2023).

The strategy of a bundle is how its items relate to each other. A layer computes, with symmetrically normalised sums,

    items    LightGCN over user-item + the sum over the item's bundles
    bundles  weighted mean of the attention among its items and the sum over them + the sum over its users
    users    weighted mean of the attention among its bundles and the sum over them + LightGCN over user-item

The attention of n tokens x is the mean of the n rows of softmax(x Wq (x Wk)' / sqrt(d)) x. The values have no weight
matrix. The score is the inner product of the user and the bundle of the last layer: there is one level.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import COMMON_SPACE, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Embeddings, Level

BLOCK = 1 << 12
"""Tokens processed at once: few enough that their vectors stay in the cache."""


class BundleGTConfig(EncoderConfig):
    """Settings of BundleGT. The defaults are the published ones for Youshu."""

    item_layers: int = Field(4, ge=0, description="number of propagation layers over user-item")
    attention_layers: int = Field(3, ge=1, description="number of layers with attention")
    bundle_attention: float = Field(0.5, ge=0, le=1, description="weight of attention against the sum over items")
    user_attention: float = Field(0.5, ge=0, le=1, description="weight of attention against the sum over bundles")
    learned_attention: bool = Field(False, description="train Wq and Wk; the published code leaves them as drawn")
    bundle_tokens: int = Field(70, ge=1, description="maximum number of a bundle's items in its attention")
    user_tokens: int = Field(70, ge=1, description="maximum number of a user's bundles in the attention")


class BundleGT(Encoder):
    """Layers with attention on the vectors of users, bundles and items."""

    config_class = BundleGTConfig
    citation = "Wei et al., SIGIR 2023"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "item_layers": [1, 2, 3, 4],
        "attention_layers": [1, 2, 3],
        "bundle_attention": [0.1, 0.3, 0.5, 0.7, 0.9],
        "user_attention": [0.1, 0.3, 0.5, 0.7, 0.9],
        "learned_attention": [False, True],
        "bundle_tokens": [10, 30, 70],
        "user_tokens": [10, 30, 70],
    }
    config: BundleGTConfig

    def __init__(self, config: BundleGTConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))
        self.items = nn.Parameter(torch.empty(items, config.dim))
        layers, learned = range(config.attention_layers), config.learned_attention
        self.over_items = nn.ModuleList(Attention(config.dim, learned) for _ in layers)
        self.over_bundles = nn.ModuleList(Attention(config.dim, learned) for _ in layers)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all parameters; Wq and Wk from U(-1, 1) / sqrt(d), as published: they may stay as they are drawn."""
        super().initialise(generator)
        bound = self.config.dim**-0.5
        for matrix in (*self.over_items.parameters(), *self.over_bundles.parameters()):
            nn.init.uniform_(matrix, -bound, bound, generator=generator)

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Propagate over user-item, then apply the layers."""
        config = self.config
        contents = graph.keep(f"contents {config.bundle_tokens}", lambda g: Sequences(g.bi, config.bundle_tokens), "bi")
        history = graph.keep(f"history {config.user_tokens}", lambda g: Sequences(g.ub, config.user_tokens), "ub")
        base_users, base_items = self._propagate(graph.ui)
        users: Tensor = self.users
        bundles: Tensor = self.bundles
        items: Tensor = self.items
        for over_items, over_bundles in zip(self.over_items, self.over_bundles, strict=True):
            chosen, choosers = graph.ub.symmetric @ bundles, graph.ub.back_symmetric @ users  # (U, d), (B, d)
            content = graph.bi.symmetric @ items  # (B, d)
            items = base_items + graph.bi.back_symmetric @ bundles
            bundles = torch.lerp(content, over_items(contents, items), config.bundle_attention) + choosers
            users = torch.lerp(chosen, over_bundles(history, bundles), config.user_attention) + base_users
        return Embeddings({"strategy": Level(users, bundles, items)})

    def _propagate(self, edges: Edges) -> tuple[Tensor, Tensor]:
        """Return the sum over layers l of A^l x0, for users and for items."""
        users: Tensor = self.users
        items: Tensor = self.items
        user_sum, item_sum = users, items
        for _ in range(self.config.item_layers):
            users, items = edges.symmetric @ items, edges.back_symmetric @ users
            user_sum, item_sum = user_sum + users, item_sum + items
        return user_sum, item_sum


class Sequences:
    """The neighbours of each left node as a sequence of tokens: the first `limit` ones if there are more.

    Sequences of equal length form blocks, so nothing is padded.
    """

    def __init__(self, edges: Edges, limit: int) -> None:
        self.left = edges.shape[0]
        pointers, columns = edges.pattern.pointers, edges.pattern.columns
        lengths = np.minimum(np.diff(pointers), limit)
        self.blocks: list[tuple[Tensor, Tensor]] = []  # (n,) left nodes and their tokens, (n, length)
        for length in np.unique(lengths[lengths > 0]).tolist():
            nodes = np.flatnonzero(lengths == length)
            tokens = columns[pointers[nodes][:, None] + np.arange(length)].astype(np.int64)
            size = max(1, BLOCK // length)
            for start in range(0, len(nodes), size):
                rows = slice(start, start + size)
                self.blocks.append((torch.from_numpy(nodes[rows]), torch.from_numpy(tokens[rows])))

    def to(self, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """Return the blocks on a device."""
        return [(nodes.to(device), tokens.to(device)) for nodes, tokens in self.blocks]


class Attention(nn.Module):
    """Self-attention of the tokens of a sequence, averaged over the tokens."""

    def __init__(self, dim: int, learned: bool) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(dim, dim), requires_grad=learned)
        self.key = nn.Parameter(torch.empty(dim, dim), requires_grad=learned)

    def forward(self, sequences: Sequences, x: Tensor) -> Tensor:
        """Return one vector per left node from the vectors of the right nodes; 0 for an empty sequence."""
        # (x Wq) (x Wk)' = (x Wq Wk') x': one product with the vectors of all nodes instead of two.
        queries = x @ (self.query @ self.key.T / x.shape[1] ** 0.5)
        mean: Tensor = _Attend.apply(queries, x, sequences)  # type: ignore[no-untyped-call]
        return mean


class _Attend(torch.autograd.Function):
    """The mean over tokens i of the sum over tokens j of w_ij x_j, with w_i the softmax over j of <query_i, x_j>.

    Block by block in both directions, so only the weights w are kept. Autograd takes twice the time.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor, x: Tensor, sequences: Sequences) -> Tensor:
        both = torch.cat([queries, x], dim=1)
        out, saved = x.new_zeros(sequences.left, x.shape[1]), []
        for nodes, tokens in sequences.to(x.device):
            query, value = _gather(both, tokens)
            weights = torch.softmax(torch.bmm(query, value.transpose(1, 2)), dim=2)  # (n, length, length)
            out.index_copy_(0, nodes, torch.bmm(weights.mean(1, keepdim=True), value).squeeze(1))
            saved.append(weights)
        context.save_for_backward(both, *saved)
        context.sequences = sequences
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        both, *saved = context.saved_tensors
        out = torch.zeros_like(both)
        for weights, (nodes, tokens) in zip(saved, context.sequences.to(both.device), strict=True):
            query, value = _gather(both, tokens)
            mean = (gradient.index_select(0, nodes) / tokens.shape[1])[:, None]  # (n, 1, d), for each row of weights
            pull = torch.bmm(mean, value.transpose(1, 2))  # (n, 1, length)
            logits = torch.sub(pull, torch.bmm(weights, pull.transpose(1, 2))).mul_(weights)  # softmax backwards
            values = torch.bmm(logits.transpose(1, 2), query).addcmul_(weights.sum(1)[:, :, None], mean)
            parts = torch.cat([torch.bmm(logits, value), values], dim=2)  # (n, length, 2 d)
            out.index_add_(0, tokens.flatten(), parts.flatten(0, 1))
        queries, x = out.chunk(2, dim=1)
        return queries, x, None


def _gather(both: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the queries and the vectors of (n, length) tokens, each (n, length, d)."""
    query, value = both.index_select(0, tokens.flatten()).view(*tokens.shape, -1).chunk(2, dim=2)
    return query, value
