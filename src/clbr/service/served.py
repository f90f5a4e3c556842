"""An artifact as the service uses it: read whole, warm, and with its nodes ready to be searched."""

from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch

from clbr.data.dataset import Nodes
from clbr.data.describe import SEGMENTS, Segment, segment_users
from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.find import Catalogue
from clbr.inference.whatif import edited, factual
from clbr.service import requests as questions
from clbr.service import schemas
from clbr.service.refusals import RefusedError


class Served:
    """One artifact, which never changes: a request that took hold of it is answered by it alone."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.id = artifact.checksum[:12]
        graph = artifact.graph
        chosen, has = graph.ub.left_degrees[:-1].numpy(), graph.ui.left_degrees[:-1].numpy()
        self.chosen_by = graph.ub.right_degrees.numpy().astype(np.int64)
        self.item_users = graph.ui.right_degrees.numpy().astype(np.int64)
        self.catalogues: dict[questions.Kind, Catalogue] = {
            "user": Catalogue(artifact.users, (chosen + has).astype(np.int64)),
            "bundle": Catalogue(artifact.bundles, graph.bi.left_degrees[:-1].numpy().astype(np.int64)),
            "item": Catalogue(artifact.items, graph.bi.right_degrees.numpy().astype(np.int64)),
        }

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read and check all of it. Its files may change or go afterwards."""
        artifact = open_artifact(folder.resolve(), mapped=False)
        served = cls(artifact)
        _ = artifact.card, artifact.recommender, artifact.model, served.segments  # read and checked, or worked out, now
        for catalogue in served.catalogues.values():
            catalogue.find("a", 1)
        return served

    def warm(self) -> None:
        """Ask it once, so that nobody has to wait for what is only done once; refused if its answers disagree."""
        artifact = self.artifact
        if not artifact.supports_whatif:
            return
        then, now = factual(artifact), edited(artifact, EdgeEdits())
        pairs = ((then.users, now.users), (then.bundles, now.bundles))
        if not all(torch.allclose(one, other, atol=1e-3) for one, other in pairs):
            raise InputError(
                f"{artifact.folder}: its lists were made by another version of clbr ({artifact.about.version}) than "
                "would answer what if, and the two do not agree; export it again"
            )

    @cached_property
    def segments(self) -> list[Segment]:
        """Of each user."""
        numbers = segment_users(self.artifact.chosen, self.artifact.about.users)
        return [SEGMENTS[number] for number in numbers]

    def number(self, kind: questions.Kind, id: str) -> int:
        """The number of a node by its id."""
        found = self.artifact.nodes(kind).find(id)
        if found is None:
            raise RefusedError(404, f"unknown {kind} '{id}': look it up with /api/find?kind={kind}&text=...", kind, id)
        return found

    def numbers(self, kind: questions.Kind, ids: list[str]) -> tuple[int, ...]:
        """The numbers of several nodes."""
        return tuple(self.number(kind, id) for id in ids)

    def node(self, kind: questions.Kind, number: int) -> schemas.Node:
        """A node as people know it."""
        return node(self.artifact.nodes(kind), number)


def node(nodes: Nodes, number: int) -> schemas.Node:
    """A node as people know it."""
    return schemas.Node(id=nodes.id(number), name=nodes.names[number] if nodes.names else None)
