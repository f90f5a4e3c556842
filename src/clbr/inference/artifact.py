"""An artifact: a trained recommender in a folder of its own, which needs neither the run nor the data set.

    artifact.json            what it is, and the checksums of all other files
    card.md                  the same in words
    vectors.safetensors      users' and bundles' vectors, ready to rank by (models that make vectors)
    weights.safetensors      the model's parameters, for what-if
    graph.safetensors        training pairs, user-item, bundle-item
    users.json, ...          ids and names, where there are any

There is one user and one bundle more than the data set has: spare ones without an edge. Someone never seen is the spare
user with her choices as edits, and a bundle never seen is the spare bundle with its contents.
"""

import json
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import load
from scipy.sparse import csr_array
from torch import Tensor

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Pairs, Relation, incidence
from clbr.errors import InputError
from clbr.files import read_bytes
from clbr.graph.edits import RELATIONS
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.cold_start import filled
from clbr.models.base import Embeddings, Encoder, Level, Model, Recommender, VectorRecommender
from clbr.models.registry import MODELS, build_model

LAYOUT = 1
"""Of the folder; a newer one is refused."""
ABOUT, CARD = "artifact.json", "card.md"
VECTORS, WEIGHTS, GRAPH = "vectors.safetensors", "weights.safetensors", "graph.safetensors"
KINDS: tuple[Literal["user", "bundle", "item"], ...] = ("user", "bundle", "item")


class About(Config):
    """What an artifact is."""

    layout: int
    version: str = Field(description="of clbr, when it was made")
    model: str
    paradigm: str
    seed: int
    settings: dict[str, Any] = Field(description="the model's")
    data: str = Field(description="the data set's name")
    fingerprint: str = Field(description="the data set's checksum")
    users: int
    bundles: int
    items: int
    best_epoch: int
    validation: dict[str, float] = Field(description="metrics at the best epoch")
    test: dict[str, float]
    segments: dict[str, dict[str, float]] = Field(description="test metrics of heavy and light users")
    diversity: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="what diversity costs, on validation"
    )
    levels: dict[str, int] = Field(description="the widths of the vectors' levels")
    files: dict[str, str] = Field(description="checksums")


class Artifact:
    """A trained recommender, opened. Files are read, and their checksums looked at, when they are first needed."""

    def __init__(self, folder: Path, about: About, mapped: bool = True) -> None:
        self.folder, self.about, self.mapped = folder, about, mapped

    @classmethod
    def of(cls, folder: Path, about: About, model: Model, dataset: BundleDataset) -> Self:
        """One that was not written yet; `model` has the spare nodes."""
        artifact = cls(folder, about)
        pairs: dict[Relation, Pairs] = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
        graph = make_graph(pairs, about.users, about.bundles, about.items)
        recommender = model.recommender(graph)
        if isinstance(model, Encoder):
            with torch.no_grad():
                recommender = VectorRecommender.of(encode_all(model, graph))
        made: dict[str, Any] = {"model": model, "graph": graph, "recommender": recommender}
        made |= {"users": dataset.users, "bundles": dataset.bundles, "items": dataset.items}
        artifact.__dict__.update(made)  # as if they had been read
        return artifact

    def __repr__(self) -> str:
        return f"Artifact({self.about.model} on {self.about.data}, {self.folder})"

    @property
    def unseen_user(self) -> int:
        """The user without an edge that stands for someone never seen."""
        return self.about.users

    @property
    def unseen_bundle(self) -> int:
        """The bundle without an item that stands for one never seen."""
        return self.about.bundles

    def nodes(self, kind: Literal["user", "bundle", "item"]) -> Nodes:
        """What users, bundles or items are called."""
        return {"user": self.users, "bundle": self.bundles, "item": self.items}[kind]

    @cached_property
    def users(self) -> Nodes:
        """The users, without the spare one."""
        return self._nodes("user", self.about.users)

    @cached_property
    def bundles(self) -> Nodes:
        """The bundles, without the spare one."""
        return self._nodes("bundle", self.about.bundles)

    @cached_property
    def items(self) -> Nodes:
        """The items."""
        return self._nodes("item", self.about.items)

    @cached_property
    def graph(self) -> BundleGraph:
        """The factual graph, spare nodes included."""
        found = self._tensors(GRAPH)
        pairs = {relation: found[relation].numpy() for relation in RELATIONS}
        return make_graph(pairs, self.about.users, self.about.bundles, self.about.items)

    @cached_property
    def contents(self) -> csr_array:
        """What is in each bundle, as a (bundles, items) matrix of ones."""
        return incidence(self.graph.bi.pairs, *self.graph.bi.shape)

    @property
    def chosen(self) -> Pairs:
        """The user-bundle pairs that it was trained on, sorted."""
        return self.graph.ub.pairs

    @cached_property
    def embeddings(self) -> Embeddings:
        """The vectors on the factual graph; of a model that makes vectors."""
        found = self._vectors
        levels, start = {}, 0
        for name, width in self.about.levels.items():
            here = slice(start, start + width)
            levels[name] = Level(found["users"][:, here], found["bundles"][:, here], found.get(f"items.{name}"))
            start += width
        return Embeddings(levels)

    @cached_property
    def recommender(self) -> Recommender:
        """Scores on the factual graph."""
        if not self.about.levels:
            return self.model.recommender(self.graph)
        return VectorRecommender(self._vectors["users"], self._vectors["bundles"])

    @cached_property
    def _vectors(self) -> dict[str, Tensor]:
        """All vectors: lists and what-ifs look at the same ones."""
        return self._tensors(VECTORS)

    @cached_property
    def model(self) -> Model:
        """The model with its trained parameters, ready for an edited graph."""
        about = self.about
        if about.model not in MODELS:
            raise InputError(f"{self.folder}: is of the model '{about.model}', which is not registered here")
        model = build_model(about.model, about.settings, about.users + 1, about.bundles + 1, about.items)
        try:
            model.load_state_dict(self._tensors(WEIGHTS), assign=True)
        except RuntimeError as error:
            raise InputError(f"{self.folder / WEIGHTS}: not the weights of {about.model} ({error})") from None
        return model.requires_grad_(False).eval()

    @property
    def supports_whatif(self) -> bool:
        """Whether it can be asked what if."""
        kind = MODELS.get(self.about.model)
        return bool(self.about.levels) and kind is not None and issubclass(kind, Encoder) and bool(kind.relations)

    def require_whatif(self) -> None:
        """Refuse what-if where the model does not look at a graph."""
        if not self.supports_whatif:
            raise InputError(
                f"{self.about.model} does not look at a graph when it recommends, so an edit would change nothing: "
                "what-if, explanations and newcomers need a model that does, for instance crosscbr or bgcn"
            )

    def encode(self, graph: BundleGraph) -> Embeddings:
        """The vectors on an edited graph: exact, by propagating anew; blanks are filled."""
        self.require_whatif()
        assert isinstance(self.model, Encoder)
        return encode_all(self.model, graph)

    def check(self) -> None:
        """Look at the checksums of all files."""
        for name in self.about.files:
            self._checked(name)

    @cached_property
    def card(self) -> str:
        """What it is, in words."""
        return self._checked(CARD).decode()

    @property
    def checksum(self) -> str:
        """Of what it says about itself, all files' checksums included: two artifacts with the same one are the same."""
        return about_checksum(self.about.model_dump(mode="json"))

    def _checked(self, name: str) -> bytes:
        path = self.folder / name
        content = read_bytes(path)
        if sha256(content).hexdigest() != self.about.files.get(name):
            raise InputError(f"{path}: is damaged (its checksum is not that of {ABOUT}); export it again")
        return content

    def _tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, after a look at its checksum: mapped into memory, or the very bytes looked at."""
        content = self._checked(name)
        try:
            if not self.mapped:
                return load(content)
            with safe_open(self.folder / name, framework="pt") as file:
                return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no dict)
        except SafetensorError as error:
            raise InputError(f"{self.folder / name}: is damaged ({error}); export it again") from None

    def _nodes(self, kind: Literal["user", "bundle", "item"], count: int) -> Nodes:
        name = f"{kind}s.json"
        if name not in self.about.files:
            return Nodes(kind, count)
        told = json.loads(self._checked(name))
        ids, names = told.get("ids"), told.get("names")
        return Nodes(kind, count, tuple(ids) if ids else None, tuple(names) if names else None)


def open_artifact(folder: str | Path, *, mapped: bool = True) -> Artifact:
    """Open an artifact. One that is not whole, or was made by a newer version, is refused.

    Mapped, it opens at once and needs its files for as long as it is used; otherwise they may change or go.
    """
    folder = Path(folder)
    path = folder / ABOUT
    if not path.exists():
        raise InputError(f"{folder}: no artifact there (no {ABOUT}); expected a folder that clbr export made")
    try:
        told = json.loads(read_bytes(path))
        layout, checksum = told["layout"], told.pop("checksum")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: is damaged; export it again") from None
    if layout != LAYOUT:
        newer = isinstance(layout, int) and layout > LAYOUT
        todo = "it was made by a newer version: install that, or export it again" if newer else "export it again"
        raise InputError(f"{folder}: has layout {layout}, and this version of clbr reads {LAYOUT}; {todo}")
    if checksum != about_checksum(told):
        raise InputError(f"{path}: is damaged (it has another checksum than when it was written); export it again")
    about = About.make(told, str(path))
    if missing := [name for name in about.files if not (folder / name).exists()]:
        raise InputError(f"{folder}: {missing[0]} is missing; export it again")
    return Artifact(folder, about, mapped)


def about_checksum(told: dict[str, Any]) -> str:
    """Of what an artifact says about itself."""
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def encode_all(model: Encoder, graph: BundleGraph) -> Embeddings:
    """A model's vectors on a graph, with something to say about users and bundles that it knows nothing of."""
    with torch.no_grad():
        return filled(type(model), model.encode(graph), graph)


def make_graph(pairs: dict[Relation, Pairs], users: int, bundles: int, items: int) -> BundleGraph:
    """The graph with a spare user and a spare bundle."""
    ub, ui = Edges(pairs["ub"], (users + 1, bundles + 1)), Edges(pairs["ui"], (users + 1, items))
    return BundleGraph(ub, ui, Edges(pairs["bi"], (bundles + 1, items)))
