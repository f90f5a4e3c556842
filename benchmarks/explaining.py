"""Explanations: how small, how quick, how often found, and how often no smaller one exists.

For some users: why a bundle of their first 20, and what it would take for one of places 21 to 100 (additions to the
history, swaps in the bundle). The order by influence is compared with the order by leaving each thing out alone (exact,
and as many propagations as there are things) and with chance. On histories of at most --small things whose answer has at
most three, all smaller sets are tried.

    python benchmarks/explaining.py ARTIFACT [--users 40] [--small 25]
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from time import perf_counter

import numpy as np

from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.explain import Explanation, Order, Thing, by_influence, history, rank_of, what_it_takes, why
from clbr.inference.recommend import of_left
from clbr.inference.whatif import State, edited, factual
from clbr.training.runtime import use_threads


def chance(state: State, user: int, bundle: int, k: int, things: Sequence[Thing]) -> list[Thing]:
    order = np.random.default_rng(user).permutation(len(things))
    return [things[index] for index in order]


def leave_one_out(state: State, user: int, bundle: int, k: int, things: Sequence[Thing]) -> list[Thing]:
    """Things without which the bundle falls furthest come first."""
    places = [rank_of(edited(state.artifact, history(user, drop=[thing])), user, bundle) for thing in things]
    return [things[index] for index in np.argsort(-np.array(places), kind="stable")]


def is_least(opened: Artifact, answer: Explanation) -> bool:
    pairs = {"ui": opened.graph.ui.pairs, "ub": opened.chosen}
    things = [Thing(relation, int(node)) for relation in pairs for node in of_left(pairs[relation], answer.user)]  # type: ignore[arg-type]
    smaller = (list(some) for size in range(1, len(answer.things)) for some in combinations(things, size))
    return not any(
        rank_of(edited(opened, history(answer.user, drop=some)), answer.user, answer.bundle) > answer.k
        for some in smaller
    )


def row(name: str, answers: list[tuple[Explanation, float]], more: str = "") -> None:
    found = [(answer, seconds) for answer, seconds in answers if answer.edits is not None]
    sizes = [len(answer.things) + len(answer.swaps) for answer, _ in found] or [0]
    tried = np.median([answer.tried for answer, _ in answers])
    seconds = np.median([seconds for _, seconds in answers])
    print(
        f"| {name} | {len(found)} of {len(answers)} | {np.mean(sizes):.2f} | {np.median(sizes):.0f} | {max(sizes)} "
        f"| {tried:.0f} | {seconds:.2f} |{more}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--small", type=int, default=25)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    opened, rng = open_artifact(options.artifact), np.random.default_rng(0)
    users = rng.permutation(np.unique(opened.chosen[:, 0]))[: options.users].tolist()
    near = {user: factual(opened).ranking(user, 20)[int(rng.integers(20))].bundle for user in users}
    far = {user: factual(opened).ranking(user, 100)[int(rng.integers(20, 100))].bundle for user in users}

    def asked(ask: Callable[[int], Explanation]) -> list[tuple[Explanation, float]]:
        answers = []
        for user in users:
            begun = perf_counter()
            answers.append((ask(user), perf_counter() - begun))
        return answers

    print(f"{opened.about.model} on {opened.about.data}, {len(users)} users\n")
    print(
        "| question, order | found | mean size | median | largest | sets tried | median seconds |\n|---|---|---|---|---|---|---|"
    )
    orders: dict[str, Order] = {"influence": by_influence, "leave one out": leave_one_out, "chance": chance}
    for name, order in orders.items():
        answers = asked(lambda user: why(opened, user, near[user], order=order))  # noqa: B023
        row(f"why, {name}", answers)
        if order is by_influence:
            by_promise = answers
    row("what would it take, influence", asked(lambda user: what_it_takes(opened, user, far[user])))
    row("what would it take, chance", asked(lambda user: what_it_takes(opened, user, far[user], order=chance)))
    row("swaps in the bundle", asked(lambda user: what_it_takes(opened, user, far[user], of="contents")))
    lengths = np.bincount(opened.chosen[:, 0]) + np.bincount(opened.graph.ui.pairs[:, 0])[: opened.chosen[-1, 0] + 1]
    cases = [
        answer
        for answer, _ in by_promise
        if answer.edits is not None and len(answer.things) <= 3 and lengths[answer.user] <= options.small
    ]
    least = [is_least(opened, answer) for answer in cases]
    print(f"\nNo smaller set does it in {sum(least)} of {len(least)} cases (why, by influence), seen by trying all.")


if __name__ == "__main__":
    main()
