"""Time until a model has a given recall@20 on validation: published code's way, and this package.

The reference is CrossCBR as published (reference.py: COO matrices, BPR, negatives drawn one at a time, dense masks), with
the settings of the package's preset. It is trained whole, nothing is scaled. The same CrossCBR on the package's engine
and TriLevel follow in the same process, one after another. Every model is evaluated on validation after each epoch, and
the time of that counts. Compiling the kernels does not count: one epoch is trained before.

    python benchmarks/time_to_accuracy.py [DATA] [--recall 0.275] [--models crosscbr,trilevel]
"""

import argparse
from collections.abc import Iterator
from time import perf_counter

import numpy as np
import torch

import reference
from clbr.data.dataset import BundleDataset
from clbr.models.embeddings import Triples
from clbr.models.registry import make_model
from clbr.rng import generator, torch_generator
from clbr.training.batches import Positives
from clbr.training.config import compose
from clbr.training.loop import make_optimizer, train
from clbr.training.runtime import use_threads
from speed import find_data, plain_adam

MAX_EPOCHS = 200


def package_recalls(name: str, dataset: BundleDataset, seed: int) -> Iterator[float]:
    """Yield recall@20 on validation after each epoch of a model of the package, with its preset for Youshu."""
    run = compose(dataset.name, name, preset="youshu", changes={"epochs": MAX_EPOCHS}, seed=seed)
    model = make_model(name, run.settings, dataset, torch_generator(seed, "model"))
    for epoch in train(model, make_optimizer(model, run.train), dataset, run.train, seed):
        yield epoch.validation["recall@20"]


def reference_recalls(dataset: BundleDataset, seed: int) -> Iterator[float]:
    """Yield recall@20 on validation after each epoch of CrossCBR in the reference implementation."""
    run = compose(dataset.name, "crosscbr", preset="youshu", seed=seed)
    model = reference.CrossCBR(make_model("crosscbr", run.settings, dataset, torch_generator(seed, "model")), dataset)
    optimizer, sizes = plain_adam(model.weights, run.train), (len(dataset.users), len(dataset.bundles))
    positives, chosen = Positives(dataset.train, sizes), reference.positive_sets(dataset)
    train_mask, relevant = (
        torch.from_numpy(reference.incidence(pairs, *sizes).toarray()) for pairs in (dataset.train, dataset.validation)
    )
    users = torch.from_numpy(np.unique(dataset.validation[:, 0]).astype(np.int64))
    without_dropout = dict.fromkeys(("item_dropout", "bundle_dropout", "contents_dropout"), 0.0)
    for epoch in range(1, MAX_EPOCHS + 1):
        model.start_epoch()
        order = generator(seed, "epoch", str(epoch)).permutation(len(positives.pairs))
        for start in range(0, len(order), run.train.batch_size):
            pairs = torch.from_numpy(positives.pairs[order[start : start + run.train.batch_size]])
            drawn = reference.draw_negatives(pairs[:, 0].tolist(), chosen, sizes[1])
            loss = model.loss(Triples(pairs[:, 0], pairs[:, 1], torch.tensor(drawn)[:, None]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
        trained, model.config = model.config, model.config.model_copy(update=without_dropout)
        model.start_epoch()
        with torch.no_grad():
            recalls = reference.evaluation(model.vectors(), train_mask, relevant, users)
        model.config = trained
        yield recalls["recall@20"]


def measure(recalls: Iterator[float], wanted: float) -> tuple[int, float, float]:
    """Return the epochs and the seconds until the wanted recall is reached, and the recall then."""
    start = perf_counter()
    for epoch, recall in enumerate(recalls, start=1):
        if recall >= wanted:
            return epoch, perf_counter() - start, recall
    raise SystemExit(f"recall@20 of {wanted} was not reached in {MAX_EPOCHS} epochs; last: {recall:.4f}")


def warm_up(names: list[str], dataset: BundleDataset) -> None:
    """Compile the kernels: train one epoch of each model."""
    for name in names:
        next(package_recalls(name, dataset, seed=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", help="a data folder")
    parser.add_argument("--recall", type=float, default=0.275, help="recall@20 on validation to reach")
    parser.add_argument("--models", default="crosscbr,trilevel", help="models of the package, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    use_threads(None)
    dataset, names = find_data(options.data), options.models.split(",")
    print(f"{dataset.name}, {torch.get_num_threads()} threads: until recall@20 on validation is {options.recall}\n")
    print(f"{'':24}{'epochs':>8}{'seconds':>10}{'recall@20':>11}{'ratio':>8}", flush=True)
    warm_up(names, dataset)
    epochs, first, recall = measure(reference_recalls(dataset, options.seed), options.recall)
    print(f"{'CrossCBR, reference':24}{epochs:8}{first:10.1f}{recall:11.4f}{1:8.1f}", flush=True)
    for name in names:
        epochs, seconds, recall = measure(package_recalls(name, dataset, options.seed), options.recall)
        print(f"{name + ', this package':24}{epochs:8}{seconds:10.1f}{recall:11.4f}{first / seconds:8.1f}", flush=True)


if __name__ == "__main__":
    main()
