"""Explanations: size, time, how often one is found, and how often no smaller one exists.

For some users: why a bundle of their first 20 is there, and what would bring in a bundle of ranks 21 to 100 (additions
to the history, swaps in the bundle). The order of candidates by influence is compared with the order by leaving out each
one alone (exact, but one propagation per candidate) and with a random order. For histories of at most --small entries
and explanations of at most three, all smaller sets are tried.

    python benchmarks/explanations.py RECOMMENDER [--users 40] [--small 25]
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from time import perf_counter

import numpy as np

from clbr.data.pairs import neighbours
from clbr.inference.answers import Explanation
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_search import HistoryEdge
from clbr.inference.explain import Order, by_influence, explain, history_edits
from clbr.inference.whatif import State, edited_state, factual_state
from clbr.training.runtime import use_threads

Timed = list[tuple[Explanation, float]]
"""Explanations, and the seconds that each took."""


def random_order(state: State, user: int, bundle: int, k: int, candidates: Sequence[HistoryEdge]) -> list[HistoryEdge]:
    return [candidates[index] for index in np.random.default_rng(user).permutation(len(candidates))]


def leave_one_out(state: State, user: int, bundle: int, k: int, candidates: Sequence[HistoryEdge]) -> list[HistoryEdge]:
    """Order candidates by the rank of the bundle without them: the lowest position first."""
    ranks = [rank_without(state.artifact, user, bundle, [edge]) for edge in candidates]
    return [candidates[index] for index in np.argsort(-np.array(ranks), kind="stable")]


def rank_without(artifact: Artifact, user: int, bundle: int, edges: list[HistoryEdge]) -> int:
    """Return the rank of a bundle in a user's list without some edges of the history."""
    return edited_state(artifact, history_edits(user, drop=edges)).rank(user, bundle)


def read_history(artifact: Artifact, user: int) -> list[HistoryEdge]:
    """Return the user's history, as far as the model uses it."""
    used = type(artifact.model).relations
    pairs = {"ui": artifact.graph.ui.pairs, "ub": artifact.graph.ub.pairs}
    return [HistoryEdge(r, int(node)) for r in ("ui", "ub") if r in used for node in neighbours(pairs[r], user)]


def is_smallest(artifact: Artifact, answer: Explanation) -> bool:
    """Return whether no smaller set of edges takes the bundle out of the list, by trying all of them."""
    user, bundle = artifact.users.index(answer.user.id), artifact.bundles.index(answer.bundle.id)
    edges = read_history(artifact, user)
    smaller = (list(some) for size in range(1, len(answer.evidence)) for some in combinations(edges, size))
    return not any(rank_without(artifact, user, bundle, some) > answer.k for some in smaller)


def show(name: str, answers: Timed) -> None:
    """Print a row of the table."""
    sizes = [len(answer.evidence) + len(answer.swaps) for answer, _ in answers if answer.found]
    tried = np.median([answer.tried for answer, _ in answers])
    seconds = np.median([seconds for _, seconds in answers])
    known = sizes or [0]
    print(
        f"| {name} | {len(sizes)} of {len(answers)} | {np.mean(known):.2f} | {np.median(known):.0f} | {max(known)} "
        f"| {tried:.0f} | {seconds:.2f} |",
        flush=True,
    )


def ask_all(questions: dict[int, int], ask: Callable[[str, str], Explanation], artifact: Artifact) -> Timed:
    """Ask about every (user, bundle) and return the timed answers."""
    answers = []
    for user, bundle in questions.items():
        start = perf_counter()
        answer = ask(artifact.users.id(user), artifact.bundles.id(bundle))
        answers.append((answer, perf_counter() - start))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recommender", type=Path)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--small", type=int, default=25)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    artifact, rng = open_artifact(options.recommender), np.random.default_rng(0)
    state = factual_state(artifact)
    users = rng.permutation(np.unique(artifact.graph.ub.pairs[:, 0]))[: options.users].tolist()
    listed = {user: state.ranking(user, 20)[int(rng.integers(20))] for user in users}
    unlisted = {user: state.ranking(user, 100)[int(rng.integers(20, 100))] for user in users}
    print(f"{artifact.about.model} on {artifact.about.data}, {len(users)} users\n")
    print("| question, order | found | mean size | median | largest | sets tried | median seconds |")
    print("|---|---|---|---|---|---|---|")
    orders: dict[str, Order] = {"influence": by_influence, "leave one out": leave_one_out, "random": random_order}
    answers: dict[str, Timed] = {}
    for name, order in orders.items():
        answers[name] = ask_all(listed, partial(explain, artifact, order=order), artifact)
        show(f"why, {name}", answers[name])
    for name in ("influence", "random"):
        found = ask_all(unlisted, partial(explain, artifact, order=orders[name]), artifact)
        show(f"additions to the history, {name}", found)
    show("swaps in the bundle", ask_all(unlisted, partial(explain, artifact, of="contents"), artifact))
    cases = [
        answer
        for answer, _ in answers["influence"]
        if answer.found
        and len(answer.evidence) <= 3
        and len(read_history(artifact, artifact.users.index(answer.user.id))) <= options.small
    ]
    smallest = sum(is_smallest(artifact, answer) for answer in cases)
    print(f"\nNo smaller set exists in {smallest} of {len(cases)} cases (why, influence), verified by trying all.")


if __name__ == "__main__":
    main()
