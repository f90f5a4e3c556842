"""Artifact: a trained recommender in a folder of its own. It needs neither the run nor the data set.

    artifact.json            what it is, and the checksums of all other files
    card.md                  the model card
    vectors.safetensors      user, bundle and item vectors on the training graph (models with vectors)
    weights.safetensors      the model's parameters
    graph.safetensors        training pairs, user-item pairs, bundle-item pairs
    users.json, ...          ids and names, where there are any
    index.faiss, index.json  an index of the bundle vectors (index.py), where one was asked for

The graph has one more user and one more bundle, both unseen and without edges: a what-if gives them their edges.
"""

import json
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import load
from scipy.sparse import csr_array
from torch import Tensor

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Kind, Pairs, Relation, incidence
from clbr.errors import InputError, UnsupportedError, found_in
from clbr.evaluation.agreement import Agreement
from clbr.evaluation.protocol import BestBaseline
from clbr.files import local_folder, read_bytes
from clbr.graph.edits import RELATIONS
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.answers import Node
from clbr.inference.caveat import whatif_caveat
from clbr.inference.cold_start import encode_filled
from clbr.inference.index import BundleIndex, file_checksum, open_index
from clbr.models.base import Encoder, Model, Scorer, VectorScorer
from clbr.models.embeddings import Embeddings, Level
from clbr.models.registry import build_model, find_model

LAYOUT = 2
"""Version of the folder's layout; another one is rejected."""
ABOUT, CARD = "artifact.json", "card.md"
VECTORS, WEIGHTS, GRAPH = "vectors.safetensors", "weights.safetensors", "graph.safetensors"
KINDS: tuple[Kind, ...] = ("user", "bundle", "item")


class About(Config):
    """What an artifact is and how good it is."""

    layout: int = LAYOUT
    version: str = Field(description="of clbr, when it was made")
    model: str
    paradigm: str
    seed: int
    settings: dict[str, Any] = Field(description="the model's settings")
    data: str = Field(description="the data set's name")
    fingerprint: str = Field(description="the data set's checksum")
    users: int
    bundles: int
    items: int
    best_epoch: int
    metric: str = Field("recall@20", description="on validation, which selected the epoch and selects the baseline")
    validation: dict[str, float] = Field(default_factory=dict, description="metrics of what is served")
    test: dict[str, float] = Field(default_factory=dict, description="metrics of what is served")
    segments: dict[str, dict[str, float]] = Field(default_factory=dict, description="test metrics by user segment")
    diversity: dict[str, dict[str, float]] = Field(default_factory=dict, description="cost of diversity, on validation")
    baseline: BestBaseline | None = Field(None, description="the best baseline on validation, with its test metrics")
    whatif_agreement: dict[str, Agreement] = Field(
        default_factory=dict, description="measured agreement of what-if with retraining, by kind of edits"
    )
    added: dict[str, int] = Field(default_factory=dict, description="nodes and pairs that updates added since training")
    levels: dict[str, int] = Field(default_factory=dict, description="widths of the levels of vectors")
    files: dict[str, str] = Field(default_factory=dict, description="checksums")


class Artifact:
    """An artifact, opened. Files are read and verified when they are first used."""

    def __init__(self, folder: Path, about: About, mapped: bool = True) -> None:
        self.folder, self.about, self.mapped = folder, about, mapped
        self.unseen_user, self.unseen_bundle = about.users, about.bundles

    @classmethod
    def of(cls, about: About, model: Model, dataset: BundleDataset) -> Self:
        """An artifact in memory, without files; `model` has rows for the unseen user and bundle."""
        artifact = cls(Path(), about)
        pairs: dict[Relation, Pairs] = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
        graph = make_graph(pairs, about.users, about.bundles, about.items)
        made: dict[str, Any] = {"model": model.requires_grad_(False).eval(), "graph": graph, "card": ""}
        made |= {"users": dataset.users, "bundles": dataset.bundles, "items": dataset.items}
        if isinstance(model, Encoder):
            embeddings = encode_filled(model, graph)
            levels = {name: level.users.shape[1] for name, level in embeddings.levels.items()}
            artifact.about = about.model_copy(update={"levels": levels})
            made |= {"embeddings": embeddings, "scorer": VectorScorer.of(embeddings)}
        artifact.__dict__.update(made)  # the cached properties, as if they had been read
        return artifact

    def __repr__(self) -> str:
        return f"Artifact({self.about.model} on {self.about.data}, {self.folder})"

    @cached_property
    def nodes(self) -> dict[Kind, Nodes]:
        """Users, bundles and items by kind, without the unseen ones."""
        return {"user": self.users, "bundle": self.bundles, "item": self.items}

    @cached_property
    def users(self) -> Nodes:
        """The users, without the unseen one."""
        return self._read_nodes("user", self.about.users)

    @cached_property
    def bundles(self) -> Nodes:
        """The bundles, without the unseen one."""
        return self._read_nodes("bundle", self.about.bundles)

    @cached_property
    def items(self) -> Nodes:
        """The items."""
        return self._read_nodes("item", self.about.items)

    @cached_property
    def graph(self) -> BundleGraph:
        """The training graph, with the unseen user and bundle."""
        found = self._tensors(GRAPH)
        pairs = {relation: found[relation].numpy() for relation in RELATIONS}
        return make_graph(pairs, self.about.users, self.about.bundles, self.about.items)

    @cached_property
    def contents(self) -> csr_array:
        """The items of each bundle, as a (bundles, items) matrix of ones."""
        return incidence(self.graph.bi.pairs, *self.graph.bi.shape)

    @cached_property
    def embeddings(self) -> Embeddings:
        """The vectors on the training graph; only of a model with vectors."""
        found = self._vectors
        levels, start = {}, 0
        for name, width in self.about.levels.items():
            here = slice(start, start + width)
            levels[name] = Level(found["users"][:, here], found["bundles"][:, here], found.get(f"items.{name}"))
            start += width
        return Embeddings(levels)

    @cached_property
    def scorer(self) -> Scorer:
        """Scores on the training graph; the last column is the unseen bundle's."""
        if not self.about.levels:
            return self.model.scorer(self.graph)
        return VectorScorer(self._vectors["users"], self._vectors["bundles"])

    @cached_property
    def index(self) -> BundleIndex | None:
        """The index of the bundle vectors, if the folder has one and faiss is installed."""
        if not self.about.levels or not self.about.files:  # without vectors, or in memory
            return None
        users, bundles = self._vectors["users"], self._vectors["bundles"][: self.about.bundles]
        return open_index(self.folder, self.about.files[VECTORS], users, bundles, self.graph.ub.pairs, self.mapped)

    @cached_property
    def _vectors(self) -> dict[str, Tensor]:
        return self._tensors(VECTORS)

    @cached_property
    def model(self) -> Model:
        """The model with its trained parameters."""
        about = self.about
        with found_in(self.folder):
            find_model(about.model)
        model = build_model(about.model, about.settings, about.users + 1, about.bundles + 1, about.items)
        try:
            model.load_state_dict(self._tensors(WEIGHTS), assign=True)
        except RuntimeError as error:
            raise InputError(f"{self.folder / WEIGHTS}: not the weights of {about.model} ({error})") from None
        return model.requires_grad_(False).eval()

    @cached_property
    def supports_whatif(self) -> bool:
        """Whether edits of the graph change what it recommends."""
        return bool(self.about.levels) and bool(find_model(self.about.model).relations)

    def require_whatif(self) -> None:
        """Raise an error if the model does not use a graph."""
        if not self.supports_whatif:
            raise UnsupportedError(
                f"{self.about.model} computes no embeddings from a graph: what-if, explanations and unseen users need "
                "a model that does, for instance crosscbr or bgcn"
            )

    @cached_property
    def caveat(self) -> str:
        """What a what-if answer cannot say, and how well such answers of this recommender agree with retraining."""
        return whatif_caveat(self.about.model, self.about.settings, self.about.whatif_agreement)

    def node(self, kind: Kind, index: int) -> Node:
        """A node by its index, for an answer."""
        nodes = self.nodes[kind]
        return Node(id=nodes.id(index), name=nodes.names[index] if nodes.names else None)

    @cached_property
    def card(self) -> str:
        """The model card, as Markdown."""
        return self._verified(CARD).decode()

    @cached_property
    def checksum(self) -> str:
        """Checksum of `about`, which holds those of all files: equal checksums mean equal artifacts."""
        return about_checksum(self.about.model_dump(mode="json"))

    def verify(self) -> None:
        """Compare the checksums of all files."""
        for name in self.about.files:
            self._verified(name)

    def _verified(self, name: str) -> bytes:
        content = read_bytes(self.folder / name)
        self._compare(name, sha256(content).hexdigest())
        return content

    def _compare(self, name: str, checksum: str) -> None:
        if checksum != self.about.files.get(name):
            path = self.folder / name
            raise InputError(f"{path}: is damaged (its checksum is not that of {ABOUT}); export it again")

    def _tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a verified file, mapped into memory or read."""
        try:
            if not self.mapped:
                return {key: one.clone() for key, one in load(self._verified(name)).items()}  # aligned, see export
            self._compare(name, file_checksum(self.folder / name))
            with safe_open(self.folder / name, framework="pt") as file:
                return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no dict)
        except SafetensorError as error:
            raise InputError(f"{self.folder / name}: is damaged ({error}); export it again") from None

    def _read_nodes(self, kind: Kind, count: int) -> Nodes:
        name = f"{kind}s.json"
        if name not in self.about.files:
            return Nodes(kind, count)
        content = json.loads(self._verified(name))
        ids, names = content.get("ids"), content.get("names")
        tuples = (tuple(ids) if ids else None, tuple(names) if names else None)
        return Nodes(kind, count, *tuples, integer_ids=bool(content.get("integer_ids")))


def open_artifact(folder: str | Path, *, mapped: bool = True) -> Artifact:
    """Open an artifact; an incomplete one, or one of another layout, raises an error.

    Mapped, it opens at once and needs its files as long as it is used. Otherwise the files may change or go. One with a
    URL is copied first (see `local_folder`).
    """
    folder = local_folder(folder, "folder")
    path = folder / ABOUT
    if not path.exists():
        raise InputError(
            f"{folder}: no recommender there (no {ABOUT}); expected a folder made by clbr export or Recommender.save"
        )
    try:
        content = json.loads(read_bytes(path))
        layout, checksum = content["layout"], content.pop("checksum")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: is damaged; export it again") from None
    if layout != LAYOUT:
        newer = isinstance(layout, int) and layout > LAYOUT
        remedy = "it was made by a newer version: install that, or export it again" if newer else "export it again"
        raise InputError(f"{folder}: has layout {layout}, and this version of clbr reads {LAYOUT}; {remedy}")
    if checksum != about_checksum(content):
        raise InputError(f"{path}: is damaged (its checksum has changed); export it again")
    about = About.make(content, str(path))
    if missing := [name for name in about.files if not (folder / name).exists()]:
        raise InputError(f"{folder}: {missing[0]} is missing; export it again")
    return Artifact(folder, about, mapped)


def about_checksum(content: dict[str, Any]) -> str:
    """Checksum of what an artifact says about itself."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def make_graph(pairs: dict[Relation, Pairs], users: int, bundles: int, items: int) -> BundleGraph:
    """The graph with one more user and one more bundle, both without edges."""
    ub, ui = Edges(pairs["ub"], (users + 1, bundles + 1)), Edges(pairs["ui"], (users + 1, items))
    return BundleGraph(ub, ui, Edges(pairs["bi"], (bundles + 1, items)))
