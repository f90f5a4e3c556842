"""An artefact as the service uses it: read whole, warm, and with its nodes ready to be searched."""

from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch

from clbr.data.dataset import Nodes
from clbr.data.describe import SEGMENTS, Segment, segment_users
from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artefact, open_artefact
from clbr.inference.find import Catalogue
from clbr.inference.whatif import edited, factual
from clbr.service import requests as questions
from clbr.service import schemas
from clbr.service.refusals import RefusedError


class Served:
    """One artefact, which never changes: a request that took hold of it is answered by it alone."""

    def __init__(self, artefact: Artefact) -> None:
        self.artefact = artefact
        self.id = artefact.checksum[:12]
        graph = artefact.graph
        chosen, has = graph.ub.left_degrees[:-1].numpy(), graph.ui.left_degrees[:-1].numpy()
        self.chosen_by = graph.ub.right_degrees.numpy().astype(np.int64)
        self.item_users = graph.ui.right_degrees.numpy().astype(np.int64)
        self.catalogues: dict[questions.Kind, Catalogue] = {
            "user": Catalogue(artefact.users, (chosen + has).astype(np.int64)),
            "bundle": Catalogue(artefact.bundles, graph.bi.left_degrees[:-1].numpy().astype(np.int64)),
            "item": Catalogue(artefact.items, graph.bi.right_degrees.numpy().astype(np.int64)),
        }

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read and check all of it. Its files may change or go afterwards."""
        artefact = open_artefact(folder.resolve(), mapped=False)
        served = cls(artefact)
        _ = artefact.card, artefact.recommender, artefact.model, served.segments  # read and checked, or worked out, now
        for catalogue in served.catalogues.values():
            catalogue.find("a", 1)
        return served

    def warm(self) -> None:
        """Ask it once, so that nobody has to wait for what is only done once; refused if its answers disagree."""
        artefact = self.artefact
        if not artefact.can_ask:
            return
        then, now = factual(artefact), edited(artefact, EdgeEdits())
        pairs = ((then.users, now.users), (then.bundles, now.bundles))
        if not all(torch.allclose(one, other, atol=1e-3) for one, other in pairs):
            raise InputError(
                f"{artefact.folder}: its lists were made by another version of clbr ({artefact.about.version}) than "
                "would answer what if, and the two do not agree; export it again"
            )

    @cached_property
    def segments(self) -> list[Segment]:
        """Of each user."""
        numbers = segment_users(self.artefact.chosen, self.artefact.about.users)
        return [SEGMENTS[number] for number in numbers]

    def number(self, kind: questions.Kind, id: str) -> int:
        """The number of a node by its id."""
        found = self.artefact.nodes(kind).find(id)
        if found is None:
            raise RefusedError(404, f"unknown {kind} '{id}': look it up with /api/find?kind={kind}&text=...", kind, id)
        return found

    def numbers(self, kind: questions.Kind, ids: list[str]) -> tuple[int, ...]:
        """The numbers of several nodes."""
        return tuple(self.number(kind, id) for id in ids)

    def node(self, kind: questions.Kind, number: int) -> schemas.Node:
        """A node as people know it."""
        return node(self.artefact.nodes(kind), number)


def node(nodes: Nodes, number: int) -> schemas.Node:
    """A node as people know it."""
    return schemas.Node(id=nodes.id(number), name=nodes.names[number] if nodes.names else None)
