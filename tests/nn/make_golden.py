"""Makes golden.npz: results of torch's optimisers, gradient clipping and schedules. Run with the extra `oracle`:

python -m tests.nn.make_golden
"""

from pathlib import Path

import numpy as np
import torch

from tests.goldens import write_npz
from tests.nn.cases import OPTIMIZERS, SHAPES, STEPS, TOTAL, WARMUP, gradient, start

golden: dict[str, np.ndarray] = {}
for name, (kind, settings) in OPTIMIZERS.items():
    parameters = [torch.nn.Parameter(torch.from_numpy(start(i))) for i in range(len(SHAPES))]
    optimizer = getattr(torch.optim, kind)(parameters, **settings)
    for step in range(STEPS):
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.from_numpy(gradient(i, step))
        optimizer.step()
        for i, parameter in enumerate(parameters):
            golden[f"{name}/{step}/{i}"] = parameter.detach().numpy().copy()

for norm_type in (2.0, 1.0, float("inf")):
    parameters = [torch.nn.Parameter(torch.from_numpy(start(i))) for i in range(len(SHAPES))]
    for i, parameter in enumerate(parameters):
        parameter.grad = torch.from_numpy(gradient(i, 0))
    total = torch.nn.utils.clip_grad_norm_(parameters, 0.5, norm_type)
    golden[f"clip/{norm_type}/total"] = np.float64(total.item())
    for i, parameter in enumerate(parameters):
        golden[f"clip/{norm_type}/{i}"] = parameter.grad.numpy().copy()

schedulers = torch.optim.lr_scheduler
for name in ("cosine", "linear"):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    rise = schedulers.LinearLR(optimizer, 1 / WARMUP, 1.0, WARMUP - 1)
    if name == "cosine":
        fall = schedulers.CosineAnnealingLR(optimizer, TOTAL - WARMUP, eta_min=0.3 * 0.1)
    else:
        fall = schedulers.LinearLR(optimizer, 1.0, 0.1, TOTAL - WARMUP)
    schedule = schedulers.SequentialLR(optimizer, [rise, fall], [WARMUP])
    rates = []
    for _ in range(TOTAL):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    golden[f"schedule/{name}"] = np.array(rates)

write_npz(Path(__file__).with_name("golden.npz"), golden)
