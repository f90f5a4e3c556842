"""Random generators: one seed, any number of independent generators, each with a name.

The seed and the name determine the numbers, not the order of calls: a new generator does not change the numbers of
the others. The package uses no global generator.
"""

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def _sequence(seed: int, names: tuple[str, ...]) -> np.random.SeedSequence:
    digest = sha256("\0".join(names).encode()).digest()
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(digest, dtype="<u4").tolist()))


def generator(seed: int, *names: str) -> np.random.Generator:
    """The numpy generator of this seed and these names."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, names)))


def torch_generator(seed: int, *names: str, device: str = "cpu") -> "torch.Generator":
    """The torch generator of this seed and these names."""
    import torch

    word = _sequence(seed, names).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(word >> np.uint64(1)))


def pair_gumbel(seed: int, name: str, left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.float64]:
    """Standard Gumbel noise, a fixed value for each pair (left and right broadcast).

    It is a hash of the pair (splitmix64), not a stream: the value of a pair does not depend on the other pairs.
    """
    bits = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + _sequence(seed, (name,)).generate_state(
        1, np.uint64
    )
    bits = _mix(bits) + right.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03)
    uniform = (_mix(bits) >> np.uint64(11)).astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-53
    return -np.log(-np.log(uniform))


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
