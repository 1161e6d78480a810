"""Ops that change or join shapes, views by strides: cases as the package describes them."""

from __future__ import annotations

from typing import Any

from . import Case, F


def strides(P: Any, x: Any, size: Any, stride: Any, offset: int | None = None) -> Any:
    return P.as_strided((x * 1).contiguous(), size, stride, offset)


def strides_of_expanded(P: Any, x: Any) -> Any:
    return P.as_strided((x * 1).contiguous().expand(2, 5), (2, 3), (1, 1), 1)


def written_by_strides(P: Any, x: Any) -> Any:
    y = (x * 1).contiguous()
    P.as_strided(y, (2, 2), (5, 2), 1).mul_(x[0, 0])
    return y * y


CASES: list[Case] = [
    ("reshape", lambda P, x: x.reshape(2, -1) * 2, [(3, 4)]),
    ("reshape_permuted", lambda P, x: x.permute(2, 0, 1).reshape(6, -1), [(3, 4, 2)]),
    ("transpose", lambda P, x: x.transpose(0, -1) * x.permute(2, 1, 0), [(3, 4, 2)]),
    ("expand", lambda P, x: x.expand(2, 3, 4) * 1.5, [(3, 1)]),
    ("squeeze", lambda P, x: x.squeeze(1).unsqueeze(0), [(3, 1, 4)]),
    ("flatten", lambda P, x: x.flatten(1), [(2, 3, 4)]),
    ("cat", lambda P, a, b: P.cat([a, b, a], 1), [(2, 3), (2, 1)]),
    ("stack", lambda P, a, b: P.stack([a, b], -1), [(2, 3), (2, 3)]),
    ("split", lambda P, x: x.split([1, 3], 1)[1] * 2, [(3, 4)]),
    ("chunk", lambda P, x: x.chunk(3, 0)[2], [(7, 2)]),
    ("flip", lambda P, x: x.flip(0, 1), [(3, 4)]),
    ("repeat", lambda P, x: x.repeat(2, 1, 3), [(2, 3)]),
    ("tril", lambda P, x: x.tril(-1), [(4, 4)]),
    ("triu", lambda P, x: x.triu(), [(3, 5)]),
    ("tile", lambda P, x: x.tile((2, 3)), [(2, 3)]),
    ("roll", lambda P, x: x.roll(2), [(3, 4)]),
    ("roll_dims", lambda P, x: P.roll(x, (1, -1), (0, 1)), [(3, 4)]),
    ("pad", lambda P, x: F(P).pad(x, (1, 2, 0, 3), value=1.5), [(2, 3)]),
    ("pad_cut", lambda P, x: F(P).pad(x, (-1, 2)), [(2, 3)]),
    *(
        (f"pad_{m}", lambda P, x, m=m: F(P).pad(x, (2, 1, 1, 2), mode=m), [(1, 2, 3, 4)])
        for m in ("reflect", "replicate", "circular")
    ),
    ("unfold", lambda P, x: x.unfold(1, 3, 2), [(2, 8, 3)]),
    ("meshgrid", lambda P, a, b: P.meshgrid(a, b, indexing="ij")[1] * 2, [(3,), (4,)]),
    ("meshgrid_xy", lambda P, a, b: P.meshgrid(a, b, indexing="xy")[0] * 2, [(3,), (4,)]),
    ("diagonal", lambda P, x: x.diagonal(1, 0, 2) * 2, [(3, 2, 4)]),
    ("diagonal_below", lambda P, x: P.diagonal(x, -1), [(4, 3, 2)]),
    ("diagonal_empty", lambda P, x: x.diagonal(5), [(3, 4)]),
    ("diag", lambda P, x: x.diag(-1), [(4, 4)]),
    ("diag_vector", lambda P, x: x.diag(1), [(3,)]),
    ("diag_embed", lambda P, x: P.diag_embed(x, -1), [(2, 3)]),
    ("movedim", lambda P, x: x.movedim((0, 2), (1, 0)) * 2, [(2, 3, 4)]),
    ("swapaxes", lambda P, x: P.swapaxes(x, 0, 1) * 2, [(2, 3)]),
    ("unflatten", lambda P, x: x.unflatten(1, (2, -1)) * 2, [(2, 6)]),
    ("unbind", lambda P, x: x.unbind(1)[2] * 2, [(2, 3, 4)]),
    ("repeat_interleave", lambda P, x: x.repeat_interleave(2, dim=1), [(2, 3)]),
    ("repeat_each", lambda P, x, i: x.repeat_interleave(i, 0), [(4, 3), ("ints", 3, (4,))]),
    ("broadcast_tensors", lambda P, a, b: P.broadcast_tensors(a, b)[1] * 2, [(2, 3), (3,)]),
    ("hstack", lambda P, a, b: P.hstack([a, b]), [(2, 3), (2, 1)]),
    ("vstack", lambda P, a, b: P.vstack([a, b]), [(3,), (2, 3)]),
    ("gradient", lambda P, x: P.gradient(x, spacing=0.5, dim=1)[0], [(4, 5)]),
    ("gradient_dims", lambda P, x: P.gradient(x, spacing=(2.0, 3.0), edge_order=2)[0], [(4, 5)]),
    (
        "gradient_coordinates",
        lambda P, x, at: P.gradient(x, spacing=(at.detach().cumsum(0),), dim=0, edge_order=2)[0],
        [(4, 5), ("positive", (4,))],
    ),
    ("atleast_3d", lambda P, x: P.atleast_3d(x) * 2, [(3,)]),
    ("dstack", lambda P, a, b: P.dstack([a, b]), [(2, 3), (2, 3)]),
    ("column_stack", lambda P, a, b: P.column_stack([a, b]), [(3,), (3, 2)]),
    ("tensor_split", lambda P, x: P.tensor_split(x, 3, 1)[1] * 2, [(2, 7)]),
    ("tensor_split_at", lambda P, x: x.tensor_split((1, -2))[1] * 2, [(7, 2)]),
    ("hsplit", lambda P, x: P.hsplit(x, [2])[0] * 2, [(2, 5)]),
    ("fliplr", lambda P, x: P.fliplr(x), [(2, 3)]),
    *((f"rot90_{k}", lambda P, x, k=k: P.rot90(x, k, (0, 2)) * 1, [(2, 3, 4)]) for k in (-1, 0, 1, 2)),
    ("block_diag", lambda P, a, b: P.block_diag(a, b, a), [(2, 3), (2,)]),
    ("cartesian_prod", lambda P, a, b: P.cartesian_prod(a, b), [(3,), (2,)]),
    ("combinations", lambda P, a: P.combinations(a, 3), [(5,)]),
    ("tril_indices_int32", lambda P, x: P.cat([P.tril_indices(3, 4, k, dtype=P.int32) for k in (-9, 9)], 1), [()]),
    ("tril_indices", lambda P, x: P.tril_indices(3, 4, 1), [()]),
    ("triu_indices", lambda P, x: P.triu_indices(3, 4, -1), [()]),
    ("logspace", lambda P, x: P.logspace(-1, 2, 5) + x * 0, [()]),
    ("kron", lambda P, a, b: P.kron(a, b), [(2, 3), (4, 2)]),
    ("tensordot", lambda P, a, b: P.tensordot(a, b, 2), [(2, 3, 4), (3, 4, 5)]),
    ("tensordot_dims", lambda P, a, b: P.tensordot(a, b, dims=([2, 0], [0, 1])), [(2, 3, 4), (4, 2, 5)]),
    ("diff", lambda P, x: x.diff(2, 0), [(5, 3)]),
    ("diff_ends", lambda P, x, a: P.diff(x, prepend=a), [(2, 3), (2, 1)]),
    ("trapezoid", lambda P, y, x: P.trapezoid(y, x), [(2, 5), (5,)]),
    ("trapezoid_steps", lambda P, y: P.trapezoid(y, dx=0.5, dim=0), [(4, 3)]),
    ("vander", lambda P, x: P.vander(x.detach(), 4, increasing=True), [(3,)]),
    ("cov", lambda P, x: P.cov(x), [(3, 6)]),
    ("corrcoef", lambda P, x: P.corrcoef(x), [(3, 6)]),
    ("cdist", lambda P, a, b: P.cdist(a, b, p=1.0), [(2, 3, 4), (2, 5, 4)]),
    ("cdist_2", lambda P, a, b: P.cdist(a, b), [(3, 4), (5, 4)]),
    ("pdist", lambda P, x: F(P).pdist(x), [(4, 3)]),
    ("diagflat", lambda P, x: P.diagflat(x, 1), [(2, 2)]),
    ("as_strided_offset", lambda P, x: P.as_strided(x.detach().contiguous(), (2, 3), (1, 2), 1), [(3, 4)]),
    ("narrow_more", lambda P, x: P.narrow(x.transpose(0, 1), 0, 1, 2) * 2, [(3, 4)]),
    ("squeeze_many", lambda P, x: x.squeeze((0, 2)) * 2, [(1, 3, 1, 1)]),
    ("unsqueeze_end", lambda P, x: P.unsqueeze(x, -1) * 2, [(2, 3)]),
    ("as_strided", lambda P, x: strides(P, x, (2, 3), (4, 1)), [(3, 4)]),
    ("as_strided_overlapping", lambda P, x: strides(P, x, (4, 4), (2, 1), 1), [(3, 4)]),
    ("as_strided_same", lambda P, x: strides(P, x, (3, 2), (0, 1)), [(4,)]),
    ("as_strided_one", lambda P, x: strides(P, x, (), (), 2), [(4,)]),
    ("as_strided_none", lambda P, x: strides(P, x, (0, 2), (1, 1)), [(4,)]),
    ("as_strided_turned", lambda P, x: P.as_strided((x * 1).contiguous().mT, (2, 2), (1, 0), 1), [(3, 4)]),
    ("as_strided_part", lambda P, x: (x * 1).contiguous()[1:].as_strided((3,), (1,)), [(5,)]),
    ("as_strided_outside", lambda P, x: (x * 1).contiguous()[2:].as_strided((3,), (1,), 0), [(5,)]),
    ("as_strided_expanded", strides_of_expanded, [(5,)]),
    ("as_strided_written", written_by_strides, [(3, 4)]),
]
