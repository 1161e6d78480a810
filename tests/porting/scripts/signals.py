"""Signals and systems: convolution by transforms, spectra, complex layers, sparse systems, LBFGS, decompositions."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class FourierLayer(nn.Module):
    """Of Fourier neural operators: complex weights for the lowest frequencies."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.zeros(width, width, modes, 2))
        self.skip = nn.Conv1d(width, width, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft(x, norm="ortho")
        low = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], torch.view_as_complex(self.weight))
        out = torch.zeros_like(spectrum)
        out[..., : self.modes] = low
        return F.gelu(torch.fft.irfft(out, n=x.size(-1), norm="ortho") + self.skip(x), approximate="tanh")


def fft_conv(signal, kernel):
    n = signal.shape[-1] + kernel.shape[-1] - 1
    size = 2 ** math.ceil(math.log2(n))
    product = torch.fft.rfft(signal, n=size) * torch.fft.rfft(kernel, n=size)
    return torch.fft.irfft(product, n=size)[..., :n]


def operators(fill):
    net = nn.Sequential(nn.Conv1d(1, 4, 1), FourierLayer(4, 5), FourierLayer(4, 3), nn.Conv1d(4, 1, 1))
    fill(net)
    grid = torch.linspace(0, 1, 32)
    x = torch.stack([torch.sin(2 * math.pi * k * grid) for k in range(1, 4)]).unsqueeze(1)
    target = torch.cumulative_trapezoid(x, grid, dim=-1)
    optimizer = torch.optim.RAdam(net.parameters(), lr=2e-2)
    found = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.huber_loss(net(x)[..., 1:], target, delta=0.1)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def spectra():
    t = torch.arange(400) / 400.0
    wave = torch.sin(2 * math.pi * 30 * t) + 0.5 * torch.cos(2 * math.pi * 75 * t + 0.3)
    kernel = torch.signal.windows.kaiser(15, beta=8.0, dtype=torch.float32)
    by_transform = fft_conv(wave, kernel)
    direct = F.conv1d(wave.view(1, 1, -1), kernel.flip(0).view(1, 1, -1), padding=14).flatten()
    assert torch.allclose(by_transform, direct, atol=1e-3)
    window = torch.hann_window(64)
    spec = torch.stft(wave, 64, hop_length=16, window=window, center=True, pad_mode="reflect", return_complex=True)
    power = spec.abs().pow(2)
    phase = torch.angle(spec)
    back = torch.istft(torch.polar(power.sqrt(), phase), 64, hop_length=16, window=window, length=400)
    decibel = 10 * torch.log10(power.clamp_min(1e-10))
    centroid = (power * torch.fft.rfftfreq(64, d=1 / 400).unsqueeze(1)).sum(0) / power.sum(0)
    analytic = torch.fft.fft(wave)
    h = torch.zeros(400)
    h[0] = h[200] = 1
    h[1:200] = 2
    envelope = torch.fft.ifft(analytic * h).abs()
    picture = torch.outer(wave[:16], wave[16:32])
    shifted = torch.fft.fftshift(torch.fft.fft2(picture))
    lowpass = torch.fft.ifft2(torch.fft.ifftshift(shifted * (shifted.abs() > 1.5)))
    hermitian = torch.fft.hfft(torch.fft.ihfft(wave[:16]), n=16)
    steps = torch.diff(torch.atan2(lowpass.real[0], lowpass.real[1].abs() + 1), prepend=torch.zeros(1))
    return [
        by_transform.square().sum().item(), (back - wave).abs().max().item() < 1e-5, decibel.amax().item(),
        *centroid[3:6].tolist(), *envelope[10:13].tolist(), *lowpass.real[0, :3].tolist(), hermitian.norm().item(),
        *steps[:3].tolist(), torch.nanmean(torch.logcumsumexp(wave, 0)).item(), torch.histc(wave, bins=5)[2].item(),
        *torch.quantile(wave, torch.tensor([0.1, 0.5, 0.9]), interpolation="linear").tolist(),
        wave.kthvalue(20)[0].item(),
        *torch.bucketize(wave[:5], torch.tensor([-1.0, 0, 0.5, 1])).tolist(), torch.trapezoid(wave, t).item(),
    ]  # fmt: skip


def sparse():
    n = 12
    i = torch.arange(n)
    index = torch.cat([torch.stack([i, i]), torch.stack([i[1:], i[:-1]]), torch.stack([i[:-1], i[1:]])], dim=1)
    value = torch.cat([torch.full((n,), 2.5), -torch.ones(n - 1), -torch.ones(n - 1)]).requires_grad_()
    A = torch.sparse_coo_tensor(index, value, (n, n)).coalesce()
    b = torch.cos(i.float()).unsqueeze(1)
    x, r = torch.zeros(n, 1), b
    p = r
    for _ in range(6):  # conjugate gradients
        Ap = torch.sparse.mm(A, p)
        alpha = (r * r).sum() / (p * Ap).sum()
        x = x + alpha * p
        new = r - alpha * Ap
        p = new + (new * new).sum() / (r * r).sum() * p
        r = new
    (r.square().sum() + x.abs().sum()).backward()
    csr = A.detach().to_sparse_csr()
    dense = A.detach().to_dense()
    exact = torch.cholesky_solve(b, torch.linalg.cholesky(dense))
    lu, pivots = torch.linalg.lu_factor(dense)
    assert torch.allclose(torch.linalg.lu_solve(lu, pivots, b), exact, atol=1e-5)
    soft = torch.sparse.softmax(A.detach(), dim=1)
    return [
        r.norm().item(), (x - exact).norm().item(), value.grad.sum().item(), csr.crow_indices()[-1].item(), A._nnz(),
        (csr @ b).sum().item(), *soft.to_dense()[1, :3].tolist(), torch.sparse.sum(A.detach(),
        dim=0).to_dense()[0].item(),
        torch.linalg.cond(dense).item(), torch.logdet(dense).item(), *torch.linalg.eigvalsh(dense)[:2].tolist(),
        torch.linalg.matrix_norm(dense, "nuc").item(), torch.trace(torch.linalg.matrix_exp(-dense)).item(),
    ]  # fmt: skip


def fitted():
    t = torch.linspace(0, 4, 40, dtype=torch.float64)
    y = 2.0 * torch.exp(-0.7 * t) * torch.cos(3 * t + 0.4)
    theta = nn.Parameter(torch.tensor([1.5, 0.5, 2.8, 0.1], dtype=torch.float64))
    optimizer = torch.optim.LBFGS([theta], lr=1, max_iter=8, history_size=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        a, b, c, d = theta
        loss = (a * torch.exp(-b * t) * torch.cos(c * t + d) - y).pow(2).mean()
        loss.backward()
        return loss

    found = [optimizer.step(closure).item() for _ in range(3)]
    J = torch.autograd.functional.jacobian(
        lambda th: th[0] * torch.exp(-th[1] * t) * torch.cos(th[2] * t + th[3]), theta.detach()
    )
    step = torch.linalg.lstsq(J, y - theta.detach()[0] * torch.exp(-theta.detach()[1] * t)).solution
    Q, R = torch.linalg.qr(J, mode="reduced")
    basis = torch.vander(t[:5] / 4, N=3, increasing=True)
    return [
        *found, *theta.tolist(), step.norm().item(), R.diagonal().abs().sum().item(),
        torch.linalg.pinv(basis).sum().item(),
        torch.linalg.det(basis.T @ basis).item(), (Q.mT @ Q).trace().item(), *torch.linalg.svdvals(basis).tolist(),
        torch.special.erfinv(torch.tensor(0.3)).item(), torch.special.i0e(torch.tensor(1.5)).item(),
        torch.special.zeta(torch.tensor(3.0), torch.tensor(1.0)).item(), torch.polygamma(1, torch.tensor(2.5)).item(),
        torch.special.xlog1py(torch.tensor(2.0), torch.tensor(0.5)).item(), torch.lgamma(torch.tensor(4.2)).item(),
    ]  # fmt: skip


def main(fill):
    return operators(fill) + spectra() + sparse() + fitted()
