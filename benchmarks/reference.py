"""Reference implementation for speed.py: the same models, written as published bundle recommenders are.

COO matrices over stacked nodes, BGCN's overlap multiplied out, negatives drawn one at a time, torch's own dropout,
normalize and cross_entropy, a dense mask in evaluation. Where published code is still slower (one sparse matrix lookup
per negative, a softmax in four passes), the faster variant is used here.
"""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from clbr.data.dataset import BundleDataset
from clbr.models.embeddings import Triples

Vectors = list[tuple[Tensor, Tensor]]
"""User vectors and bundle vectors of each level of a model."""


def incidence(pairs: np.ndarray, rows: int, columns: int) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape=(rows, columns))


def normalised(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return D_rows^-1/2 A D_columns^-1/2."""
    rows, columns = (1 / (np.sqrt(np.asarray(matrix.sum(axis)).ravel()) + 1e-8) for axis in (1, 0))
    return sp.diags(rows) @ matrix @ sp.diags(columns)


def row_mean(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return D_rows^-1 A."""
    return sp.diags(1 / (np.asarray(matrix.sum(1)).ravel() + 1e-8)) @ matrix


def stacked(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return [[0, A], [A', 0]]: left and right nodes stacked."""
    return sp.bmat([[None, matrix], [matrix.T, None]]).tocsr()


def coo(matrix: sp.spmatrix) -> Tensor:
    matrix = matrix.tocoo()
    indices = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_coo_tensor(indices, values, matrix.shape, check_invariants=False).coalesce()


def csr32(matrix: sp.spmatrix) -> Tensor:
    """Return a CSR tensor with 32-bit indices, for which torch calls MKL."""
    matrix = matrix.tocsr()
    pointers, columns = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_csr_tensor(pointers, columns, values, matrix.shape, check_invariants=False)


def edge_dropout(matrix: sp.csr_matrix, rate: float) -> sp.csr_matrix:
    matrix = matrix.tocoo()
    keep = np.random.choice([0.0, 1.0], size=len(matrix.data), p=[rate, 1 - rate])  # noqa: NPY002
    return sp.coo_matrix((matrix.data * keep, (matrix.row, matrix.col)), shape=matrix.shape).tocsr()


def draw_negatives(users: Sequence[int], positives: list[set[int]], bundles: int) -> list[int]:
    """Draw one negative per user; redraw while it is a positive of the user."""
    drawn = []
    for user in users:
        bundle = np.random.randint(bundles)  # noqa: NPY002
        while bundle in positives[user]:
            bundle = np.random.randint(bundles)  # noqa: NPY002
        drawn.append(bundle)
    return drawn


def positive_sets(dataset: BundleDataset) -> list[set[int]]:
    """Return the training bundles of each user."""
    positives: list[set[int]] = [set() for _ in range(len(dataset.users))]
    for user, bundle in dataset.train.tolist():
        positives[user].add(bundle)
    return positives


def bpr(vectors: Vectors, triples: Triples) -> Tensor:
    candidates = torch.cat([triples.positives[:, None], triples.negatives], dim=1)  # (n, 1 + k)
    scores = sum(
        (users[triples.users][:, None].expand(-1, candidates.shape[1], -1) * bundles[candidates]).sum(2)
        for users, bundles in vectors
    )
    return -torch.log(torch.sigmoid(scores[:, :1] - scores[:, 1:])).mean()


def info_nce(one: Tensor, other: Tensor, nodes: Tensor, temperature: float) -> Tensor:
    """Return InfoNCE with one row per entry of the batch: a node that occurs twice has two rows."""
    one, other = F.normalize(one[nodes], dim=1), F.normalize(other[nodes], dim=1)
    return F.cross_entropy(one @ other.T / temperature, torch.arange(len(nodes)))


def softmax(users: Tensor, bundles: Tensor, train_mask: Tensor, triples: Triples) -> Tensor:
    """Return the cross entropy of each pair against all bundles that its user has not chosen, as one matrix."""
    scores = users[triples.users] @ bundles.T  # (n, bundles)
    chosen = train_mask[triples.users].bool()
    chosen[torch.arange(len(chosen)), triples.positives] = False
    return F.cross_entropy(scores.masked_fill(chosen, -torch.inf), triples.positives)


def evaluation(vectors: Vectors, train_mask: Tensor, relevant: Tensor, users: Tensor, size: int = 2048) -> dict:
    """Return recall and NDCG at 20 and 40. `train_mask` and `relevant` are dense, users x bundles."""
    discounts, sums = 1 / torch.log2(torch.arange(2, 42).float()), {}
    for chunk in users.split(size):
        scores = sum(left[chunk] @ right.T for left, right in vectors)
        scores = scores - 1e8 * train_mask[chunk]
        targets = relevant[chunk]
        for k in (20, 40):
            best = torch.topk(scores, k).indices
            hits, counts = targets.gather(1, best), targets.sum(1)
            ideal = discounts.cumsum(0)[counts.clamp(max=k).long() - 1]
            sums[f"recall@{k}"] = sums.get(f"recall@{k}", 0) + (hits.sum(1) / counts).sum().item()
            sums[f"ndcg@{k}"] = sums.get(f"ndcg@{k}", 0) + (hits @ discounts[:k] / ideal).sum().item()
    return {name: total / len(users) for name, total in sums.items()}


class Reference:
    """A model of the package in the reference implementation, with a copy of its initial parameters."""

    def __init__(self, model: nn.Module, dataset: BundleDataset) -> None:
        self.weights, self.config = deepcopy(model), model.config
        self.sizes = len(dataset.users), len(dataset.bundles), len(dataset.items)
        users, bundles, items = self.sizes
        self.ub = incidence(dataset.train, users, bundles)
        self.ui, self.bi = incidence(dataset.ui, users, items), incidence(dataset.bi, bundles, items)
        self.prepare()

    def prepare(self) -> None:
        """Compute the matrices that are constant during training."""

    def start_epoch(self) -> None:
        """Compute the matrices that are drawn again in every epoch."""

    def vectors(self) -> Vectors:
        raise TypeError(f"{type(self).__name__} does not define its vectors")

    def loss(self, triples: Triples) -> Tensor:
        return bpr(self.vectors(), triples)


class BPRMF(Reference):
    def vectors(self) -> Vectors:
        return [(self.weights.users, self.weights.bundles)]


class LightGCN(Reference):
    def prepare(self) -> None:
        self.graph = coo(normalised(stacked(self.ub)))

    def vectors(self) -> Vectors:
        layers = [torch.cat([self.weights.users, self.weights.bundles])]
        for _ in range(self.config.layers):
            layers.append(torch.sparse.mm(self.graph, layers[-1]))
        users, bundles = torch.stack(layers, dim=1).mean(dim=1).split(self.sizes[:2])
        return [(users, bundles)]


class RGCN(Reference):
    def prepare(self) -> None:
        ub, ui, bi = self.ub, self.ui, self.bi
        self.graphs = [coo(row_mean(matrix.tocsr())) for matrix in (ub, ui, ub.T, bi, ui.T, bi.T)]

    def vectors(self) -> Vectors:
        users, bundles, items = self.weights.users, self.weights.bundles, self.weights.items
        for depth, layer in enumerate(self.weights.layers, start=1):
            sources = (bundles, items, users, items, users, bundles)
            messages = [
                torch.sparse.mm(graph, source) @ weight
                for graph, source, weight in zip(self.graphs, sources, layer.transforms, strict=True)
            ]
            nodes = [
                x @ layer.own + messages[2 * i] + messages[2 * i + 1] for i, x in enumerate((users, bundles, items))
            ]
            if depth < len(self.weights.layers):
                nodes = [F.dropout(torch.relu(x), self.config.message_dropout) for x in nodes]
            users, bundles, items = nodes
        return [(users, bundles)]


class BGCN(Reference):
    def prepare(self) -> None:
        users, _, items = self.sizes
        unit = sp.diags(1 / (np.sqrt(np.asarray(self.bi.sum(1)).ravel()) + 1e-8)) @ self.bi
        overlap = unit @ unit.T  # millions of entries
        item_level = [[sp.eye(users), self.ui], [self.ui.T, sp.eye(items)]]
        bundle_level = [[sp.eye(users), self.ub], [self.ub.T, overlap]]
        self.item_level, self.bundle_level = (coo(normalised(sp.bmat(x).tocsr())) for x in (item_level, bundle_level))
        self.contents = coo(row_mean(self.bi))

    def vectors(self) -> Vectors:
        weights = self.weights
        users, items = self.convolved(self.item_level, weights.items, weights.item_layers)
        contents = F.normalize(torch.sparse.mm(self.contents, items), dim=1)
        bundle_users, bundles = self.convolved(self.bundle_level, weights.bundles, weights.bundle_layers)
        return [(users, contents), (bundle_users, bundles)]

    def convolved(self, graph: Tensor, others: Tensor, layers: nn.ModuleList) -> tuple[Tensor, Tensor]:
        hidden = torch.cat([self.weights.users, others])
        outputs = [hidden]
        for layer in layers:
            hidden = torch.cat([F.leaky_relu(layer(torch.sparse.mm(graph, hidden))), hidden], dim=1)
            hidden = F.dropout(hidden, self.config.message_dropout)
            outputs.append(F.normalize(hidden, dim=1))
        users, rest = torch.cat(outputs, dim=1).split([self.sizes[0], len(others)])
        return users, rest


class CrossCBR(Reference):
    def start_epoch(self) -> None:
        config = self.config
        self.item_level = coo(normalised(edge_dropout(stacked(self.ui), config.item_dropout)))
        self.bundle_level = coo(normalised(edge_dropout(stacked(self.ub), config.bundle_dropout)))
        self.contents = coo(row_mean(edge_dropout(self.bi, config.contents_dropout)))

    def vectors(self) -> Vectors:
        users, items = self.propagated(self.item_level, self.weights.items)
        bundle_users, bundles = self.propagated(self.bundle_level, self.weights.bundles)
        return [(users, torch.sparse.mm(self.contents, items)), (bundle_users, bundles)]

    def propagated(self, graph: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.cat([self.weights.users, others])
        layers = [hidden]
        for _ in range(self.config.layers):
            hidden = torch.sparse.mm(graph, hidden)
            layers.append(F.normalize(hidden, dim=1))
        users, rest = torch.stack(layers, dim=1).sum(dim=1).split([self.sizes[0], len(others)])
        return users, rest

    def loss(self, triples: Triples) -> Tensor:
        (users, contents), (bundle_users, bundles) = vectors = self.vectors()
        contrastive = [
            info_nce(users, bundle_users, triples.users, self.config.temperature),
            info_nce(contents, bundles, triples.positives, self.config.temperature),
        ]
        return bpr(vectors, triples) + self.config.contrastive_weight * sum(contrastive) / 2


REFERENCES: dict[str, type[Reference]] = {
    "crosscbr": CrossCBR,
    "bgcn": BGCN,
    "lightgcn": LightGCN,
    "bprmf": BPRMF,
    "rgcn": RGCN,
}
