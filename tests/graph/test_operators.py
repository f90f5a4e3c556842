import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbr.graph import kernels
from clbr.graph.operators import Blocks, Diagonal, Matrix, Operator, Pattern, Product


def random_matrix(rows: int, columns: int, seed: int = 0, share: float = 0.3) -> Matrix:
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((rows, columns)) < share).astype(np.int32)
    return Matrix(Pattern.of(pairs, (rows, columns)), torch.from_numpy(rng.standard_normal(len(pairs))).float())


def dense(operator: Operator) -> torch.Tensor:
    return operator @ torch.eye(operator.shape[1], dtype=torch.float64)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 9), st.integers(0, 99), st.sampled_from([0.0, 0.05, 0.5]))
def test_the_kernel_and_torch_agree_forward_and_backward(
    rows: int, columns: int, width: int, seed: int, share: float
) -> None:
    matrix = random_matrix(rows, columns, seed, share)
    x = torch.randn(columns, width, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    by_kernel = matrix @ x
    by_torch = matrix.to_torch(x.device, x.dtype).to_dense() @ x
    torch.testing.assert_close(by_kernel, by_torch, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(by_kernel)
    kernel_gradient, torch_gradient = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (by_kernel, by_torch))
    torch.testing.assert_close(kernel_gradient, torch_gradient, rtol=1e-5, atol=1e-5)


def test_without_numba_torch_computes_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = random_matrix(20, 15), torch.randn(15, 4)
    expected = matrix @ x
    monkeypatch.setattr(kernels, "available", False)
    torch.testing.assert_close(matrix @ x, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        matrix.T @ expected, matrix.to_torch(x.device, x.dtype).to_dense().T @ expected, rtol=1e-5, atol=1e-5
    )


def operators() -> dict[str, Operator]:
    a, b = random_matrix(6, 5, 1), random_matrix(5, 4, 2)
    return {
        "matrix": a,
        "transpose": a.T,
        "scaled": a.scaled(torch.arange(6.0), torch.arange(5.0) - 2),
        "diagonal": Diagonal(torch.arange(4.0)),
        "product": Product(a, b),
        "blocks": Blocks([[Diagonal(torch.ones(6)), a], [a.T, Product(b, b.T)], [None, b.T]]),
    }


@pytest.mark.parametrize("name", list(operators()))
def test_gradients_pass_gradcheck_in_double_precision(name: str) -> None:
    operator = operators()[name]
    x = torch.randn(operator.shape[1], 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: operator @ x, x)
    assert torch.autograd.gradcheck(lambda x: operator.T @ (operator @ x), x)


@pytest.mark.parametrize("name", list(operators()))
def test_the_transpose_equals_the_dense_transpose(name: str) -> None:
    operator = operators()[name]
    torch.testing.assert_close(dense(operator.T), dense(operator).T)
    assert operator.T.shape == operator.shape[::-1]


def test_composed_operators_equal_their_dense_counterparts() -> None:
    made, a, b = operators(), dense(random_matrix(6, 5, 1)), dense(random_matrix(5, 4, 2))
    torch.testing.assert_close(dense(made["product"]), a @ b)
    torch.testing.assert_close(
        dense(made["scaled"]), torch.diag(torch.arange(6.0)).double() @ a @ torch.diag(torch.arange(5.0) - 2).double()
    )
    zeros = torch.zeros(4, 6, dtype=torch.float64)
    blocks = torch.cat(
        [torch.cat([torch.eye(6).double(), a], 1), torch.cat([a.T, b @ b.T], 1), torch.cat([zeros, b.T], 1)]
    )
    torch.testing.assert_close(dense(made["blocks"]), blocks)


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    numba = pytest.importorskip("numba")
    matrix, x = random_matrix(500, 400), torch.randn(400, 16)
    before = numba.get_num_threads()
    results = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        results.append(matrix @ x)
    assert torch.equal(*results)


def test_chunks_cover_every_row_once_and_balance_the_work() -> None:
    pointers = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 50, 1000))])
    chunks = kernels.balanced_chunks(pointers, 8)
    assert chunks[0] == 0
    assert chunks[-1] == 1000
    assert (np.diff(chunks) >= 0).all()
    work = np.diff((pointers + np.arange(1001))[chunks])
    assert work.max() < 1.5 * work.mean()
