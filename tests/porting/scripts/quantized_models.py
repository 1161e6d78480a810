"""Quantisation of a trained model, static and dynamic, and training that is aware of it."""

import copy

import numpy as np
import torch
import torch.nn as nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub,
    HistogramObserver,
    QuantStub,
    convert,
    fuse_modules,
    fuse_modules_qat,
    get_default_qat_qconfig,
    get_default_qconfig,
    prepare,
    prepare_qat,
    quantize_dynamic,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant, self.sum = QuantStub(), DeQuantStub(), FloatFunctional()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1, groups=2), nn.BatchNorm2d(6)
        self.relu, self.act, self.pool = nn.ReLU(), nn.Hardswish(), nn.MaxPool2d(2)
        self.linear, self.gate = nn.Linear(24, 3), nn.Sigmoid()

    def forward(self, x):
        first = self.relu(self.bn1(self.conv1(self.quant(x))))
        x = self.act(self.sum.add(first, self.bn2(self.conv2(first))))
        return self.dequant(self.gate(self.linear(self.pool(x).flatten(1))))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm = nn.Embedding(10, 8), nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.gru, self.linear = nn.GRU(12, 5), nn.Linear(5, 2)

    def forward(self, tokens):
        return self.linear(self.gru(self.lstm(self.table(tokens))[0])[0])


FUSED = [["conv1", "bn1", "relu"], ["conv2", "bn2"]]


def main(fill):
    random = np.random.RandomState(0)
    x = [torch.from_numpy(random.randn(4, 3, 4, 4).astype(np.float32)) for _ in range(3)]
    numbers = []
    net = Net()
    fill(net)
    fused = fuse_modules(net.eval(), FUSED)
    for backend in ("fbgemm", "qnnpack"):
        fused.qconfig = get_default_qconfig(backend)
        prepared = prepare(fused)
        with torch.no_grad():
            for batch in x:
                prepared(batch)
            model = convert(prepared)
            numbers += [*model(x[0]).flatten().tolist(), model.sum.scale, model.sum.zero_point, model.conv1.scale]
    numbers += model.linear.weight().int_repr()[0, :4].tolist()
    net.train().qconfig = get_default_qat_qconfig("fbgemm")
    trained = prepare_qat(fuse_modules_qat(net, FUSED))
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05)
    for batch in x:
        loss = (trained(batch) - 0.3).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers.append(loss.item())
    copied = copy.deepcopy(trained)
    copied.load_state_dict(trained.state_dict())
    numbers += convert(copied.eval())(x[0])[0].tolist()
    reader = Reader()
    fill(reader)
    with torch.no_grad():
        numbers += quantize_dynamic(reader, dtype=torch.qint8)(torch.arange(12).reshape(3, 4) % 10)[0, 0].tolist()
    steps = torch.quantize_per_tensor(x[0], 0.1, 10, torch.quint8)
    numbers += [steps.q_scale(), float(steps.dequantize().sum()), int(steps.int_repr().sum())]
    observer = HistogramObserver(qscheme=torch.per_tensor_symmetric, dtype=torch.qint8)
    for batch in x:
        observer(batch * batch)
    return numbers + [float(value) for value in observer.calculate_qparams()]
