"""How similar a simulated world is to the data set that it was fitted to: degrees and co-occurrence.

"Together" is the number of other users that two bundles of one user share (and the same for the other relations),
divided by that number for two bundles drawn by popularity. "Content" is the share of the items of a user's bundle that
the user has, divided by that share for a bundle drawn by popularity. 1 means that popularity explains everything.

    python benchmarks/world_fit.py DATA [youshu|netease]
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from clbr.data.dataset import BundleDataset
from clbr.data.describe import relation_sides
from clbr.data.folder import load
from clbr.simulation.generate import simulate

LEVELS = (0.5, 0.75, 0.9, 0.99, 1.0)
SAMPLE = 20_000


def matrix(pairs: np.ndarray, rows: int, columns: int) -> csr_array:
    return csr_array((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape=(rows, columns))


def shared(one: csr_array, other: csr_array) -> np.ndarray:
    """Return the number of columns that each row of one has in common with the same row of the other."""
    return np.asarray(one.multiply(other).sum(axis=1)).ravel()


def together(relation: csr_array, rng: np.random.Generator) -> float:
    degrees = np.diff(relation.indptr)
    rows = rng.choice(np.flatnonzero(degrees >= 2), SAMPLE)
    one, other = (
        relation.indices[relation.indptr[rows] + (rng.random(SAMPLE) * degrees[rows]).astype(int)] for _ in range(2)
    )
    differ = one != other
    by_right = relation.T.tocsr()
    found = shared(by_right[one[differ]], by_right[other[differ]]).mean() - 1
    by_popularity = shared(by_right[one[differ]], by_right[rng.permutation(other[differ])]).mean()
    return float(found / by_popularity)


def content(user_bundle: np.ndarray, user_item: csr_array, bundle_item: csr_array, rng: np.random.Generator) -> float:
    users, bundles = rng.permutation(user_bundle)[:SAMPLE].T
    sizes = np.maximum(np.diff(bundle_item.indptr), 1)

    def share(of: np.ndarray) -> float:
        return float((shared(user_item[users], bundle_item[of]) / sizes[of]).mean())

    return share(bundles) / share(rng.permutation(bundles))


def measure(dataset: BundleDataset) -> dict[str, str]:
    """Return the statistics of a data set as rows of text."""
    rows: dict[str, str] = {}
    sides = relation_sides(dataset)
    matrices = {name: matrix(*relation) for name, relation in sides.items()}
    for name, (pairs, *sizes) in sides.items():
        rows[f"{name} pairs"] = f"{len(pairs):,}"
        for side, nodes in enumerate(name.split("_")):
            degrees = np.bincount(pairs[:, side], minlength=sizes[side])
            quantiles = np.quantile(degrees[degrees > 0], LEVELS).astype(int)
            rows[f"  {name} per {nodes}: none; 50, 75, 90, 99, 100 %"] = (
                f"{(degrees == 0).mean():.1%}; {', '.join(map(str, quantiles))}"
            )
        rows[f"  {name} together"] = f"{together(matrices[name], np.random.default_rng(0)):.2f}"
    share = content(sides["user_bundle"][0], matrices["user_item"], matrices["bundle_item"], np.random.default_rng(0))
    rows["content"] = f"{share:.2f}"
    return rows


def main(path: str, like: str = "youshu") -> None:
    real, simulated = load(path), simulate(like).dataset
    columns = [(dataset.name, measure(dataset)) for dataset in (real, simulated)]
    show: Callable[..., None] = lambda *cells: print(f"{cells[0]:54}{cells[1]:>34}{cells[2]:>34}")  # noqa: E731
    show("", *(name for name, _ in columns))
    for row in columns[0][1]:
        show(row, *(rows[row] for _, rows in columns))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("no data folder given: python benchmarks/world_fit.py DATA [youshu|netease]")
    main(*sys.argv[1:])
