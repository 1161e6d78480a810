"""Data and schedules: datasets, samplers, collation, seeds of workers, averaged weights, and fourteen schedules."""

import bisect
import itertools

import numpy as np
import torch
import torch.utils.data as data
from torch import nn, optim
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
)  # fmt: skip
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    get_worker_info,
    random_split,
)  # fmt: skip


class Words(Dataset):
    def __init__(self, count):
        self.items = [{"ids": list(range(1, 2 + i * 5 % 7)), "label": i % 3, "name": f"n{i}"} for i in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __getitems__(self, indices):
        return [self.items[i] for i in indices]


class Stream(IterableDataset):
    def __init__(self, start, stop):
        super().__init__()
        self.start, self.stop = start, stop

    def __iter__(self):
        info = get_worker_info()
        assert info is None
        yield from range(self.start, self.stop)


class ByLength(Sampler):
    def __init__(self, dataset, batch_size, bounds=(2, 4)):
        self.dataset, self.batch_size, self.bounds = dataset, batch_size, bounds

    def __iter__(self):
        buckets = {}
        for i in range(len(self.dataset)):
            bucket = buckets.setdefault(bisect.bisect(self.bounds, len(self.dataset[i]["ids"])), [])
            bucket.append(i)
            if len(bucket) == self.batch_size:
                yield list(bucket)
                bucket.clear()
        yield from (b for b in buckets.values() if b)

    def __len__(self):
        return sum(1 for _ in self)


def collate(batch):
    ids = pad_sequence(
        [torch.as_tensor(b["ids"]) for b in batch], batch_first=True, padding_value=-1, padding_side="left"
    )
    return {"ids": ids, "mask": ids.ne(-1), "label": torch.tensor([b["label"] for b in batch])}


def loaded():
    words = Words(11)
    found = []
    for batch in DataLoader(words, batch_sampler=ByLength(words, 3), collate_fn=collate):
        found += [batch["ids"].sum().item(), batch["mask"].sum().item(), batch["label"].float().mean().item()]
    first = next(iter(DataLoader(Subset(words, [0, 7]), batch_size=2)))
    assert first["name"] == ["n0", "n7"] and isinstance(first["ids"], list) and first["label"].tolist() == [0, 1]
    x = torch.arange(20.0).view(10, 2)
    both = ConcatDataset([TensorDataset(x, x.sum(1)), TensorDataset(-x[:3], x[:3].sum(1))])
    assert both.cumulative_sizes == [10, 13] and both[-1][0].tolist() == [-4.0, -5.0]
    stacked = StackDataset(image=x, text=[str(i) for i in range(10)])
    assert stacked[3]["text"] == "3"
    loader = DataLoader(
        both, batch_size=4, sampler=SequentialSampler(both), drop_last=True, pin_memory=False, num_workers=0
    )
    found += [len(loader), *(b.sum().item() for b, _ in loader), loader.batch_size]
    parts = random_split(both, [0.5, 0.3, 0.2], generator=torch.Generator().manual_seed(3))
    found += [len(p) for p in parts]
    assert sorted(itertools.chain(*(p.indices for p in parts))) == list(range(13))
    drawn = [i for b in DataLoader(range(9), sampler=SubsetRandomSampler([1, 3, 5])) for i in b.tolist()]
    assert sorted(drawn) == [1, 3, 5]
    sampler = RandomSampler(range(5), replacement=True, num_samples=12, generator=torch.Generator().manual_seed(0))
    assert len(list(sampler)) == len(sampler) == 12
    batches = list(BatchSampler(SequentialSampler(range(7)), batch_size=3, drop_last=False))
    stream = DataLoader(ChainDataset([Stream(0, 5), Stream(10, 13)]), batch_size=3)
    found += [b.float().mean().item() for b in stream] + [len(batches), batches[-1][0]]
    weighted = data.WeightedRandomSampler([0.0, 0.0, 1.0], 5, replacement=True)
    assert list(weighted) == [2] * 5
    mixed = default_collate(
        [{"a": np.float64(1.5), "b": (1, "x"), "c": torch.ones(2)}, {"a": 2.5, "b": (2, "y"), "c": x[1]}]
    )
    assert mixed["b"][1] == ("x", "y") or mixed["b"][1] == ["x", "y"]
    assert mixed["a"].dtype == torch.float64
    again = [b.tolist() for _ in range(2) for b in DataLoader(range(6), batch_size=4, shuffle=True,
                                                              generator=torch.Generator().manual_seed(5))]  # fmt: skip
    assert again[:2] == again[2:]
    return [*found, mixed["a"].sum().item(), mixed["c"].sum().item()]


class Warm(LRScheduler):
    def __init__(self, optimizer, warm, last_epoch=-1):
        self.warm = warm
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * min(1.0, (self.last_epoch + 1) / self.warm) ** 0.5 for base in self.base_lrs]


def scheduled():
    found = []
    makers = [
        lambda o: Warm(o, 4), lambda o: MultiStepLR(o, [2, 5], gamma=0.3), lambda o: CosineAnnealingLR(o, 4,
        eta_min=0.01),
        lambda o: CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.01), lambda o: PolynomialLR(o, 5, power=2.0),
        lambda o: ChainedScheduler([ConstantLR(o, 0.5, 2), ExponentialLR(o, 0.8)]),
        lambda o: SequentialLR(o, [LinearLR(o, 0.2, total_iters=3), ExponentialLR(o, 0.7)], milestones=[3]),
        lambda o: MultiplicativeLR(o, lambda e: 0.9 if e % 2 else 1.1),
        lambda o: OneCycleLR(o, 0.4, epochs=2, steps_per_epoch=4, anneal_strategy="linear", base_momentum=0.7),
        lambda o: SWALR(o, swa_lr=0.02, anneal_epochs=3, anneal_strategy="cos"),
    ]  # fmt: skip
    for make in makers:
        w = nn.Parameter(torch.ones(2))
        optimizer = optim.SGD(
            [{"params": [w], "lr": 0.1}, {"params": [nn.Parameter(torch.ones(1))]}], lr=0.2, momentum=0.9
        )
        scheduler = make(optimizer)
        for _ in range(7):
            w.grad = w.detach().clone()
            optimizer.step()
            scheduler.step()
            found.append(scheduler.get_last_lr()[0])
        found += [w[0].item(), optimizer.param_groups[1]["lr"], optimizer.param_groups[0]["momentum"]]
        state = scheduler.state_dict()
        again = make(
            optim.SGD([{"params": [w], "lr": 0.1}, {"params": [nn.Parameter(torch.ones(1))]}], lr=0.2, momentum=0.9)
        )
        again.load_state_dict(state)
        assert again.get_last_lr() == scheduler.get_last_lr()
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    plateau = ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1, threshold=0.1, cooldown=1, min_lr=0.2)
    for metric in (0.5, 0.6, 0.6, 0.55, 0.6, 0.9, 0.9, 0.9, 0.9):
        plateau.step(metric)
        found.append(optimizer.param_groups[0]["lr"])
    return [*found, plateau.num_bad_epochs, plateau.best]


def averaged(fill):
    model = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    fill(model)
    x = torch.sin(torch.arange(24.0)).view(12, 2)
    loader = DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=4)
    swa = AveragedModel(model)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = optim.Adagrad(model.parameters(), lr=0.05, lr_decay=0.01, initial_accumulator_value=0.1)
    hooks = []
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: hooks.append(len(o.state)))
    found = []
    for epoch in range(3):
        for inputs, targets in loader:

            def closure(inputs=inputs, targets=targets):
                optimizer.zero_grad()
                loss = nn.functional.smooth_l1_loss(model(inputs), targets, beta=0.5)
                loss.backward()
                return loss

            found.append(optimizer.step(closure).item())
            ema.update_parameters(model)
        if epoch:
            swa.update_parameters(model)
    handle.remove()
    update_bn(loader, swa)
    swa.eval(), ema.eval()
    with torch.no_grad():
        found += [
            swa(x).sum().item(),
            ema(x).sum().item(),
            swa.module[1].running_mean.sum().item(),
            swa.n_averaged.item(),
        ]
    return [*found, len(hooks)]


def main(fill):
    torch.manual_seed(0)
    return loaded() + scheduled() + averaged(fill)
