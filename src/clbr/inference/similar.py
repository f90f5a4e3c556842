"""Similar bundles and items: the nearest ones by the cosine of their vectors."""

from typing import Literal

import torch

from clbr.config import whole_number
from clbr.errors import UnsupportedError
from clbr.evaluation.ranking import top
from clbr.inference.answers import Similar, SimilarNode
from clbr.inference.artifact import Artifact
from clbr.inference.vectors import node_vectors


def similar(artifact: Artifact, kind: Literal["bundle", "item"], id: str | int, *, k: int = 10) -> Similar:
    """The k bundles or items nearest to one, without itself; needs a model with vectors of that kind."""
    nodes = artifact.nodes[kind]
    index = nodes.index(id)
    k = min(whole_number(k, "k"), len(nodes) - 1)
    vectors = node_vectors(artifact, kind, calibrated=False)  # scales and offsets of scores say nothing about contents
    if vectors is None:
        raise UnsupportedError(
            f"{artifact.about.model} has no {kind} vectors to compare; crosscbr and bgcn, for instance, have"
        )
    unit = torch.nn.functional.normalize(vectors)
    scores = unit @ unit[index]
    scores[index] = -torch.inf
    found = [
        SimilarNode(**artifact.node(kind, one).model_dump(), rank=rank, score=float(scores[one]))
        for rank, one in enumerate(top(scores[None], k)[0].tolist(), start=1)
    ]
    return Similar(kind=kind, node=artifact.node(kind, index), k=k, similar=found)
