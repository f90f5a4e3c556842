import math
from itertools import combinations

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from clbr.models import objectives
from clbr.models.objectives import TopK, bpr, info_nce, level_contrast, mixed_parts, softmax_loss


def test_bpr_worked_out_by_hand() -> None:
    positive, negative = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    expected = -torch.tensor([1.0, 0.0, 0.0, -2.0]).sigmoid().log().mean()
    assert bpr(positive, negative).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("temperature", [1.0, 0.25, 0.01])
def test_info_nce_equals_cross_entropy_with_repeated_rows(temperature: float) -> None:
    draw = torch.Generator().manual_seed(0)
    one, other = (torch.randn(7, 5, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(2))
    counts = torch.tensor([1, 3, 1, 2, 1, 1, 4])
    repeated = torch.repeat_interleave(torch.arange(7), counts)
    ours = info_nce(normalize(one), normalize(other), counts.double(), temperature)
    logits = normalize(one)[repeated] @ normalize(other)[repeated].T / temperature
    plain = cross_entropy(logits, torch.arange(len(repeated)))
    # In the plain version every copy of a row has its own target; the value is the same for each copy.
    torch.testing.assert_close(ours, plain)
    for mine, theirs in zip(
        torch.autograd.grad(ours, (one, other)), torch.autograd.grad(plain, (one, other)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.03, 0.01, 1e-4])
def test_info_nce_is_finite_where_all_cosines_are_negative(temperature: float) -> None:
    one = normalize(torch.randn(5, 3, generator=torch.Generator().manual_seed(0))).abs().requires_grad_()
    other = -one.detach()
    ours = info_nce(one, other, torch.ones(5), temperature)
    plain = cross_entropy(one @ other.T / temperature, torch.arange(5))
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(torch.autograd.grad(ours, one), torch.autograd.grad(plain, one), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("early", [False, True])
def test_the_gradient_of_info_nce_is_right(early: bool) -> None:
    one, other = (normalize(torch.randn(6, 4, dtype=torch.float64)).requires_grad_() for _ in range(2))
    counts = torch.tensor([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: 3 * info_nce(a, b, counts, 0.5, early), (one, other))


def examples() -> dict[str, torch.Tensor]:
    """Five users and six bundles; user 3 has no example, and user 1 has chosen all bundles but one."""
    draw = torch.Generator().manual_seed(0)
    users, bundles = (torch.randn(n, 3, generator=draw, dtype=torch.float64).requires_grad_() for n in (5, 6))
    known = [(0, 1), (0, 2), *((1, bundle) for bundle in range(5)), (2, 5), (3, 0), (4, 3)]
    rows, positives = torch.tensor([1, 0, 4, 1, 2, 0]), torch.tensor([4, 1, 3, 0, 5, 2])
    return {"users": users, "bundles": bundles, "rows": rows, "positives": positives, "known": torch.tensor(known)}


def plain_softmax(users: torch.Tensor, bundles: torch.Tensor, rows: torch.Tensor, positives: torch.Tensor,
                  known: torch.Tensor) -> torch.Tensor:  # fmt: skip
    """The same, written out: cross entropy of each choice against itself and what its user has not chosen."""
    scores, chosen = users @ bundles.T, {tuple(pair) for pair in known.tolist()}
    losses = []
    for row, positive in zip(rows.tolist(), positives.tolist(), strict=True):
        others = [bundle for bundle in range(len(bundles)) if (row, bundle) not in chosen]
        losses.append(-torch.log_softmax(scores[row, [positive, *others]], 0)[0])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("block", [1, 6, 13, 1 << 20])
def test_softmax_is_cross_entropy_without_the_users_other_choices(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "SOFTMAX_BLOCK", block)
    given = examples()
    ours, plain = softmax_loss(**given), plain_softmax(**given)
    torch.testing.assert_close(ours, plain)
    inputs = (given["users"], given["bundles"])
    for mine, theirs in zip(torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * plain, inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_softmax_is_finite_for_large_scores() -> None:
    given = examples()
    given["users"] = (1e4 * given["users"].detach()).requires_grad_()
    loss = softmax_loss(**given)
    assert loss.isfinite() and torch.autograd.grad(loss, given["users"])[0].isfinite().all()


@pytest.mark.parametrize("block", [1, 8, 1 << 20])
def test_a_sampled_softmax_inflates_the_sum_over_the_sampled_negatives(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objectives, "SOFTMAX_BLOCK", block)
    given = examples()
    sample = torch.tensor([[0, 2, 3, 5]])
    ours = softmax_loss(**given, sample=sample)
    # By row: the sampled negatives, and how many negatives there are for each of them.
    negatives = {0: ([0, 3, 5], 4 / 3), 1: ([5], 1 / 1), 2: ([0, 2, 3], 5 / 3), 4: ([0, 2, 5], 5 / 3)}
    scores, terms = given["users"] @ given["bundles"].T, []
    for row, positive in zip(given["rows"].tolist(), given["positives"].tolist(), strict=True):
        columns, each = negatives[row]
        terms.append(torch.log1p(each * scores[row, columns].exp().sum() / scores[row, positive].exp()))
    plain = torch.stack(terms).mean()
    torch.testing.assert_close(ours, plain)
    inputs = (given["users"], given["bundles"])
    for mine, theirs in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_parts_of_the_users_have_samples_of_their_own() -> None:
    given = examples()
    samples = torch.tensor([[0, 2, 3, 5], [0, 1, 4, 5]])  # for rows 0 to 2, and for rows 3 and 4
    inputs = (given["users"], given["bundles"])
    both = softmax_loss(**given, sample=samples)
    parts = [
        softmax_loss(
            **given | {name: given[name][mask] for name in ("rows", "positives")}, sample=samples[part : part + 1]
        )
        for part, mask in enumerate((given["rows"] < 3, given["rows"] >= 3))
    ]
    shares = [(given["rows"] < 3).double().mean(), (given["rows"] >= 3).double().mean()]
    apart = sum(share * part for share, part in zip(shares, parts, strict=True))
    torch.testing.assert_close(both, apart)
    for one, other in zip(torch.autograd.grad(both, inputs), torch.autograd.grad(apart, inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_a_sample_of_all_bundles_gives_the_exact_softmax() -> None:
    given = examples()
    torch.testing.assert_close(softmax_loss(**given, sample=torch.arange(6)[None]), softmax_loss(**given))


def test_a_user_who_has_chosen_the_whole_sample_adds_nothing() -> None:
    given = examples()
    one = given["rows"] == 1
    given["rows"], given["positives"] = given["rows"][one], given["positives"][one]
    loss = softmax_loss(**given, sample=torch.tensor([[0, 1, 4]]))
    assert loss == 0
    assert all(not gradient.any() for gradient in torch.autograd.grad(loss, (given["users"], given["bundles"])))


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_slk_weighs_a_pair_by_its_distance_from_the_kth_score(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "SOFTMAX_BLOCK", block)
    given = examples()
    ours = softmax_loss(**given, top=TopK(2, 0.5))
    scores, chosen, terms = given["users"] @ given["bundles"].T, set(map(tuple, given["known"].tolist())), []
    for row, positive in zip(given["rows"].tolist(), given["positives"].tolist(), strict=True):
        others = [bundle for bundle in range(6) if (row, bundle) not in chosen]
        second = sorted(scores[row].tolist())[-2]
        weight = 1 / (1 + math.exp((second - scores[row, positive].item()) / 0.5))
        terms.append(-weight * torch.log_softmax(scores[row, [positive, *others]], 0)[0])
    plain = torch.stack(terms).mean()
    torch.testing.assert_close(ours, plain)
    inputs = (given["users"], given["bundles"])
    for mine, theirs in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_k_shrinks_with_the_sample_and_is_at_most_the_number_of_bundles() -> None:
    given = examples()
    sample = torch.tensor([[0, 2, 3]])
    assert softmax_loss(**given, sample=sample, top=TopK(2, 1.0)) == softmax_loss(
        **given, sample=sample, top=TopK(1, 1.0)
    )
    assert softmax_loss(**given, top=TopK(6, 1.0)) == softmax_loss(**given, top=TopK(100, 1.0))


def test_the_contrast_of_levels_is_the_mean_over_each_two_and_counts_repeated_nodes() -> None:
    levels = [torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    nodes = torch.tensor([4, 0, 4, 2])
    rows = [normalize(level[nodes]) for level in levels]
    plain = [cross_entropy(one @ other.T / 0.3, torch.arange(4)) for one, other in combinations(rows, 2)]
    # Node 4 occurs twice: its second row is no negative of the first but an equal one, as in the published code.
    torch.testing.assert_close(level_contrast(levels, nodes, 0.3), torch.stack(plain).mean())
    torch.testing.assert_close(
        level_contrast(levels[:1], nodes, 0.3), cross_entropy(rows[0] @ rows[0].T / 0.3, torch.arange(4))
    )


def test_a_large_batch_is_contrasted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [torch.randn(9, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    nodes = torch.tensor([4, 0, 4, 2, 8, 7, 0])
    whole = level_contrast(levels, nodes, 0.3)
    parts = [level_contrast(levels, part, 0.3) * len(part) / 7 for part in nodes.split(3)]
    monkeypatch.setattr(objectives, "CONTRASTED", 3)
    ours, plain = level_contrast(levels, nodes, 0.3), sum(parts)
    torch.testing.assert_close(ours, plain)
    assert ours < whole  # a node has fewer to be told apart from
    for one, other in zip(torch.autograd.grad(ours, levels), torch.autograd.grad(plain, levels), strict=True):
        torch.testing.assert_close(one, other)


def test_each_part_of_a_contrast_over_sorted_nodes_has_nodes_of_the_whole_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objectives, "CONTRASTED", 3)
    assert mixed_parts(torch.arange(7)).tolist() == [0, 3, 6, 1, 4, 2, 5]
    assert mixed_parts(torch.arange(3)).tolist() == [0, 1, 2]
