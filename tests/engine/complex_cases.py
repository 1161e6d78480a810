"""Calls of complex numbers that run with torch and with pyapp: expressions of `P` (torch or pyapp) and of the tensors
below, in complex128 and float64, or in complex64 and float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_random = np.random.RandomState(0)


def _complex(*shape: int) -> Any:
    return _random.standard_normal(shape) + 1j * _random.standard_normal(shape)


# z, w, v, m, n, b, s and h (Hermitian, positive-definite) are complex, a and p (above 0) are real.
ARRAYS: dict[str, Any] = {
    "z": _complex(2, 3), "w": _complex(2, 3), "a": _random.standard_normal((2, 3)), "v": _complex(3),
    "m": _complex(3, 3), "n": _complex(3, 3), "b": _complex(2, 3, 3), "s": _complex(),
    "p": np.abs(_random.standard_normal((2, 3))) + 0.5,
}  # fmt: skip
ARRAYS["h"] = ARRAYS["m"] @ ARRAYS["m"].conj().T + np.eye(3)

CASES = [line.strip() for line in """
    z + w
    z - a
    a * z
    a + 1j
    1j - a
    a / z
    z / w
    z * 2
    2 / z
    z / 2
    z ** 2
    z ** 3
    z ** w
    z ** 0.5
    a ** (1 + 1j)
    2 ** z
    z ** (-1)
    -z
    z.abs()
    z.angle()
    a.angle()
    z.sgn()
    z.conj()
    z.conj_physical()
    z.real
    z.imag
    P.view_as_real(z)
    P.view_as_complex(P.view_as_real(z) * 2)
    P.complex(a, p)
    P.polar(p, a)
    z.exp()
    z.log()
    z.log2()
    z.log10()
    z.log1p()
    z.expm1()
    z.exp2()
    z.sqrt()
    z.rsqrt()
    z.reciprocal()
    z.square()
    z.sin()
    z.cos()
    z.tan()
    z.asin()
    z.acos()
    z.atan()
    z.sinh()
    z.cosh()
    z.tanh()
    z.asinh()
    z.acosh()
    z.atanh()
    P.sinc(z)
    z.sigmoid()
    z.sum()
    z.sum(1)
    z.sum(0, keepdim=True)
    z.mean()
    z.mean(1)
    z.prod()
    z.prod(1)
    z.cumsum(1)
    z.cumprod(1)
    z.var()
    z.std(1)
    P.var_mean(z, 1)
    z.norm()
    z.norm(1)
    z.norm(3, 1)
    z.norm(float("inf"))
    P.linalg.vector_norm(z, 2, 1)
    P.linalg.norm(m)
    P.linalg.matrix_norm(m, "nuc")
    P.linalg.matrix_norm(m, 2)
    P.linalg.matrix_norm(m, 1)
    m @ n
    b @ m
    b @ v
    v @ v
    m @ v
    v @ m
    P.bmm(b, b)
    P.nn.functional.linear(z, m)
    P.nn.functional.linear(z, m, v)
    P.einsum("ij,kj->ik", z, w)
    P.einsum("bij,jk->bik", b, m)
    P.dot(v, v)
    P.vdot(v, m[0])
    P.outer(v, v)
    P.inner(v, v)
    P.addmm(m, m, n, beta=2, alpha=3)
    P.linalg.vecdot(z, w)
    P.kron(m, n)
    P.tensordot(m, n)
    z.reshape(3, 2)
    z.mT
    z.mH
    m.H
    m.adjoint()
    z[0]
    z[:, 1]
    z[P.tensor([0, 1, 0])]
    z[:, P.tensor([2, 0])]
    z[a > 0]
    z.flip(0)
    z.roll(1, 1)
    P.cat([z, w])
    P.cat([z, a.to(z.dtype)])
    P.cat([z, a], 1)
    P.stack([z, w], 1)
    P.where(a > 0, z, w)
    P.where(a > 0, z, 0)
    z.masked_fill(a > 0, 1 + 2j)
    z.masked_fill(a > 0, 2.0)
    z.gather(1, P.tensor([[0, 2], [1, 1]]))
    z.index_select(1, P.tensor([0, 0, 2]))
    z.index_add(1, P.tensor([0, 0, 2]), w)
    z.index_copy(1, P.tensor([2, 1, 0]), w)
    z.index_fill(1, P.tensor([0]), 1j)
    z.index_put((P.tensor([0, 1]), P.tensor([1, 2])), v[:2])
    z.masked_select(a > 0)
    z.take(P.tensor([0, 4]))
    z.expand(4, 2, 3)
    z.repeat(2, 1)
    z.repeat_interleave(2, 1)
    z.clone()
    z.tril()
    z.triu(1)
    m.diagonal()
    P.diag(v)
    P.diag_embed(z)
    m.trace()
    P.nn.functional.pad(z, (1, 2))
    P.nn.functional.pad(z, (1, 1), mode="reflect")
    z.permute(1, 0)
    z.unfold(1, 2, 1)
    z.T.contiguous()
    z.T * w.T
    z.to(P.complex128)
    z.to(P.complex64)
    a.to(P.complex64)
    z.real.to(P.complex128)
    z.view(6)
    z.split(2, 1)[0]
    z.unbind(0)[1]
    z.movedim(0, 1)
    z == w
    z != w
    z == z.real
    P.isclose(z, w)
    P.allclose(z, z)
    P.equal(z, z)
    z.isnan()
    z.isinf()
    z.isfinite()
    P.isreal(z)
    P.isreal(a)
    P.is_complex(z)
    z.any()
    z.all(1)
    z.bool()
    z.count_nonzero()
    z.logical_not()
    P.logical_and(z, w)
    z.nonzero()
    P.fft.fft(z)
    P.fft.fft(a)
    P.fft.fft(z, 5, 0, "ortho")
    P.fft.ifft(z)
    P.fft.ifft(a)
    P.fft.rfft(a)
    P.fft.rfft(a, 6, 1, "forward")
    P.fft.irfft(z)
    P.fft.irfft(z, 5)
    P.fft.irfft(a)
    P.fft.fft2(b)
    P.fft.ifft2(a)
    P.fft.fftn(b)
    P.fft.ifftn(b, (2, 2))
    P.fft.rfftn(a)
    P.fft.rfft2(a)
    P.fft.irfft2(z)
    P.fft.irfftn(z)
    P.fft.hfft(z)
    P.fft.hfft(z, 5)
    P.fft.ihfft(a)
    P.fft.hfft2(z)
    P.fft.hfftn(b)
    P.fft.ihfft2(a)
    P.fft.ihfftn(a)
    P.fft.fftshift(z)
    P.fft.ifftshift(z, 1)
    P.fft.fftfreq(5)
    P.stft(P.cat([a.flatten()] * 4), 8, 2, return_complex=True)
    P.stft(P.cat([a.flatten()] * 4), 8, 2, return_complex=False)
    P.stft(P.cat([z.flatten()] * 4), 8, 2)
    P.stft(P.cat([a.flatten()] * 4), 8, 2, window=P.hann_window(8, dtype=a.dtype), return_complex=True, normalized=True)
    P.istft(P.stft(P.cat([a.flatten()] * 4), 8, 2, window=P.hann_window(8, dtype=a.dtype), return_complex=True) * (1 + 0.5j), 8, 2, window=P.hann_window(8, dtype=a.dtype))
    P.istft(P.stft(P.cat([z.flatten()] * 4), 8, 2, window=P.hann_window(8, dtype=a.dtype)), 8, 2, window=P.hann_window(8, dtype=a.dtype), return_complex=True)
    P.linalg.inv(m)
    P.linalg.solve(m, n)
    P.linalg.solve(m, v)
    P.linalg.det(m)
    P.linalg.slogdet(m)
    P.logdet(m)
    P.linalg.qr(m)[1]
    P.linalg.qr(b)[0]
    P.linalg.svdvals(m)
    P.linalg.eigvalsh(h)
    P.linalg.eigh(h)[0]
    P.linalg.eigvals(m).sum()
    P.linalg.eigvals(m.real).sum()
    P.linalg.pinv(m)
    P.linalg.matrix_power(m, 3)
    P.linalg.matrix_power(m, -2)
    P.matrix_exp(m)
    P.linalg.multi_dot([m, n, m])
    P.linalg.matrix_rank(m)
    P.linalg.cond(m)
    P.linalg.lstsq(m, n)[0]
    P.linalg.solve_triangular(m, n, upper=True)
    P.cholesky_solve(n, P.linalg.cholesky(h))
    P.cholesky_inverse(P.linalg.cholesky(h))
    P.linalg.lu(m)[1]
    P.linalg.lu_factor(m)[0]
    P.linalg.cross(z, w)
    P.linalg.vander(v)
    P.lerp(z, w, 0.3)
    P.addcmul(z, z, w, value=0.5)
    P.addcdiv(z, z, w, value=0.5)
    P.add(z, w, alpha=1j)
    P.sub(z, w, alpha=2)
    P.rsub(z, w)
    P.cov(z)
    P.corrcoef(z)
    P.cumulative_trapezoid(z, dim=1)
    P.trapezoid(z, dim=1)
    P.diff(z)
    P.full((2,), 1 + 1j)
    P.full((2,), 1.5, dtype=z.dtype)
    P.zeros(2, dtype=P.complex64)
    P.ones(2, dtype=P.complex128)
    P.eye(2, dtype=P.complex64)
    P.zeros_like(z)
    P.ones_like(z)
    P.full_like(z, 1j)
    z.new_zeros(2)
    z.new_tensor([1.0])
    P.tensor([1 + 2j, 3])
    P.tensor([1, 2], dtype=P.complex64)
    P.tensor([[1j, 2.5], [True, 3]])
    P.scalar_tensor(1j, dtype=P.complex64)
    P.linspace(0, 1, 3, dtype=P.complex64)
    P.as_tensor([1j])
    z.float()
    P.result_type(z, 1j)
    P.promote_types(P.float64, P.complex64)
    P.promote_types(P.int64, P.complex64)
    P.promote_types(P.bfloat16, P.complex64)
    P.can_cast(P.complex64, P.float32)
    P.can_cast(P.float32, P.complex64)
    a * 1j
    P.arange(3) * 1j
    P.arange(3) * z.detach()
    a * P.tensor(1j)
    a.double() * P.tensor(1j)
    P.arange(3) * P.tensor(1j)
    P.ones(2, dtype=P.float64) * P.tensor(1j)
    z.detach().clone().mul_(2j)
    z.detach().clone().add_(a.detach())
    z.detach().clone().zero_()
    z.detach().clone().fill_(1j)
    z.detach().clone().copy_(a.detach())
    P.sgn(P.tensor([0j, 1 + 1j]))
    P.tensor([0j, 1 + 1j]).angle()
    P.tensor(3 + 0j).item()
    float(P.tensor(3 + 0j))
    complex(P.tensor(3 + 1j))
    P.tensor([1 + 2j]).tolist()
    P.nn.functional.l1_loss(z, w)
    P.nn.functional.dropout(z, 0.0)
    P.meshgrid(v, v, indexing="ij")[0]
    P.block_diag(m, n)
    P.cartesian_prod(v, v)
    P.hstack([z, w])
    P.vstack([z, w])
    P.broadcast_to(v, (2, 3))
    P.swapaxes(z, 0, 1)
    P.rot90(z)
    P.squeeze(z[None])
    P.tile(z, (1, 2))
    P.chunk(z, 3, 1)[1]
    P.real(z)
    P.real(a)
    P.imag(z)
    z.select(0, 1)
    z.narrow(1, 0, 2)
    P.nn.functional.one_hot(P.tensor([1])) * z[0, 0]
    P.tensor([1.0, float("nan"), -2.0, 0.0]).angle()
    P.nn.functional.normalize(z, dim=1)
    P.dist(z, w)
    P.conj(z).T
    P.addr(m, v, v)
    P.baddbmm(b, b, b)
    P.addmv(v, m, v)
    P.addbmm(m, b, b)
    P.chain_matmul(m, n)
    P.mv(m, v)
    P.mm(m, n)
    P.ger(v, v)
    P.trace(m)
    P.nn.functional.conv1d(b, b[:, :, :2])
    z.unsqueeze(0)
    P.linalg.svd(m)[1]
    P.svd(m)[1]
    P.linalg.eigh(h)[1].abs()
    P.linalg.eig(m)[1].abs()
    P.linalg.eig(m)[0].sum()
    P.linalg.svd(m)[0].abs()
    P.float_power(z, 2)
    P.true_divide(z, w)
    P.positive(z)
    P.negative(z)
    P.ldexp(z, P.tensor([1]))
    P.nn.functional.tanhshrink(z)
    P.count_nonzero(z, 1)
    z.T.conj().real
    z.real + z.imag * 1j
    (z * z.conj()).real
    P.view_as_real(z)[..., 0]
    P.fft.ifft(P.fft.fft(z) * w)
    P.fft.irfft(P.fft.rfft(a) * w[:, :2])
    P.view_as_complex(P.stack([a, p], -1)) * w
    z.logsumexp(1)
    z.sum(dtype=P.complex128)
    z.sum(dtype=P.float64)
    P.arange(4).sum(dtype=P.complex64)
    z.mean(dtype=P.complex128)
    P.cumsum(a, 1, dtype=P.complex64)
    z.detach().clone().add_(1)
    z.detach().clone().sub_(1j)
    z.detach().clone().div_(2)
    z.detach().clone().pow_(2)
    z.detach().clone().exp_()
    z.detach().clone().conj_physical_()
    z.detach().clone().sgn_()
    z.detach().clone().neg_()
    z.detach().clone().sqrt_()
    z.detach().clone().sigmoid_()
    z.detach().clone().real.fill_(3)
    z.detach().clone().masked_fill_(a > 0, 1j)
    z.detach().clone().index_fill_(1, P.tensor([0]), 2)
    z.detach().clone().copy_(P.tensor(1j))
    a.detach().clone().copy_(z.detach())
    z.detach().clone().lerp_(w.detach(), 0.5)
    z.detach().clone().addcmul_(w.detach(), w.detach(), value=1j)
    P.addcdiv(z, w, z, value=2j)
    P.addmm(m, m, n, beta=1j, alpha=2j)
    P.baddbmm(b, b, b, beta=2j)
    P.addmv(v, m, v, alpha=1j)
    P.addr(m, v, v, alpha=1j)
    P.addbmm(m, b, b, beta=1j)
    z.type(P.complex128)
    z.type_as(w)
    z.double()
    z.int()
    z.long()
    z.half()
    a.to(P.complex64).imag
    P.tensor(True).to(P.complex64)
    P.arange(3).to(P.complex128)
    P.tensor([1 + 0j]).item()
    z.T.mH
    z.mH.real
    z.H
    P.t(z).conj()
    z.conj().conj()
    z.conj().T @ z
    z.mH @ z
    z @ z.mH
    (z @ z.mH).real
    P.einsum("ij,ik->jk", z.conj(), z)
    P.einsum("ij,ij->", z, a.to(z.dtype))
    P.einsum("ii->i", m)
    P.einsum("bij,bij->b", b, b.conj())
    P.nn.functional.pad(z, (1, 1, 1, 0), value=2.0)
    P.nn.functional.pad(z[None], (1, 1), mode="circular")
    P.nn.functional.pad(z[None], (1, 1), mode="replicate")
    P.nn.functional.l1_loss(z, w, reduction="sum")
    P.nn.functional.conv2d(b[None], b[None])
    P.nn.functional.dropout(z, 0.5, training=False)
    P.nn.functional.tanh(z)
    P.nn.functional.softsign(z)
    P.nn.functional.pairwise_distance(z, w)
    P.nn.functional.unfold(b[None], 2)
    P.nn.functional.one_hot(P.tensor([1, 0])) * 1j
    P.argwhere(z)
    P.where(z == w)
    P.count_nonzero(z)
    P.isclose(z, z + 1e-09)
    P.isclose(z, z * (1 + 0.001))
    P.allclose(z, w)
    P.equal(z, w)
    P.eq(z, 1j)
    z == 1
    z != 1 + 2j
    P.tensor([complex("nan"), 1j]) == P.tensor([complex("nan"), 1j])
    P.isclose(P.tensor([complex("nan")]), P.tensor([complex("nan")]), equal_nan=True)
    P.tensor([complex("inf"), complex(0, float("inf")), 1]).isinf()
    P.tensor([complex("inf"), complex(0, float("nan")), 1]).isfinite()
    P.tensor([complex("inf"), complex(0, float("nan")), 1]).isnan()
    P.tensor([0j]).sgn()
    P.tensor([0j]).angle()
    P.tensor([0j]).log()
    P.tensor([0j]).reciprocal()
    P.tensor([0j]) / 0
    P.tensor([0j]) ** 0
    P.tensor([0j]) ** 2
    P.tensor([-1 + 0j]).sqrt()
    P.tensor([complex(-1, -0.0)]).sqrt()
    P.tensor([-4.0 + 0j]) ** 0.5
    P.tensor([2j]) ** P.tensor([0.5])
    P.tensor([0j, 1j]).abs()
    P.tensor([1e-30 + 1e-30j], dtype=P.complex64).abs()
    P.tensor([1e+30 + 1e+30j], dtype=P.complex64).abs()
    P.tensor([1e+30 + 1e+30j], dtype=P.complex64) / P.tensor([1e+30 + 1e+30j], dtype=P.complex64)
    P.polar(P.ones(3, dtype=P.float64), P.arange(3.0).double())
    P.view_as_complex(P.arange(8.0).reshape(2, 2, 2).transpose(0, 1))
    P.view_as_real(z.T).stride()
    z.real.stride()
    z.imag.storage_offset()
    z.is_complex()
    z.is_floating_point()
    P.is_floating_point(z)
    z.dtype.is_complex
    z.dtype.is_floating_point
    P.complex64.is_signed
    P.complex64.itemsize
    P.finfo(P.complex64).max
    P.can_cast(P.complex64, P.int32)
    P.can_cast(P.int32, P.complex64)
    P.can_cast(P.complex128, P.complex64)
    z + True
    z * P.tensor([True, False, True])
    z + P.arange(3)
    P.tensor(2.0, dtype=P.float64) * P.tensor([1j], dtype=P.complex64)
    P.tensor(1j, dtype=P.complex128) * P.ones(2)
    P.tensor(1j, dtype=P.complex128) * P.arange(2)
    2.5 * P.tensor([1j])
    P.full((2,), True, dtype=P.complex64)
    P.tensor([[1j], [2]])
    P.as_tensor(1j)
    P.zeros(2, dtype=P.complex64).fill_(2)
    P.empty(0, dtype=P.complex64).sum()
    P.empty(0, dtype=P.complex64).prod()
    P.empty(0, 3, dtype=P.complex64) @ m.to(P.complex64)
    P.zeros(2, 3, dtype=P.complex128).mean(0)
    P.eye(3, dtype=P.complex128) @ m.to(P.complex128)
    P.logspace(0, 1, 3, dtype=P.complex64)
    P.linspace(0, 1, 3, dtype=P.complex128)
    P.ones(2, dtype=P.complex64).tolist()
    P.stack([z, a.to(z.dtype)]).sum()
    P.hstack([v, v])
    P.cat([z, P.ones(1, 3)])
    P.block_diag(m, P.ones(1, 1))
    P.cat([z[:0], z])
    P.tril_indices(2, 2) * 1j
    P.diff(z, dim=0)
    P.gradient(v)[0]
    P.trapezoid(v)
    P.cumprod(v, 0)
    P.roll(v, 1)
    P.rot90(m)
    P.flipud(m)
    P.fliplr(m)
    P.tensor_split(v, 2)[0]
    v.unfold(0, 2, 1)
    v.as_strided((2, 2), (1, 1))
    v.index_put((P.tensor([0, 0]),), v[1:], accumulate=True)
    z.masked_scatter(a > 0, w)
    z.take_along_dim(P.tensor([[0], [1]]), 1)
    z.diagonal_scatter(v[:2])
    P.renorm(z, 2, 0, 1.0)
    P.combinations(v)
    P.linalg.norm(z)
    P.linalg.norm(m, "fro")
    P.linalg.norm(m, "nuc")
    P.linalg.norm(v, 3)
    P.linalg.norm(m, -2)
    P.linalg.vector_norm(z, 0)
    P.linalg.vector_norm(z, float("inf"))
    P.linalg.vector_norm(z, 1, dtype=P.complex128)
    P.norm(z, p="fro", dim=1)
    P.norm(z, p=0)
    P.dist(z, w, 1)
    P.linalg.inv_ex(m)[0]
    P.linalg.solve(m, b)
    P.linalg.solve(b, v)
    P.linalg.solve(m, n, left=False)
    P.linalg.solve_triangular(m.tril(), n, upper=False, left=False)
    P.linalg.solve_triangular(m, n, upper=True, unitriangular=True)
    P.linalg.det(b)
    P.linalg.qr(z)[1].abs()
    P.linalg.qr(z.mT)[1].abs()
    P.linalg.svd(z)[1]
    P.linalg.svdvals(z)
    P.linalg.svd(z, full_matrices=False)[2].abs()
    P.linalg.pinv(z)
    P.linalg.pinv(z.mT)
    P.linalg.pinv(h, hermitian=True)
    P.linalg.lstsq(z.mT, v[:, None])[0]
    P.linalg.eigh(h, UPLO="U")[0]
    P.linalg.eig(b)[0].sum(-1)
    P.linalg.eigvals(b).prod(-1)
    P.linalg.matrix_exp(b)
    P.linalg.matrix_power(b, 2)
    P.linalg.householder_product(z.mT, v[:2])
    P.linalg.cholesky(h, upper=True)
    P.linalg.cholesky_ex(h)[0]
    P.linalg.lu(b)[2]
    P.linalg.lu_solve(*P.linalg.lu_factor(m), n)
    P.linalg.lu_solve(*P.linalg.lu_factor(m), n, adjoint=True)
    P.linalg.cross(z, w, dim=1)
    P.linalg.diagonal(m)
    P.linalg.multi_dot([z, m, n])
    P.linalg.matrix_rank(m, hermitian=False)
    P.linalg.vecdot(z, w, dim=0)
    P.cov(z, correction=0)
    P.logsumexp(z, 0)
    P.special.expit(z)
    P.special.sinc(z)
    P.special.log1p(z)
    P.special.exp2(z)
    P.special.expm1(z)
    z.exp().log()
    z.acos().cos()
    P.acosh(P.tensor([0.5j, -2 + 0j, complex(-2, -0.0)]))
    P.asin(P.tensor([2 + 0j, complex(2, -0.0)]))
    P.atanh(P.tensor([2 + 0j]))
    P.log(P.tensor([-1 + 0j, complex(-1, -0.0)]))
    P.log1p(P.tensor([1e-10 + 1e-10j], dtype=P.complex128))
    P.expm1(P.tensor([1e-10 + 1e-10j], dtype=P.complex128))
    P.tanh(P.tensor([100 + 1j]))
    P.tan(P.tensor([1 + 100j]))
    P.sqrt(P.tensor([1e-200 + 1e-200j], dtype=P.complex128))
    P.fft.fft(P.arange(4))
    P.fft.fft(P.ones(4, dtype=P.float64))
    P.fft.ifft(z, dim=0, norm="forward")
    P.fft.irfft(z, 4, 0)
    P.fft.fftn(b, dim=(0, 2), norm="ortho")
    P.fft.irfftn(b, (2, 4))
    P.fft.fft2(z, (4, 4))
    P.fft.hfft(a)
    P.fft.fftfreq(4, dtype=P.float64)
    P.stft(v.repeat(6), 4, window=P.ones(4).to(v.dtype), return_complex=True)
    P.istft(P.stft(v.real.repeat(6), 4, return_complex=True), 4)
    P.istft(P.stft(v.repeat(6), 4, return_complex=True), 4, onesided=False, return_complex=True)
    z.real.requires_grad
    (z * 2).imag.is_leaf
    P.linalg.cholesky(h)
""".strip().split("\n")]  # fmt: skip  # noqa: E501

# What both refuse.
REFUSED = [line.strip() for line in """
    z.floor()
    z.round()
    z < w
    z.clamp(0)
    z.sign()
    z % 2
    z // 2
    P.atan2(z, w)
    P.maximum(z, w)
    z.relu()
    a.detach().clone().mul_(1j)
    a.detach().clone().fill_(1j)
    P.heaviside(z, w)
    P.imag(a)
    P.view_as_real(a)
    P.view_as_complex(a)
    P.cosine_similarity(z, w)
    P.hypot(z, w)
    P.nn.functional.softplus(z)
    P.nn.functional.gelu(z)
    P.bincount(z)
    P.quantile(z, 0.5)
    P.isposinf(z)
    P.signbit(z)
    z.max()
    z.sort()
    z.softmax(1)
    P.searchsorted(v, v)
    P.unique(v)
    P.cdist(z, w)
    P.nn.functional.mse_loss(z, w)
    P.arange(3, dtype=P.complex64)
    z.detach().clone().abs_()
    a.detach().clone().add_(z.detach())
    P.nn.functional.conv_transpose1d(b, b)
    P.nn.functional.avg_pool1d(b, 2)
    P.nn.functional.softmin(z, 1)
    P.nn.functional.logsigmoid(z)
    P.nn.functional.cosine_similarity(z, w)
    P.complex(P.ones(3), P.zeros(3, dtype=P.float64))
    P.complex(P.arange(3), P.arange(3))
    P.view_as_complex(P.arange(8.0).reshape(2, 2, 2).transpose(0, 2))
    P.view_as_complex(P.arange(6.0).reshape(2, 3))
    P.view_as_complex(P.arange(6).reshape(3, 2))
    P.tensor([1j]) - P.tensor([True])
    P.full((2,), 1j, dtype=P.float32)
    P.full_like(a, 1j)
    P.tensor([1j], dtype=P.float32)
    P.tensor([1j, None])
    P.scatter_reduce(z, 1, P.tensor([[0, 1, 2], [0, 0, 0]]), w, "mean")
    P.scatter_reduce(z, 1, P.tensor([[0, 1, 2], [0, 0, 0]]), w, "amax")
    P.log_softmax(z, 1)
    P.histc(z)
    P.median(z)
    P.topk(v, 2)
    P.argmax(v)
    P.aminmax(v)
    P.amax(v)
    P.cummax(v, 0)
    P.mode(v)
    P.trunc(v)
    P.frac(v)
    P.erf(v)
    P.lgamma(v)
    P.digamma(v)
    P.copysign(v, v)
    P.fmod(v, 2)
    P.gcd(v, v)
    v & v
    ~v
    v << 1
    P.bitwise_not(v)
    P.fmax(v, v)
    P.fft.rfft(z)
    P.fft.rfft2(b)
    P.fft.ihfft(z)
    P.stft(v.real.repeat(6), 4)
    P.stft(v.repeat(6), 4, onesided=True, return_complex=True)
    P.istft(P.view_as_real(P.stft(v.real.repeat(6), 4, return_complex=True)), 4)
    P.istft(P.stft(v.real.repeat(6), 4, return_complex=True), 4, return_complex=True)
""".strip().split("\n")]  # fmt: skip


def inputs(P: Any, wide: bool) -> dict[str, Any]:
    """The tensors, which require gradients, and P."""
    found: dict[str, Any] = {"P": P}
    for name, array in ARRAYS.items():
        kind = ("complex128" if wide else "complex64") if np.iscomplexobj(array) else "float64" if wide else "float32"
        found[name] = P.tensor(array.astype(kind)).requires_grad_()
    return found


def run(case: str, tensors: dict[str, Any]) -> list[Any]:
    """The results of a case: tensors, numbers, lists of numbers."""
    y = eval(case, dict(tensors))
    return list(y) if isinstance(y, tuple) else [y]


def _loss(P: Any, results: Any) -> Any:
    """A weighted sum of all parts of all results that have gradients; None where there are none."""
    total = None
    for y in results:
        if not hasattr(y, "dtype") or not (y.dtype.is_complex or y.dtype.is_floating_point) or not y.requires_grad:
            continue
        weights = np.random.RandomState(7)
        parts = [y.real, y.imag] if y.dtype.is_complex else [y]
        for part in parts:
            term = (part.to(P.float64) * P.tensor(weights.standard_normal(tuple(part.shape)))).sum()
            total = term if total is None else total + term
    return total


def gradients(P: Any, results: list[Any], tensors: dict[str, Any]) -> list[Any]:
    """The gradients of all parts of the results with respect to each tensor, and those of a sum of these: None for
    those that do not take part."""
    leaves = [tensors[name] for name in ARRAYS]
    loss = _loss(P, results)
    if loss is None:
        return [None] * (2 * len(leaves))
    first = P.autograd.grad(loss, leaves, allow_unused=True, create_graph=True)
    loss = _loss(P, [g for g in first if g is not None])
    if loss is None:
        return [*first, *[None] * len(leaves)]
    return [*first, *P.autograd.grad(loss, leaves, allow_unused=True)]


def array_of(x: Any) -> Any:
    """A result as a NumPy array."""
    return x.detach().resolve_conj().resolve_neg().numpy() if hasattr(x, "detach") else np.asarray(x)
