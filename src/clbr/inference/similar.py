"""Similar bundles and items: the nearest ones by the cosine of their vectors."""

from typing import Literal

import torch
from torch import Tensor

from clbr.config import whole_number
from clbr.errors import UnsupportedError
from clbr.evaluation.ranking import top
from clbr.inference.answers import Similar, SimilarNode
from clbr.inference.artifact import Artifact


def similar(artifact: Artifact, kind: Literal["bundle", "item"], id: str | int, *, k: int = 10) -> Similar:
    """The k bundles or items nearest to one, without itself; needs a model with vectors of that kind."""
    nodes = artifact.nodes[kind]
    index = nodes.index(id)
    k = min(whole_number(k, "k"), len(nodes) - 1)
    vectors = _vectors(artifact, kind)[: len(nodes)]
    unit = torch.nn.functional.normalize(vectors)
    scores = unit @ unit[index]
    scores[index] = -torch.inf
    found = [
        SimilarNode(**artifact.node(kind, one).model_dump(), rank=rank, score=float(scores[one]))
        for rank, one in enumerate(top(scores[None], k)[0].tolist(), start=1)
    ]
    return Similar(kind=kind, node=artifact.node(kind, index), k=k, similar=found)


def _vectors(artifact: Artifact, kind: Literal["bundle", "item"]) -> Tensor:
    """The vectors of a kind, the levels that have them side by side."""
    levels = artifact.embeddings.levels.values() if artifact.about.levels else []
    sides = [level.side("bundles" if kind == "bundle" else "items") for level in levels]
    found = [side for side in sides if side is not None]
    if not found:
        raise UnsupportedError(
            f"{artifact.about.model} has no {kind} vectors to compare; crosscbr and bgcn, for instance, have"
        )
    return torch.cat(found, dim=1)
