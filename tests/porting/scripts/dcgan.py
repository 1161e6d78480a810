"""Steps of a DCGAN: two networks, two optimisers, weights by class name, spectral norm, hooks; the noise is given."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.nn.utils.parametrizations import spectral_norm


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, nz=8, ngf=8, nc=1):
        super(Generator, self).__init__()  # noqa: UP008 (as users write it)
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, output_padding=0, bias=False), nn.Tanh(),
        )  # fmt: skip

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, nc=1, ndf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, input):
        return self.main(input)


def drawn(*shape, seed):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(1, count + 1, dtype=torch.float32) * (1.3 + seed)).reshape(shape)


def gradient_penalty(netD, real, fake):
    alpha = drawn(real.size(0), 1, 1, 1, seed=0.7).abs()
    mixed = (alpha * real + (1 - alpha) * fake.detach()).requires_grad_(True)
    scores = netD(mixed)
    (gradients,) = torch.autograd.grad(
        outputs=scores, inputs=mixed, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
    )
    return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def main(fill):
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    netG, netD = Generator().to(device), Discriminator().to(device)
    netG.apply(weights_init)
    netD.apply(weights_init)
    fill(netG)
    fill(netD)
    spectral_norm(netD.main[5], n_power_iterations=3)
    fill(netD.main[5].parametrizations.weight[0])
    criterion = nn.BCELoss()
    real_label, fake_label = 1.0, 0.0
    optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    seen = []
    handle = netD.main[3].register_forward_hook(
        lambda module, inputs, output: seen.append(output.detach().std().item())
    )
    losses = []
    for step in range(4):
        real = drawn(6, 1, 16, 16, seed=step).to(device)
        netD.zero_grad()
        label = torch.full((real.size(0),), real_label, dtype=torch.float, device=device)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        fake = netG(drawn(6, 8, 1, 1, seed=step + 0.5).to(device))
        label.fill_(fake_label)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label) + 0.1 * gradient_penalty(netD, real, fake)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        label.fill_(real_label)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        losses += [D_x, errD_real.item(), errD_fake.item(), errG.item()]
    handle.remove()
    assert len(seen) == 16
    return losses + seen
