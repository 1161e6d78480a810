"""A variational autoencoder over drawn blobs; the noise is given, so that two runs can be compared."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, noise):
        super(VAE, self).__init__()  # noqa: UP008 (as users write it)
        self.noise = noise
        self.fc1 = nn.Linear(144, 40)
        self.fc21 = nn.Linear(40, 6)
        self.fc22 = nn.Linear(40, 6)
        self.fc3 = nn.Linear(6, 40)
        self.fc4 = nn.Linear(40, 144)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = next(self.noise).to(std).expand_as(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 144))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 144), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def noises():
    step = 0
    while True:
        yield torch.sin(torch.arange(60, dtype=torch.float32).reshape(10, 6) * 1.7 + step)
        step += 1


def blobs(count):
    y, x = torch.meshgrid(torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 12), indexing="ij")
    centres = torch.stack([torch.cos(torch.arange(count) * 0.7), torch.sin(torch.arange(count) * 1.1)], dim=1) * 0.5
    squared = (x[None] - centres[:, 0, None, None]) ** 2 + (y[None] - centres[:, 1, None, None]) ** 2
    return torch.exp(-squared * 8).clamp(0, 1).unsqueeze(1)


def main(fill):
    torch.manual_seed(1)
    device = torch.device("cpu")
    data = torch.utils.data.TensorDataset(blobs(40), torch.arange(40))
    train, test = torch.utils.data.Subset(data, range(30)), torch.utils.data.Subset(data, list(range(30, 40)))
    train_loader = torch.utils.data.DataLoader(train, batch_size=10, shuffle=False)
    test_loader = torch.utils.data.DataLoader(test, batch_size=10)
    model = VAE(noises()).to(device)
    fill(model)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5)
    losses = []
    for _ in range(4):
        model.train()
        train_loss = 0
        for data, _ in train_loader:
            data = data.to(device)
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        losses.append(train_loss / len(train_loader.dataset))
        model.eval()
        with torch.no_grad():
            for data, labels in test_loader:
                recon, mu, logvar = model(data)
                test_loss = loss_function(recon, data, mu, logvar).item() / len(test_loader.dataset)
                assert labels.tolist() == list(range(30, 40))
        scheduler.step(test_loss)
        losses += [test_loss, optimizer.param_groups[0]["lr"]]
    return losses
