"""Interfaces of models: what a scorer, a model, an encoder and a closed-form model must implement."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph
from clbr.models import cold
from clbr.models.columns import add_up, cut, own_columns
from clbr.models.embeddings import Batch, Embeddings, OwnVectors
from clbr.models.objectives import TopK, bpr, softmax_loss

SearchSpace = dict[str, list[Any]]
"""The values that a hyperparameter search tries, by setting. A setting that is not listed is not searched."""

# Learning rates of the paper. Its learning-rate decay (a factor of 0.01 to 0.5 every 2 to 4 units, which it does not
# name) is not searched: read as epochs, the rate is near zero after ten. dim, batch_size, negatives: as in the paper.
COMMON_SPACE: SearchSpace = {
    "learning_rate": [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
    "weight_decay": [0.0, 1e-7, 1e-6, 1e-5, 1e-4],
    "init": ["normal", "xavier"],
}
"""The search space that all models trained by gradient steps share."""

DROPOUT_VALUES = [0.0, 0.1, 0.2, 0.3, 0.5]
"""Dropout rates that a search tries."""


class Scorer(ABC):
    """Scores every bundle for a user. Bundles with higher scores are recommended first."""

    @abstractmethod
    def scores(self, users: Tensor) -> Tensor:
        """Return an (n, bundles) float32 tensor for n user indices. Training pairs are scored like all others."""


class VectorScorer(Scorer):
    """Scores by the inner product of a user vector and a bundle vector."""

    def __init__(self, users: Tensor, bundles: Tensor) -> None:
        self.users, self.bundles = users, bundles

    @classmethod
    def of(cls, embeddings: Embeddings) -> Self:
        """Build the scorer from the concatenated levels of embeddings."""
        return cls(embeddings.joined("users"), embeddings.joined("bundles"))

    def scores(self, users: Tensor) -> Tensor:
        """Multiply the users' vectors with the vectors of all bundles."""
        return add_up(self.users[users.to(self.users.device)] @ self.bundles.T)


class ModelConfig(Config):
    """Settings that every model trained by gradient steps has."""

    dim: int = Field(64, ge=1, le=8192, description="length of the node embeddings")
    init: Literal["normal", "xavier"] = Field("xavier", description="initial parameters: N(0, 0.1) or Xavier uniform")


Objective = Literal["bpr", "softmax", "slk"]
"""How user-bundle pairs are learned. The functions are in objectives.py."""


class EncoderConfig(ModelConfig):
    """Settings that every encoder of this package has."""

    objective: Objective = Field(
        "bpr", description="against one negative (bpr), all bundles (softmax), or these with weight on the top K (slk)"
    )
    compared_bundles: int = Field(
        6_144, ge=1, description="softmax, slk: bundles to compare with; if there are more, a sample in each step"
    )
    top_k: int = Field(20, ge=1, description="slk: the K whose top K counts more")
    top_k_temperature: float = Field(1.0, gt=0, description="slk: how far around the K-th score a pair counts")
    calibrate_cold: bool = Field(
        False, description="fit to validation how bundles that nobody chose compare; by the data if left out"
    )


class Model(nn.Module, ABC):
    """A model with parameters. The graph is an argument of its methods, never part of its state.

    A subclass sets `config_class` and `relations` and is built as `Class(config, users, bundles, items)` with the
    numbers of nodes. Shapes of parameters must follow these numbers: an exported model has one more user and bundle.
    """

    config_class: ClassVar[type[Config]]
    """The class of its settings."""
    relations: ClassVar[tuple[Relation, ...]]
    """The relations of the graph that its scores depend on."""
    citation: ClassVar[str] = ""
    """Authors, venue and year of its paper."""
    search_space: ClassVar[SearchSpace] = COMMON_SPACE
    """The settings that a hyperparameter search tries."""
    train_defaults: ClassVar[dict[str, Any]] = {}
    """Training settings that differ from the defaults of `TrainConfig`."""
    cuts_columns: ClassVar[bool] = False
    """Whether columns of its vectors meet in inner products and row lengths only, and it has no other parameters."""

    config: Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    @property
    def learns_items(self) -> bool:
        """Whether its batches must contain user-item triples."""
        return False

    @property
    def compared(self) -> int:
        """How many bundles its objective compares a pair with; 0 if with sampled negatives.

        If it is not 0, a batch holds whole users with all their training pairs (`Triples.known`), and a sample of the
        bundles (`Triples.sample`) if there are more.
        """
        config = self.config
        return config.compared_bundles if isinstance(config, EncoderConfig) and config.objective != "bpr" else 0

    @property
    def random_nodes(self) -> int:
        """How many random users, and how many random bundles, its batches must contain besides the triples."""
        return 0

    @classmethod
    def defaults_for(cls, pairs: int) -> dict[str, Any]:
        """Return settings of model and training whose defaults depend on the number of training pairs."""
        return {}

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all parameters, in the order of `parameters()`. Vectors (biases) become 0."""
        for parameter in self.parameters():
            if parameter.dim() < 2:
                nn.init.zeros_(parameter)
            elif isinstance(self.config, ModelConfig) and self.config.init == "normal":
                nn.init.normal_(parameter, 0.0, 0.1, generator=generator)
            else:
                nn.init.xavier_uniform_(parameter, generator=generator)
            parameter.data = own_columns(parameter.data)  # drawn with all columns

    def epoch_graph(self, graph: BundleGraph, generator: torch.Generator) -> BundleGraph:
        """Return the graph to train on in one epoch. A model with edge dropout overrides this."""
        return graph

    @abstractmethod
    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Return the terms of the training loss by name. Their sum is minimised."""

    def calibrate(self, graph: BundleGraph, dataset: BundleDataset) -> None:
        """Fit numbers that no loss can teach to the validation pairs. It is called before each validation."""

    @abstractmethod
    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return the scorer of the current parameters on a graph."""


class ClosedForm(Model):
    """A model whose parameters are computed from the data set in one step, without gradients.

    Its parameters are created with `requires_grad=False`. Training calls `solve` once.
    """

    search_space: ClassVar[SearchSpace] = {}

    def initialise(self, generator: torch.Generator) -> None:
        """Set all parameters to 0. Nothing is drawn."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    @abstractmethod
    def solve(self, dataset: BundleDataset) -> None:
        """Compute the parameters from the training pairs, user-item and bundle-item pairs of a data set."""

    @classmethod
    def trials(cls, dataset: BundleDataset) -> Callable[[Any], Scorer]:
        """Return a function from settings to the solved scorer. A model whose solutions share work overrides this."""
        graph, sizes = BundleGraph.of(dataset), (len(dataset.users), len(dataset.bundles), len(dataset.items))

        def solved(config: Config) -> Scorer:
            model: ClosedForm = cls(config, *sizes)  # type: ignore[call-arg]
            model.solve(dataset)
            return model.scorer(graph)

        return solved

    @final
    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Return no terms: there is no loss to minimise."""
        return {}


class Encoder(Model):
    """A model that computes embeddings from a graph. Counterfactual views, what-if and explanations need one."""

    calibration: Tensor
    """The numbers that compare cold bundles with others (cold.py), if `calibrates`."""
    cold: Tensor
    """1 for each bundle that is cold, if `calibrates`."""
    popularity: Tensor
    """How popular the bundles of each item are, if `calibrates`."""

    def add_calibration(self, bundles: int, items: int) -> None:
        """Add the state of a model that calibrates; `build_model` calls it."""
        self.register_buffer("calibration", torch.tensor(cold.NEUTRAL))
        self.register_buffer("cold", torch.zeros(bundles))
        self.register_buffer("popularity", torch.zeros(items))

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """Return the relations that define a node at this level. A node with no edge in any of them is cold here."""
        return cls.relations or ("ub",)  # a model that reads no relation still learns from user-bundle pairs

    def own_vectors(self) -> OwnVectors | None:
        """Return the users' own vectors if they are a term of their vectors on some levels; None otherwise.

        Only for a softmax objective: what-if then lets the parameters follow the edits, and moves the own vector of a
        user whose choices are edited by a step of its own (clbr/inference/influence.py, own_vectors.py).
        """
        return None

    def vectors_of_choosers(self) -> Tensor | None:
        """Return the table of the users' own vectors if only users with bundles have one; None otherwise."""
        return None

    @abstractmethod
    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Compute the embeddings on a graph. With a generator dropout is active (training), without one it is not."""

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the task loss by name: the objective on user-bundle triples."""
        if not self.compared:
            return {"bpr": bpr(*embeddings.task_scores("ub", batch.ub))}
        assert isinstance(self.config, EncoderConfig) and batch.ub.known is not None
        distinct, rows = torch.unique(batch.ub.users, return_inverse=True)
        users, bundles = embeddings.joined("users").index_select(0, distinct), embeddings.joined("bundles")
        known = torch.stack([torch.searchsorted(distinct, batch.ub.known[:, 0].contiguous()), batch.ub.known[:, 1]], 1)
        top = TopK(self.config.top_k, self.config.top_k_temperature) if self.config.objective == "slk" else None
        loss = softmax_loss(users, bundles, rows, batch.ub.positives, known, batch.ub.sample, top)
        return {self.config.objective: loss}

    def batch_graph(self, graph: BundleGraph, batch: Batch) -> BundleGraph:
        """Return the graph to encode for one batch. A model that hides the batch's positives overrides this."""
        return graph

    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Encode the graph and return the task losses."""
        return self.task_losses(self.encode(self.batch_graph(graph, batch), generator), batch)

    @property
    def calibrates(self) -> bool:
        """Whether the scores of cold bundles are calibrated."""
        return isinstance(self.config, EncoderConfig) and self.config.calibrate_cold

    def calibrate(self, graph: BundleGraph, dataset: BundleDataset) -> None:
        """Fit how cold bundles compare with the others (cold.py), if the settings say so."""
        if not self.calibrates or not len(dataset.validation):
            return
        self.mark_cold(graph)
        users, start = cold.calibration_users(dataset.validation, graph.bundles), tuple(self.calibration.tolist())
        with torch.no_grad():
            levels = self.encode(graph).levels.values()
            if len(levels) > cold.MAX_LEVELS:
                message = f"cold bundles are calibrated for at most {cold.MAX_LEVELS} levels, not {len(levels)}"
                raise InputError(f"{message}; set calibrate_cold to false", "calibrate_cold", "set")

            def score(users: Tensor) -> Tensor:
                """Return the scores of each level, (levels, n, bundles)."""
                at = users.to(self.cold.device)
                return add_up(torch.stack([level.users[at] @ level.bundles.T for level in levels]))

            numbers = cold.fit_calibration(score, users, graph, dataset.validation, start)
            self.calibration.copy_(add_up(numbers) / cut.size)  # processors of another kind may differ in the last bits

    def mark_cold(self, graph: BundleGraph) -> None:
        """Keep which bundles of this graph are cold, and how popular the bundles of its items are."""
        self.cold.copy_(cold.cold_bundles(graph))
        self.popularity.copy_(cold.item_popularity(graph))

    def calibrated(self, embeddings: Embeddings, graph: BundleGraph) -> Embeddings:
        """Return the embeddings on a graph with the scores of cold bundles calibrated, if the settings say so."""
        if not self.calibrates:
            return embeddings
        return cold.calibrate_cold(embeddings, graph, self.calibration, self.cold, self.popularity)

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer by inner products of the embeddings on this graph."""
        with torch.no_grad():
            return VectorScorer.of(self.calibrated(self.encode(graph), graph))
