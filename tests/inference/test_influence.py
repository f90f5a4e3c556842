"""Parameters that follow edits: the gradient against autograd on the whole loss, the step, and who takes part."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from clbr import EdgeEdits
from clbr.data.pairs import neighbours
from clbr.graph.graph import BundleGraph
from clbr.inference import influence
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.influence import CURVATURE, Competition, InfluenceStep, terms_of
from clbr.inference.whatif import edited_state
from clbr.models.base import Encoder

USER, BUNDLE = 3, 7


@pytest.fixture(scope="module")
def trilevel(artifact_of: Callable[[str], Path]) -> Artifact:
    return open_artifact(artifact_of("trilevel"))


def model_of(artifact: Artifact) -> Encoder:
    assert isinstance(artifact.model, Encoder)
    return artifact.model


def swap(artifact: Artifact, bundle: int = BUNDLE) -> EdgeEdits:
    """One item of a bundle replaced by another."""
    inside = neighbours(artifact.graph.bi.pairs, bundle)
    new = next(item for item in range(artifact.about.items) if item not in inside)
    return EdgeEdits(add={"bi": np.array([[bundle, new]])}, drop={"bi": np.array([[bundle, inside[0]]])})


def user_loss(model: Encoder, graph: BundleGraph, user: int) -> Tensor:
    """The softmax loss of a user, choice by choice."""
    embeddings, chosen = model.encode(graph), neighbours(graph.ub.pairs, user).tolist()
    scores = embeddings.joined("bundles")[:-1] @ embeddings.joined("users")[user]
    negatives = torch.tensor([bundle for bundle in range(len(scores)) if bundle not in chosen])
    losses = [torch.logsumexp(torch.cat([scores[negatives], scores[[one]]]), 0) - scores[one] for one in chosen]
    return torch.stack(losses).sum()


def by_hand(artifact: Artifact, loss: Callable[[Encoder, BundleGraph], Tensor], edits: EdgeEdits) -> list[Tensor]:
    """The parameters after one step against the change of a loss's gradient."""
    model = model_of(open_artifact(artifact.folder)).requires_grad_(True)
    found = [
        torch.autograd.grad(loss(model, graph), [*model.parameters()])
        for graph in (artifact.graph, edits.apply(artifact.graph))
    ]
    steps = [(after - before) / CURVATURE for before, after in zip(*found, strict=True)]
    return [parameter.detach() - step for parameter, step in zip(model.parameters(), steps, strict=True)]


def follow(artifact: Artifact, edits: EdgeEdits) -> Encoder:
    return InfluenceStep(model_of(artifact), artifact.graph).follow(edits, edits.apply(artifact.graph))[0]


def test_after_edits_of_a_users_items_all_parameters_follow_the_gradient_of_the_users_loss(trilevel: Artifact) -> None:
    items = neighbours(trilevel.graph.ui.pairs, USER)[:2]
    edits = EdgeEdits(drop={"ui": np.array([[USER, item] for item in items])})
    expected = by_hand(trilevel, lambda model, graph: user_loss(model, graph, USER), edits)
    found = follow(trilevel, edits)
    for one, other, before in zip(found.parameters(), expected, model_of(trilevel).parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
        assert not torch.equal(one, before)


def choosers(artifact: Artifact) -> list[int]:
    found: list[int] = np.flatnonzero(artifact.graph.ub.left_degrees[:-1].numpy() > 0).tolist()
    return found


def scores_before(artifact: Artifact) -> Tensor:
    with torch.no_grad():
        embeddings = model_of(artifact).encode(artifact.graph)
        return embeddings.joined("users") @ embeddings.joined("bundles")[:-1].T


def bundle_loss(artifact: Artifact, users: list[int]) -> Callable[[Encoder, BundleGraph], Tensor]:
    """The terms of one bundle, user by user, as the module states them: what it competes with is as it was before."""
    before = scores_before(artifact)

    def loss(model: Encoder, graph: BundleGraph) -> Tensor:
        embeddings, total = model.encode(graph), torch.zeros(())
        for user in users:
            chosen = neighbours(artifact.graph.ub.pairs, user).tolist()
            negatives = [one for one in range(len(before[user])) if one not in chosen]
            rest = torch.logsumexp(before[user][[one for one in negatives if one != BUNDLE]], 0)
            score = embeddings.joined("bundles")[BUNDLE] @ embeddings.joined("users")[user]
            if BUNDLE in chosen:
                total = total + torch.nn.functional.softplus(rest - score)
            else:
                everything = torch.logsumexp(before[user][negatives], 0)
                missing = sum(torch.sigmoid(everything - before[user][one]) for one in chosen)
                total = total + missing * torch.nn.functional.softplus(score - rest)
        return total

    return loss


def assert_parameters_are(found: Encoder, expected: list[Tensor]) -> None:
    for one, other in zip(found.parameters(), expected, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-4)


def new_contents(artifact: Artifact) -> EdgeEdits:
    """All items of a bundle replaced by others."""
    inside = neighbours(artifact.graph.bi.pairs, BUNDLE)
    new = np.setdiff1d(np.arange(artifact.about.items), inside)[: len(inside)]
    pairs = ([(BUNDLE, int(item)) for item in items] for items in (new, inside))
    add, drop = (np.array(found) for found in pairs)
    return EdgeEdits(add={"bi": add}, drop={"bi": drop})


def test_after_new_contents_the_parameters_follow_the_scores_of_that_bundle_alone(trilevel: Artifact) -> None:
    edits, loss = new_contents(trilevel), bundle_loss(trilevel, choosers(trilevel))
    assert_parameters_are(follow(trilevel, edits), by_hand(trilevel, loss, edits))


def test_a_step_that_would_go_past_the_least_loss_is_shorter(
    trilevel: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of the change of the gradient, along it: a part. The whole step would reverse it."""
    monkeypatch.setattr(influence, "CURVATURE", 0.02)
    edits, loss = swap(trilevel), bundle_loss(trilevel, choosers(trilevel))
    trained, after = open_artifact(trilevel.folder), edits.apply(trilevel.graph)

    def gradient(model: Encoder, graph: BundleGraph) -> Tensor:
        model.requires_grad_(True)
        found = torch.autograd.grad(loss(model, graph), [*model.parameters()], materialize_grads=True)
        return torch.cat([one.flatten() for one in found])

    def left(model: Encoder) -> float:
        return float((gradient(model, after) - before) @ change / (change @ change))

    before = gradient(model_of(trained), trilevel.graph)
    change = gradient(model_of(trained), after) - before
    assert 0 <= left(follow(trilevel, edits)) < 0.5
    torch.nn.utils.vector_to_parameters(
        torch.nn.utils.parameters_to_vector(model_of(trained).parameters()) - change / 0.02,
        model_of(trained).parameters(),
    )
    assert left(model_of(trained)) < -1


def test_the_vectors_are_those_of_the_model_that_follows(trilevel: Artifact) -> None:
    edits = swap(trilevel)
    after = edits.apply(trilevel.graph)
    model, found = InfluenceStep(model_of(trilevel), trilevel.graph).follow(edits, after)
    expected = model.encode(after)
    for side in ("users", "bundles"):
        assert torch.equal(found.joined(side), expected.joined(side))  # type: ignore[arg-type]


def test_the_gradient_of_a_bundle_is_near_that_of_the_whole_loss(trilevel: Artifact) -> None:
    """With the scores of all other bundles as they were. What the choices of others miss is not, so only near."""
    before, users = scores_before(trilevel), choosers(trilevel)

    def loss(model: Encoder, graph: BundleGraph) -> Tensor:
        embeddings, total = model.encode(graph), torch.zeros(())
        for user in users:
            scores = before[user].clone()
            scores[BUNDLE] = embeddings.joined("bundles")[BUNDLE] @ embeddings.joined("users")[user]
            chosen = neighbours(graph.ub.pairs, user).tolist()
            outside = torch.ones(len(scores), dtype=torch.bool)
            outside[chosen] = False
            for one in chosen:
                inside = torch.cat([scores[outside], scores[[one]]])
                total = total + torch.logsumexp(inside, 0) - scores[one]
        return total

    edits = swap(trilevel)
    for one, other in zip(follow(trilevel, edits).parameters(), by_hand(trilevel, loss, edits), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_edits_of_choices_count_on_the_edited_graph_and_the_own_vector_stays(trilevel: Artifact) -> None:
    """One bundle dropped, another added; the user's own vector makes a step of its own (own_vectors.py)."""
    chosen = neighbours(trilevel.graph.ub.pairs, USER)
    new = next(bundle for bundle in range(trilevel.about.bundles) if bundle not in chosen)
    edits = EdgeEdits(add={"ub": np.array([[USER, new]])}, drop={"ub": np.array([[USER, chosen[0]]])})
    expected = by_hand(trilevel, lambda model, graph: user_loss(model, graph, USER), edits)
    names = [name for name, _ in model_of(trilevel).named_parameters()]
    at, own = names.index("users"), model_of(trilevel).users[USER]  # type: ignore[index]
    assert not torch.allclose(expected[at][USER], own, atol=1e-4)
    expected[at][USER] = own
    assert_parameters_are(follow(trilevel, edits), expected)


def test_a_user_with_an_edited_history_is_not_counted_again_for_a_bundle_with_edited_contents(
    trilevel: Artifact,
) -> None:
    items, contents = neighbours(trilevel.graph.ui.pairs, USER)[:2], new_contents(trilevel)
    edits = EdgeEdits(contents.add, {**contents.drop, "ui": np.array([[USER, item] for item in items])})
    of_bundle = bundle_loss(trilevel, [user for user in choosers(trilevel) if user != USER])

    def loss(model: Encoder, graph: BundleGraph) -> Tensor:
        return user_loss(model, graph, USER) + of_bundle(model, graph)

    assert_parameters_are(follow(trilevel, edits), by_hand(trilevel, loss, edits))


def test_small_blocks_give_the_same_step(trilevel: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    users, contents = choosers(trilevel)[:7], new_contents(trilevel)
    drop = np.array([[user, neighbours(trilevel.graph.ui.pairs, user)[0]] for user in users])
    edits = EdgeEdits({"bi": np.concatenate([contents.add["bi"], swap(trilevel, 8).add["bi"]])}, {"ui": drop})
    whole = follow(trilevel, edits)
    monkeypatch.setattr(influence, "BLOCK", 3)
    monkeypatch.setattr(influence, "SCORES", 1)
    assert_parameters_are(follow(trilevel, edits), [*whole.parameters()])


def test_all_users_edited_together_with_a_bundle(trilevel: Artifact) -> None:
    """Then no other user is left whose scores of the bundle count."""
    items, every = range(trilevel.about.items), trilevel.graph.ui.pairs
    new = [(user, next(item for item in items if item not in neighbours(every, user))) for user in choosers(trilevel)]
    histories, contents = EdgeEdits(add={"ui": np.array(new)}), swap(trilevel)
    both = EdgeEdits({**contents.add, **histories.add}, contents.drop)
    assert terms_of(both, trilevel.graph).users.tolist() == choosers(trilevel)
    with_swap, without = (follow(trilevel, edits).parameters() for edits in (both, histories))
    for one, other in zip(with_swap, without, strict=True):
        assert one.isfinite().all() and not torch.equal(one, other)


def test_a_user_who_has_chosen_every_bundle_takes_part_without_negatives(trilevel: Artifact) -> None:
    chosen = neighbours(trilevel.graph.ub.pairs, USER)
    others = np.setdiff1d(np.arange(trilevel.about.bundles), chosen)
    graph = EdgeEdits(add={"ub": np.array([[USER, bundle] for bundle in others])}).apply(trilevel.graph)
    step, edits = InfluenceStep(model_of(trilevel), graph), swap(trilevel)
    assert float(step.competition.missed[step.competition.users.tolist().index(USER)]) == 0
    assert all(one.isfinite().all() for one in step.follow(edits, edits.apply(graph))[0].parameters())


def test_a_negative_that_outweighs_all_others_leaves_a_finite_rest() -> None:
    """Of two negatives with scores 40 and 0 the first is all of the sum in float32; by hand 0 is left without it."""
    scores = torch.tensor([[40.0, 0.0]])
    one = Competition(torch.tensor([0]), torch.logsumexp(scores, 1), torch.ones(1))
    rest = one.rest(scores, torch.tensor([[False, False]]))
    assert rest[0, 0].isfinite() and rest[0, 0] < 40 - 10
    assert rest[0, 1].item() == pytest.approx(40)


def test_the_competition_is_that_of_the_whole_list(trilevel: Artifact) -> None:
    model, graph = model_of(trilevel), trilevel.graph
    found = InfluenceStep(model, graph).competition
    at = found.users.tolist().index(USER)
    embeddings, chosen = model.encode(graph), neighbours(graph.ub.pairs, USER).tolist()
    scores = (embeddings.joined("bundles")[:-1] @ embeddings.joined("users")[USER]).detach()
    total = sum(float(score.exp()) for bundle, score in enumerate(scores) if bundle not in chosen)
    assert float(found.negatives[at].exp()) == pytest.approx(total, rel=1e-4)
    missing = sum(total / (total + float(scores[bundle].exp())) for bundle in chosen)
    assert float(found.missed[at]) == pytest.approx(missing, rel=1e-4)


def test_the_trained_model_itself_is_left_as_it_is(trilevel: Artifact) -> None:
    before = [parameter.clone() for parameter in model_of(trilevel).parameters()]
    edited_state(trilevel, swap(trilevel))
    assert all(torch.equal(one, other) for one, other in zip(before, model_of(trilevel).parameters(), strict=True))
    assert not any(parameter.requires_grad for parameter in follow(trilevel, swap(trilevel)).parameters())


def test_a_second_answer_for_the_same_nodes_is_that_of_a_new_step(trilevel: Artifact) -> None:
    step = InfluenceStep(model_of(trilevel), trilevel.graph)
    step.follow(swap(trilevel, 8), swap(trilevel, 8).apply(trilevel.graph))
    for bundle in (BUNDLE, BUNDLE, 8):
        edits = swap(trilevel, bundle)
        again, _ = step.follow(edits, edits.apply(trilevel.graph))
        for one, other in zip(again.parameters(), follow(trilevel, edits).parameters(), strict=True):
            assert torch.equal(one, other)


def test_what_was_computed_before_the_edits_is_kept_for_the_same_nodes(
    trilevel: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, graphs, compute = InfluenceStep(model_of(trilevel), trilevel.graph), [], InfluenceStep._gradients

    def count(self: InfluenceStep, model: Encoder, graph: BundleGraph, terms: influence.Terms) -> object:
        graphs.append(graph is trilevel.graph)
        return compute(self, model, graph, terms)

    monkeypatch.setattr(InfluenceStep, "_gradients", count)
    for edits in (swap(trilevel), new_contents(trilevel), swap(trilevel, 8)):
        step.follow(edits, edits.apply(trilevel.graph))
    assert graphs == [True, False, False, True, False]  # the second question is about the same bundle


def test_nothing_follows_unseen_nodes_and_users_without_choices(trilevel: Artifact) -> None:
    graph = trilevel.graph
    unseen = EdgeEdits(add={"ui": np.array([[trilevel.unseen_user, 5]]), "bi": np.array([[trilevel.unseen_bundle, 5]])})
    assert follow(trilevel, unseen) is trilevel.model
    idle = next(user for user in range(trilevel.about.users) if user not in choosers(trilevel))
    new = next(item for item in range(trilevel.about.items) if item not in neighbours(graph.ui.pairs, idle))
    assert follow(trilevel, EdgeEdits(add={"ui": np.array([[idle, new]])})) is trilevel.model


def test_parameters_of_a_model_that_names_no_own_vectors_stay(artifact_of: Callable[[str], Path]) -> None:
    crosscbr = open_artifact(artifact_of("crosscbr"))
    assert follow(crosscbr, swap(crosscbr)) is crosscbr.model
