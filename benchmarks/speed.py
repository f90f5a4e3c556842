"""Speed of the package compared with reference.py, which is written like published code: parts, then full epochs.

Both are measured in one process, on the same batches, alternating; values are medians. DATA is a data folder, by default
Youshu; if Youshu is not available, a simulated world of its size is used.

    python benchmarks/speed.py [DATA] [--models crosscbr,bgcn] [--quick] [--only-objectives]
"""

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import median
from time import perf_counter

import numba
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import reference
from clbr.data.dataset import BundleDataset
from clbr.data.folder import load
from clbr.evaluation.protocol import evaluate
from clbr.graph.graph import BundleGraph
from clbr.models.base import Model
from clbr.models.crosscbr import CrossCBRConfig
from clbr.models.embeddings import Batch, Triples
from clbr.models.layers import grow, unit_rows
from clbr.models.objectives import level_contrast, softmax_loss
from clbr.models.registry import MODELS, make_model
from clbr.rng import generator, torch_generator
from clbr.simulation.generate import simulate
from clbr.training.batches import Positives
from clbr.training.config import RunConfig, TrainConfig, compose
from clbr.training.loop import make_optimizer, train
from clbr.training.runtime import use_threads
from reference import REFERENCES, Reference

SEED = 0
TIMED_BATCHES = 4
Implementations = dict[str, Callable[[], object]]
"""Functions that compute the same thing, by name: "engine" is the package, "reference" is reference.py."""


def find_data(path: str | None) -> BundleDataset:
    """Load a data folder: the given one, or Youshu; a simulated world if Youshu is not available."""
    data_sets = Path(os.environ.get("CLBR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    folder = Path(path) if path else data_sets / "Youshu"
    return load(folder) if path or folder.exists() else simulate("youshu").dataset


def median_seconds(implementations: Implementations, repeats: int, calls: int = 5) -> dict[str, float]:
    """Return the median seconds of each implementation, alternating, after one round to warm up.

    A round makes a few calls in succession: the caches then hold the data of the previous call, as in training.
    """
    seconds: dict[str, list[float]] = {name: [] for name in implementations}
    for round_ in range(repeats + 1):
        for name, call in implementations.items():
            start = perf_counter()
            for _ in range(calls):
                call()
            if round_:
                seconds[name].append((perf_counter() - start) / calls)
    return {name: median(times) for name, times in seconds.items()}


def forward_and_backward(inputs: list[Tensor], function: Callable[..., Tensor]) -> Callable[[], object]:
    """Return a call of the forward and the backward pass, with a random gradient of the output."""
    with torch.no_grad():
        gradient = torch.randn(function(*inputs).shape)
    return lambda: torch.autograd.grad(function(*inputs), inputs, gradient)


def vectors(*rows: int, width: int = 64) -> list[Tensor]:
    draw = torch_generator(SEED, "vectors")
    return [torch.randn(count, width, generator=draw).requires_grad_() for count in rows]


def propagation(dataset: BundleDataset, graph: BundleGraph) -> Implementations:
    users, items = (x.detach() for x in vectors(graph.users, graph.items))
    stacked = torch.cat([users, items])
    matrix = reference.normalised(reference.stacked(reference.incidence(dataset.ui, graph.users, graph.items)))
    coo, csr = reference.coo(matrix), reference.csr32(matrix)
    expected = torch.cat([graph.ui.symmetric @ items, graph.ui.back_symmetric @ users])
    for other in (coo, csr):
        torch.testing.assert_close(other @ stacked, expected, rtol=1e-4, atol=1e-5)
    return {
        "engine": lambda: (graph.ui.symmetric @ items, graph.ui.back_symmetric @ users),
        "reference": lambda: torch.sparse.mm(coo, stacked),
        "torch CSR, 32-bit indices": lambda: torch.sparse.mm(csr, stacked),
    }


def negatives(dataset: BundleDataset, graph: BundleGraph) -> Implementations:
    positives, positive_sets = Positives(dataset.train, graph.ub.shape), reference.positive_sets(dataset)
    users, rng = positives.pairs[:, 0], generator(SEED, "negatives")
    return {
        "engine": lambda: positives.negatives.draw(users, 1, rng),
        "reference": lambda: reference.draw_negatives(users.tolist(), positive_sets, graph.bundles),
    }


def contrastive(graph: BundleGraph, batch: Triples) -> Implementations:
    """InfoNCE of the users and bundles of one batch between the levels, with gradients of the embedding tables."""
    tables = vectors(graph.users, graph.users, graph.bundles, graph.bundles)
    temperature = CrossCBRConfig().temperature

    def ours(*tables: Tensor) -> Tensor:
        one = level_contrast(tables[:2], batch.users, temperature)
        return one + level_contrast(tables[2:], batch.positives, temperature)

    def other(*tables: Tensor) -> Tensor:
        one = reference.info_nce(*tables[:2], batch.users, temperature)
        return one + reference.info_nce(*tables[2:], batch.positives, temperature)

    torch.testing.assert_close(ours(*tables), other(*tables), rtol=1e-4, atol=0)
    return {"engine": forward_and_backward(tables, ours), "reference": forward_and_backward(tables, other)}


def softmax(dataset: BundleDataset, graph: BundleGraph) -> Implementations:
    """Softmax over all bundles for a batch of whole users, vectors of three levels of 64. The dense mask is given."""
    positives = Positives(dataset.train, graph.ub.shape)
    batch = next(positives.epoch(TrainConfig().batch_size, 1, generator(SEED, "softmax"), compared=graph.bundles))
    assert batch.known is not None
    distinct, rows = torch.unique(batch.users, return_inverse=True)
    known = torch.stack([torch.searchsorted(distinct, batch.known[:, 0].contiguous()), batch.known[:, 1]], dim=1)
    train_mask = torch.from_numpy(reference.incidence(dataset.train, *graph.ub.shape).toarray())
    tables = vectors(graph.users, graph.bundles, width=192)
    theirs = partial(reference.softmax, train_mask=train_mask, triples=batch)

    def ours(users: Tensor, bundles: Tensor) -> Tensor:
        return softmax_loss(users.index_select(0, distinct), bundles, rows, batch.positives, known)

    torch.testing.assert_close(ours(*tables), theirs(*tables), rtol=1e-4, atol=0)
    return {"engine": forward_and_backward(tables, ours), "reference": forward_and_backward(tables, theirs)}


def growing(graph: BundleGraph) -> Implementations:
    """BGCN's layer after the matrix products: activation, concatenation with its input, dropout, unit rows."""
    rows, noise = graph.users + graph.items, torch_generator(SEED, "noise")
    inputs = vectors(rows, rows)
    inputs.insert(1, torch.zeros(64, requires_grad=True))

    def theirs(message: Tensor, bias: Tensor, hidden: Tensor) -> Tensor:
        grown = F.dropout(torch.cat([F.leaky_relu(message + bias), hidden], 1), 0.3)
        return torch.cat([grown, F.normalize(grown, dim=1)])

    def ours(message: Tensor, bias: Tensor, hidden: Tensor) -> Tensor:
        return torch.cat(grow(message, bias, hidden, 0.3, noise))

    return {"engine": forward_and_backward(inputs, ours), "reference": forward_and_backward(inputs, theirs)}


def normalising(graph: BundleGraph) -> Implementations:
    inputs = vectors(graph.users + graph.items, width=128)
    torch.testing.assert_close(unit_rows(inputs[0]), F.normalize(inputs[0], dim=1))
    return {
        "engine": forward_and_backward(inputs, unit_rows),
        "reference": forward_and_backward(inputs, lambda x: F.normalize(x, dim=1)),
    }


def stepping(dataset: BundleDataset) -> Implementations:
    """A step of Adam on BGCN's parameters."""
    steps: Implementations = {}
    for name, make in (("engine", lambda model: make_optimizer(model, TrainConfig())), ("reference", plain_adam)):
        model = make_model("bgcn", {}, dataset, torch_generator(SEED, "model"))
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        steps[name] = make(model).step
    return steps


def plain_adam(model: nn.Module, config: TrainConfig | None = None) -> torch.optim.Optimizer:
    config = config or TrainConfig()
    return torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)


def evaluating(dataset: BundleDataset, graph: BundleGraph) -> Implementations:
    """Evaluation on validation with CrossCBR's vectors. The vectors and the reference's dense masks are given."""
    model = make_model("crosscbr", {}, dataset, torch_generator(SEED, "model"))
    scorer = model.scorer(graph)
    with torch.no_grad():
        levels = [(level.users, level.bundles) for level in model.encode(graph).levels.values()]
    sizes = len(dataset.users), len(dataset.bundles)
    train_mask, relevant = (
        torch.from_numpy(reference.incidence(x, *sizes).toarray()) for x in (dataset.train, dataset.validation)
    )
    users = torch.from_numpy(np.unique(dataset.validation[:, 0]).astype(np.int64))
    theirs = partial(reference.evaluation, levels, train_mask, relevant, users)
    ours = partial(evaluate, scorer, dataset, split="validation")
    for metric, value in theirs().items():
        assert abs(value - ours()[metric]) < 1e-3, (metric, value, ours()[metric])
    return {"engine": ours, "reference": theirs}


def batches(dataset: BundleDataset, graph: BundleGraph, config: TrainConfig, epoch: int) -> list[Triples]:
    """Return the batches that the training loop draws for this epoch."""
    positives = Positives(dataset.train, graph.ub.shape)
    return list(positives.epoch(config.batch_size, config.negatives, generator(SEED, "epoch", str(epoch))))


def show_parts(dataset: BundleDataset, repeats: int) -> None:
    graph = BundleGraph.of(dataset)
    batch = batches(dataset, graph, TrainConfig(), epoch=1)[0]
    parts: dict[str, Callable[[], Implementations]] = {
        f"propagation over UI, {2 * len(dataset.ui):,} entries": lambda: propagation(dataset, graph),
        f"negatives of an epoch, {len(dataset.train):,}": lambda: negatives(dataset, graph),
        f"InfoNCE of a batch of {len(batch.users):,}, forward and backward": lambda: contrastive(graph, batch),
        "softmax over all bundles, a batch, forward and backward": lambda: softmax(dataset, graph),
        "BGCN layer, users and items, forward and backward": lambda: growing(graph),
        "row normalisation, forward and backward": lambda: normalising(graph),
        "step of Adam, BGCN": lambda: stepping(dataset),
        "evaluation on validation": lambda: evaluating(dataset, graph),
    }
    print(f"{'part':57}{'engine ms':>12}{'reference ms':>14}{'ratio':>8}")
    for name, make in parts.items():
        seconds = median_seconds(make(), repeats)
        ours = seconds.pop("engine")
        for other, theirs in seconds.items():
            label = name if other == "reference" else f"  compared with {other}"
            print(f"{label:57}{ours * 1e3:12.2f}{theirs * 1e3:14.2f}{theirs / ours:8.1f}", flush=True)


def same_loss(name: str, run: RunConfig, dataset: BundleDataset, graph: BundleGraph) -> str:
    """Check that loss and gradients of a batch without dropout are equal, at equal random parameters."""
    settings = {key: 0.0 if key.endswith("dropout") else value for key, value in run.settings.items()}
    model = make_model(name, settings, dataset, torch_generator(SEED, "model"))
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.0, 0.2, generator=torch_generator(SEED, "equal", str(parameter.shape)))
    other = REFERENCES[name](model, dataset)
    other.start_epoch()
    triples, noise = batches(dataset, graph, run.train, epoch=1)[0], torch_generator(SEED, "noise")
    ours = torch.stack(list(model.losses(model.epoch_graph(graph, noise), Batch(triples), noise).values())).sum()
    theirs = other.loss(triples)
    ours.backward()
    theirs.backward()
    if abs(ours.item() - theirs.item()) > 1e-4 * max(1.0, abs(ours.item())):
        raise SystemExit(f"{name}: the engine's loss is {ours.item()}, the reference's {theirs.item()}")
    for (key, one), two in zip(model.named_parameters(), other.weights.parameters(), strict=True):
        if one.grad is not None and (one.grad - two.grad).norm() > 1e-3 * one.grad.norm():
            raise SystemExit(f"{name}: the gradients of {key} differ")
    return f"same loss ({ours.item():.4f})"


def reference_epoch(
    model: Reference, optimizer: torch.optim.Optimizer, epoch: list[Triples], positives: list[set[int]], timed: int
) -> float:
    """Return the seconds of an epoch: its matrices, and the first `timed` batches scaled to all.

    Negatives are drawn, but those of the engine are used, so that the batches are the same.
    """
    start = perf_counter()
    model.start_epoch()
    first = perf_counter()
    for triples in islice(epoch, timed):
        reference.draw_negatives(triples.users.tolist(), positives, model.sizes[1])
        loss = model.loss(triples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    return first - start + (perf_counter() - first) * len(epoch) / min(timed, len(epoch))


def compare_epochs(name: str, dataset: BundleDataset, rounds: int, timed: int) -> tuple[float, float, str]:
    never = {"epochs": 10**6, "evaluate_every": 10**6}
    run = compose(dataset.name, name, preset="youshu", changes=never, seed=SEED)
    graph, positives = BundleGraph.of(dataset), reference.positive_sets(dataset)
    verdict = same_loss(name, run, dataset, graph)
    model: Model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
    other = REFERENCES[name](model, dataset)
    optimizer = plain_adam(other.weights, run.train)
    engine = train(model, make_optimizer(model, run.train), dataset, run.train, SEED)
    ours, theirs = [], []
    for round_ in range(rounds + 1):
        epoch = next(engine)
        triples = batches(dataset, graph, run.train, epoch.number)
        seconds = reference_epoch(other, optimizer, triples, positives, timed if round_ else 1)
        if round_:  # the first round is to warm up
            ours.append(epoch.seconds)
            theirs.append(seconds)
    return median(ours), median(theirs), verdict


def epochs_in_turn(dataset: BundleDataset, rounds: int) -> dict[tuple[str, str], float]:
    """Return the median seconds of an epoch of each encoder with BPR and with the softmax, evaluation included."""
    names = [name for name, kind in MODELS.items() if "objective" in kind.config_class.model_fields]
    engines, seconds = {}, dict[tuple[str, str], list[float]]()
    for name, objective in product(names, ("bpr", "softmax")):
        changes = {"epochs": rounds + 1, "objective": objective, "evaluate_every": 1}
        run = compose(dataset.name, name, preset="youshu", changes=changes, seed=SEED)
        model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
        engines[name, objective] = train(model, make_optimizer(model, run.train), dataset, run.train, SEED)
    for round_ in range(rounds + 1):
        for row, engine in engines.items():
            epoch = next(engine)
            if round_:  # the first round is to warm up
                seconds.setdefault(row, []).append(epoch.seconds)
    return {row: median(values) for row, values in seconds.items()}


def show_objectives(dataset: BundleDataset, rounds: int) -> None:
    print("\nAn epoch with its evaluation on validation, presets for Youshu, in turn.")
    print(f"{'model':12}{'bpr s':>12}{'softmax s':>12}{'to crosscbr, bpr':>24}")
    seconds = epochs_in_turn(dataset, rounds)
    for name in dict.fromkeys(name for name, _ in seconds):
        both = [seconds[name, objective] for objective in ("bpr", "softmax")]
        ratios = ", ".join(f"{value / seconds['crosscbr', 'bpr']:.1f}" for value in both)
        print(f"{name:12}{both[0]:12.2f}{both[1]:12.2f}{ratios:>24}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", help="a data folder")
    parser.add_argument("--models", default=",".join(REFERENCES), help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="few repeats, as a check")
    parser.add_argument("--only-objectives", action="store_true", help="only epochs of all models with both objectives")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    use_threads(None)
    dataset = find_data(options.data)
    timed, rounds = (1, 1) if options.quick else (TIMED_BATCHES, 5)
    steps = -(-len(dataset.train) // TrainConfig().batch_size)
    print(f"{dataset.name}, threads: torch {torch.get_num_threads()}, numba {numba.get_num_threads()}\n")
    if options.only_objectives:
        show_objectives(dataset, rounds)
        return
    show_parts(dataset, repeats=3 if options.quick else 21)
    print(f"\nAn epoch of {steps} batches; {timed} of the reference are timed and scaled to {steps}.")
    print(f"{'model':12}{'engine s':>12}{'reference s':>14}{'ratio':>8}   without dropout")
    for name in options.models.split(","):
        ours, theirs, verdict = compare_epochs(name, dataset, rounds, timed)
        print(f"{name:12}{ours:12.3f}{theirs:14.3f}{theirs / ours:8.1f}   {verdict}", flush=True)
    show_objectives(dataset, rounds)


if __name__ == "__main__":
    main()
