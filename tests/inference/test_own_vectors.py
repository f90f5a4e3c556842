"""Own vectors after edits of choices: the derivatives by autograd, the step by hand, and who is moved."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from clbr import EdgeEdits
from clbr.data.pairs import neighbours
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.cold_start import encode_filled
from clbr.inference.explain import explain
from clbr.inference.influence import InfluenceStep
from clbr.inference.own_vectors import RIDGE, ChoiceLoss, Response, moved_users
from clbr.inference.whatif import edited_state, factual_state
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings
from clbr.models.registry import build_model
from clbr.models.trilevel import TriLevel, TriLevelConfig

USER = 3


@pytest.fixture(scope="module")
def trilevel(artifact_of: Callable[[str], Path]) -> Artifact:
    return open_artifact(artifact_of("trilevel"))


def new_choice(artifact: Artifact) -> int:
    """A bundle that the user has not chosen, far from the top of the list."""
    return factual_state(artifact).ranking(USER, 60)[-1]


def test_the_derivatives_are_those_of_the_softmax_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    bundles = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    rest = torch.randn(9, generator=generator, dtype=torch.float64)  # of the scores: what other levels add
    own, chosen = torch.randn(4, generator=generator, dtype=torch.float64), torch.tensor([1, 5, 6])

    def loss(x: Tensor) -> Tensor:
        scores = bundles @ x + rest
        others = [b for b in range(9) if b not in chosen.tolist()]
        return sum(torch.log1p(torch.exp(scores[others] - scores[c]).sum()) for c in chosen)  # type: ignore[return-value]

    found = ChoiceLoss(bundles, bundles @ own + rest, chosen)
    torch.testing.assert_close(found.gradient(), torch.autograd.functional.jacobian(loss, own))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found.hessian(), torch.autograd.functional.hessian(loss, own))  # type: ignore[no-untyped-call]


def others_followed(artifact: Artifact, edits: EdgeEdits) -> Embeddings:
    """The vectors on the edited graph, when all parameters have followed but the own vectors of edited users."""
    assert isinstance(artifact.model, Encoder)
    after = edits.apply(artifact.graph)
    return encode_filled(InfluenceStep(artifact.model, artifact.graph).follow(edits, after)[0], after)


def losses(*choices: list[int]) -> list[ChoiceLoss]:
    """Two bundles with the vectors 1 and -1 and equal scores, with these choices."""
    bundles, scores = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    return [ChoiceLoss(bundles, scores, torch.tensor(chosen, dtype=torch.int64)) for chosen in choices]


def test_another_choice_moves_the_own_vector_by_hand_computed_numbers() -> None:
    """The probability of a choice is 1/2: the gradients are (-1 - 1) / 2 = -1 and 1, the Hessian 4 / 4 = 1.

    The own vector 0.05 is stationary under a ridge of 1 / 0.05 = 20, which is above RIDGE; 1 under RIDGE.
    """
    first, second = losses([0], [1])
    assert Response.of(torch.tensor([0.05]), first).step(second).item() == pytest.approx(-2 / (1 + 20))
    assert Response.of(torch.tensor([1.0]), first).step(second).item() == pytest.approx(-2 / (1 + RIDGE))


def test_an_own_vector_of_zeros_moves_too() -> None:
    first, second = losses([0], [1])
    assert Response.of(torch.zeros(1), first).step(second).isfinite().all()


@pytest.mark.parametrize("chosen", [[], [0, 1]])
def test_without_choices_or_without_negatives_there_is_nothing_to_fit(chosen: list[int]) -> None:
    (loss,) = losses(chosen)
    assert not loss.gradient().any() and not loss.hessian().any()


def test_the_own_vector_of_a_user_who_drops_all_choices_moves_unless_only_choosers_have_one() -> None:
    one = np.array([[0, 0]], np.int32)
    before = BundleGraph(*(Edges(one, (2, 2)) for _ in range(3)))
    edits = EdgeEdits(drop={"ub": one})
    for which, moved in (("all", [0]), ("choosers", []), ("none", [])):
        model = TriLevel(TriLevelConfig(user_vectors=which), 2, 2, 2)  # type: ignore[arg-type]
        assert moved_users(model, edits, before, edits.apply(before)) == moved


def test_dropping_all_choices_does_not_reverse_the_own_vector(trilevel: Artifact) -> None:
    assert isinstance(trilevel.model, Encoder)
    own = trilevel.model.own_vectors()
    assert own is not None
    users = np.flatnonzero(trilevel.graph.ub.left_degrees.numpy() > 0)[:40].tolist()
    for user in users:
        chosen = neighbours(trilevel.graph.ub.pairs, user)
        edits = EdgeEdits(drop={"ub": np.array([(user, bundle) for bundle in chosen])})
        state = edited_state(trilevel, edits)
        with torch.no_grad():
            fixed = trilevel.model.encode(state.graph).levels["item"].users[user]
        moved = own.table[user] + state.embeddings.levels["item"].users[user] - fixed
        # Exactly orthogonal at worst, if the user's part of the loss were all that changed.
        assert moved @ own.table[user] > -0.1 * own.table[user] @ own.table[user]


def test_a_user_without_any_pairs_after_the_edits_gets_the_mean_of_users_with_bundles(trilevel: Artifact) -> None:
    pairs = {
        relation: np.array([(USER, node) for node in neighbours(trilevel.graph.edges(relation).pairs, USER)])
        for relation in ("ub", "ui")
    }
    state = edited_state(trilevel, EdgeEdits(drop=pairs))  # type: ignore[arg-type]
    choosers = state.graph.ub.left_degrees > 0
    for level in state.embeddings.levels.values():
        torch.testing.assert_close(level.users[USER], level.users[choosers].mean(0))


def test_all_users_with_edited_choices_are_moved_each_by_the_step_of_its_own_loss(trilevel: Artifact) -> None:
    assert isinstance(trilevel.model, Encoder)
    own = trilevel.model.own_vectors()
    assert own is not None
    users = [int(user) for user in np.flatnonzero(trilevel.graph.ub.left_degrees.numpy() > 1)[:2]]
    drop = np.array([(user, neighbours(trilevel.graph.ub.pairs, user)[0]) for user in users])
    edits = EdgeEdits(drop={"ub": drop})
    state, fixed = edited_state(trilevel, edits), others_followed(trilevel, edits)
    for user in users:
        before, after = (
            ChoiceLoss.of(
                own.levels, {n: (one.users[user], one.bundles) for n, one in found.levels.items()}, graph, user
            )
            for graph, found in ((trilevel.graph, trilevel.embeddings), (state.graph, fixed))
        )
        step = Response.of(own.table[user], before).step(after)
        assert step.norm() > 1e-3
        for name in own.levels:
            moved = state.embeddings.levels[name].users[user] - fixed.levels[name].users[user]
            torch.testing.assert_close(moved, step, atol=1e-6, rtol=1e-4)


def test_an_explanation_of_a_model_with_own_vectors_is_verified_by_the_same_what_if(trilevel: Artifact) -> None:
    state = factual_state(trilevel)
    for user in np.flatnonzero(trilevel.graph.ub.left_degrees.numpy() > 2)[:5].tolist():
        bundle = state.ranking(user, 5)[-1]
        answer = explain(trilevel, trilevel.users.id(user), trilevel.bundles.id(bundle), k=5)
        if not answer.found:
            continue
        kinds = (("ui", "item", trilevel.items), ("ub", "bundle", trilevel.bundles))
        drop = {
            relation: np.array([(user, ids.index(one.id)) for one in answer.evidence if one.kind == kind], np.int32)
            for relation, kind, ids in kinds
        }
        assert edited_state(trilevel, EdgeEdits(drop=drop)).rank(user, bundle) == answer.rank_after  # type: ignore[arg-type]
        return
    pytest.fail("no explanation was found for any of the users")


@pytest.mark.parametrize("settings", [{"objective": "bpr"}, {"objective": "slk"}, {"fusion": "early"}])
def test_trilevel_with_another_objective_or_fusion_moves_nothing(settings: dict[str, str]) -> None:
    model = build_model("trilevel", settings, 3, 3, 3)
    assert isinstance(model, Encoder) and model.own_vectors() is None


def test_only_the_users_with_edited_choices_are_moved_and_only_on_levels_with_a_vector_of_their_own(
    trilevel: Artifact,
) -> None:
    edits = EdgeEdits(add={"ub": np.array([[USER, new_choice(trilevel)]])})
    state, fixed = edited_state(trilevel, edits), others_followed(trilevel, edits)
    for name, level in state.embeddings.levels.items():
        moved = (level.users - fixed.levels[name].users).abs().sum(1) > 1e-6
        assert moved.nonzero()[:, 0].tolist() == ([USER] if name in ("item", "bundle") else [])


def test_the_unseen_user_is_not_moved(trilevel: Artifact) -> None:
    assert isinstance(trilevel.model, Encoder)
    edits = EdgeEdits(add={"ub": np.array([[trilevel.unseen_user, 5]])})
    state = edited_state(trilevel, edits)
    with torch.no_grad():
        fixed = trilevel.model.encode(state.graph)
    for name, level in state.embeddings.levels.items():
        assert torch.equal(level.users[-1], fixed.levels[name].users[-1])


def test_edits_of_items_move_nobody(trilevel: Artifact) -> None:
    item = int(neighbours(trilevel.graph.ui.pairs, USER)[0])
    edits = EdgeEdits(drop={"ui": np.array([[USER, item]])})
    assert moved_users(trilevel.model, edits, trilevel.graph, edits.apply(trilevel.graph)) == []  # type: ignore[arg-type]


def test_a_user_moves_towards_an_added_bundle_and_away_from_a_dropped_one(trilevel: Artifact) -> None:
    """Against fixed parameters, an added bundle scores higher, and a dropped one lower."""
    assert isinstance(trilevel.model, Encoder)
    bundle, own = new_choice(trilevel), int(neighbours(trilevel.graph.ub.pairs, USER)[0])
    added = edited_state(trilevel, EdgeEdits(add={"ub": np.array([[USER, bundle]])}))
    dropped = edited_state(trilevel, EdgeEdits(drop={"ub": np.array([[USER, own]])}))
    with torch.no_grad():
        fixed_added, fixed_dropped = (trilevel.model.encode(state.graph) for state in (added, dropped))

    def score(levels: object, bundle: int) -> float:
        return float(sum(level.users[USER] @ level.bundles[bundle] for level in levels.values()))  # type: ignore[attr-defined]

    assert score(added.embeddings.levels, bundle) > score(fixed_added.levels, bundle)
    assert score(dropped.embeddings.levels, own) < score(fixed_dropped.levels, own)
    assert "parameters follow the edits" in trilevel.caveat


def test_the_caveat_of_a_model_that_moves_nothing_says_that_all_parameters_stay(
    artifact_of: Callable[[str], Path],
) -> None:
    assert "stay fixed: this" in open_artifact(artifact_of("crosscbr")).caveat
