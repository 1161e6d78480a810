"""A small residual network with batch norm, trained on drawn shapes: bars that stand, lie, or cross."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset


class Bars(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = torch.zeros(3, 16, 16)
        label, at = index % 3, index % 13 + 1
        if label != 1:
            image[index % 2, :, at : at + 2] = 1.0
        if label != 0:
            image[1:, at : at + 2] = 0.5
        return image + 0.05 * torch.sin(torch.arange(16.0) * index), label


def conv3x3(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers=(1, 1), width=8, num_classes=3):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=5, stride=1, padding=2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.stages = nn.ModuleList(
            [self._make_layer(width * 2**i, blocks, stride=1 if i == 0 else 2) for i, blocks in enumerate(layers)]
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, planes, blocks, stride):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        made = [BasicBlock(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        made += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*made)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = stage(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def main(fill):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    model = ResNet().to(device, memory_format=torch.channels_last)
    fill(model)
    loader = DataLoader(Bars(48), batch_size=12, shuffle=False, num_workers=0, pin_memory=False, drop_last=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = CosineAnnealingLR(optimizer, T_max=3 * len(loader))
    losses = []
    for _ in range(3):
        model.train()
        for images, targets in loader:
            images = images.to(device, non_blocking=True).to(memory_format=torch.channels_last)
            targets = targets.to(device, non_blocking=True)
            loss = criterion(model(images), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for images, targets in loader:
            logits = model(images.to(device))
            values, predicted = logits.max(1)
            total += targets.size(0)
            correct += predicted.eq(targets.to(device)).sum().item()
            losses.append(values.mean().item())
    assert total == 48 and math.isfinite(correct)
    losses.append(scheduler.get_last_lr()[0])
    return losses
