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
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.influence import CURVATURE, Competition, Follower, followed_nodes
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
    return Follower(model_of(artifact), artifact.graph).follow(edits, edits.apply(artifact.graph))


def test_after_edits_of_a_users_items_all_parameters_follow_the_gradient_of_the_users_loss(trilevel: Artifact) -> None:
    items = neighbours(trilevel.graph.ui.pairs, USER)[:2]
    edits = EdgeEdits(drop={"ui": np.array([[USER, item] for item in items])})
    expected = by_hand(trilevel, lambda model, graph: user_loss(model, graph, USER), edits)
    found = follow(trilevel, edits)
    for one, other, before in zip(found.parameters(), expected, model_of(trilevel).parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
        assert not torch.equal(one, before)


def test_after_a_swap_the_parameters_follow_the_scores_of_that_bundle_alone(trilevel: Artifact) -> None:
    """The whole loss of all users, with the scores of all other bundles as they were."""
    graph = trilevel.graph
    with torch.no_grad():
        embeddings = model_of(trilevel).encode(graph)
        before = embeddings.joined("users") @ embeddings.joined("bundles")[:-1].T
    users = np.flatnonzero(graph.ub.left_degrees[:-1].numpy() > 0).tolist()

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
        # What the choices of other bundles lack is kept as it was before the edits.
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_a_user_with_edited_items_is_not_counted_again_in_a_swap(trilevel: Artifact) -> None:
    item = int(neighbours(trilevel.graph.ui.pairs, USER)[0])
    competition = Competition.of(model_of(trilevel), trilevel.graph)
    assert USER in competition.users.tolist()
    assert USER not in competition.without(np.array([USER])).users.tolist()
    contents = swap(trilevel)
    both = EdgeEdits(add=contents.add, drop={**contents.drop, "ui": np.array([[USER, item]])})
    users, bundles = followed_nodes(both, trilevel.graph)
    assert (users.tolist(), bundles.tolist()) == ([USER], [BUNDLE])


def test_the_competition_is_that_of_the_whole_list(trilevel: Artifact) -> None:
    model, graph = model_of(trilevel), trilevel.graph
    found = Competition.of(model, graph)
    at = found.users.tolist().index(USER)
    embeddings, chosen = model.encode(graph), neighbours(graph.ub.pairs, USER).tolist()
    scores = (embeddings.joined("bundles")[:-1] @ embeddings.joined("users")[USER]).detach()
    total = sum(float(score.exp()) for bundle, score in enumerate(scores) if bundle not in chosen)
    assert float(found.negatives[at].exp()) == pytest.approx(total, rel=1e-4)
    lacks = sum(total / (total + float(scores[bundle].exp())) for bundle in chosen)
    assert float(found.missing[at]) == pytest.approx(lacks, rel=1e-4)


def test_the_trained_model_itself_is_left_as_it_is(trilevel: Artifact) -> None:
    before = [parameter.clone() for parameter in model_of(trilevel).parameters()]
    edited_state(trilevel, swap(trilevel))
    assert all(torch.equal(one, other) for one, other in zip(before, model_of(trilevel).parameters(), strict=True))
    assert not any(parameter.requires_grad for parameter in follow(trilevel, swap(trilevel)).parameters())


def test_a_second_answer_for_the_same_nodes_is_that_of_a_new_follower(trilevel: Artifact) -> None:
    follower = Follower(model_of(trilevel), trilevel.graph)
    follower.follow(swap(trilevel, 8), swap(trilevel, 8).apply(trilevel.graph))
    for bundle in (BUNDLE, BUNDLE, 8):
        edits = swap(trilevel, bundle)
        again = follower.follow(edits, edits.apply(trilevel.graph))
        for one, other in zip(again.parameters(), follow(trilevel, edits).parameters(), strict=True):
            assert torch.equal(one, other)


def test_nothing_follows_unseen_nodes_and_users_without_choices(trilevel: Artifact) -> None:
    graph = trilevel.graph
    unseen = EdgeEdits(add={"ui": np.array([[trilevel.unseen_user, 5]]), "bi": np.array([[trilevel.unseen_bundle, 5]])})
    assert follow(trilevel, unseen) is trilevel.model
    chose = graph.ub.left_degrees[:-1].numpy() > 0
    if not chose.all():
        idle = int(np.flatnonzero(~chose)[0])
        new = next(item for item in range(trilevel.about.items) if item not in neighbours(graph.ui.pairs, idle))
        assert follow(trilevel, EdgeEdits(add={"ui": np.array([[idle, new]])})) is trilevel.model


def test_parameters_of_a_model_that_names_no_own_vectors_stay(artifact_of: Callable[[str], Path]) -> None:
    crosscbr = open_artifact(artifact_of("crosscbr"))
    assert follow(crosscbr, swap(crosscbr)) is crosscbr.model
