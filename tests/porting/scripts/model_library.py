"""In the manner of a library of models: configurations, outputs that are dicts, saving and loading in pieces, a trainer
with schedules, accumulation and mixed precision, a cache of keys, and the processors of generation."""

import copy
import json
import math
import tempfile
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR


class ModelOutput(OrderedDict):
    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def to_tuple(self):
        return tuple(self.values())


@dataclass
class Seq2SeqOutput(ModelOutput):
    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor = None
    past: tuple | None = None
    hidden_states: tuple | None = None


class Config:
    def __init__(self, **kwargs):
        self.vocab_size, self.hidden_size, self.layers, self.heads, self.kv_heads = 24, 16, 2, 4, 2
        self.rope_theta, self.eps, self.problem_type, self.tie = 100.0, 1e-6, None, True
        self.__dict__.update(kwargs)

    def to_json_string(self):
        return json.dumps(self.__dict__, indent=2, sort_keys=True)


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        kind = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(kind)


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        self.register_buffer(
            "inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)), persistent=False
        )

    @torch.no_grad()
    def forward(self, x, position_ids):
        freqs = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1) @ position_ids[:, None, :].float()
        emb = torch.cat((freqs.transpose(1, 2), freqs.transpose(1, 2)), dim=-1)
        return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)


def repeat_kv(x, n):
    b, h, s, d = x.shape
    return x if n == 1 else x[:, :, None, :, :].expand(b, h, n, s, d).reshape(b, h * n, s, d)


class Cache:
    def __init__(self):
        self.keys, self.values = [], []

    def update(self, k, v, layer):
        if len(self.keys) <= layer:
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], k], dim=-2)
            self.values[layer] = torch.cat([self.values[layer], v], dim=-2)
        return self.keys[layer], self.values[layer]

    def length(self):
        return self.keys[0].shape[-2] if self.keys else 0


class Attention(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        d = config.hidden_size // config.heads
        self.index, self.head_dim, self.groups = index, d, config.heads // config.kv_heads
        self.q_proj = nn.Linear(config.hidden_size, config.heads * d, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(config.hidden_size, config.kv_heads * d, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(config.heads * d, config.hidden_size, bias=False)

    def forward(self, x, cos, sin, mask, cache=None):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)
        if cache is not None:
            k, v = cache.update(k, v, self.index)
        k, v = repeat_kv(k, self.groups), repeat_kv(v, self.groups)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + mask[:, :, :, : k.shape[-2]]
        weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).contiguous().reshape(*x.shape[:-1], -1))


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.self_attn, size = Attention(config, index), config.hidden_size
        self.gate_proj, self.up_proj = (nn.Linear(size, 2 * size, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(2 * size, size, bias=False)
        self.input_norm, self.post_norm = RMSNorm(size, config.eps), RMSNorm(size, config.eps)

    def forward(self, x, cos, sin, mask, cache=None):
        x = x + self.self_attn(self.input_norm(x), cos, sin, mask, cache)
        h = self.post_norm(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(h)) * self.up_proj(h))


class PreTrainedModel(nn.Module):
    config_class = Config
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    @property
    def dtype(self):
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    @property
    def device(self):
        return next(self.parameters()).device

    def num_parameters(self, only_trainable=False):
        return sum(p.numel() for p in self.parameters() if p.requires_grad or not only_trainable)

    def save_pretrained(self, folder, max_shard=6000):
        state, shards, pointers = self.state_dict(), [{}], defaultdict(list)
        for name, tensor in state.items():
            pointers[tensor.data_ptr()].append(name)
        shared = [names for names in pointers.values() if len(names) > 1]
        for name in list(state):
            if any(name in names[1:] for names in shared):
                del state[name]
        for name, tensor in state.items():
            size = sum(t.numel() * t.element_size() for t in shards[-1].values())
            if size and size + tensor.numel() * tensor.element_size() > max_shard:
                shards.append({})
            shards[-1][name] = tensor.contiguous()
        index = {}
        for i, shard in enumerate(shards):
            torch.save(shard, Path(folder) / f"model-{i}.bin")
            index |= dict.fromkeys(shard, f"model-{i}.bin")
        (Path(folder) / "index.json").write_text(json.dumps(index))
        (Path(folder) / "config.json").write_text(self.config.to_json_string())
        return len(shards)

    @classmethod
    def from_pretrained(cls, folder, torch_dtype=None):
        config = cls.config_class(**json.loads((Path(folder) / "config.json").read_text()))
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch_dtype or before)
        with torch.device("meta"):
            model = cls(config)
        torch.set_default_dtype(before)
        index = json.loads((Path(folder) / "index.json").read_text())
        expected, loaded = set(model.state_dict()), set()
        for file in sorted(set(index.values())):
            part = torch.load(Path(folder) / file, map_location="cpu", weights_only=True, mmap=True)
            part = {k: v.to(torch_dtype or v.dtype) for k, v in part.items()}
            model.load_state_dict(part, strict=False, assign=True)
            loaded |= set(part)
        model.tie_weights()
        assert expected - loaded == {"lm_head.weight"}
        for name, buffer in list(model.named_buffers()):
            if buffer.is_meta:
                owner = model.get_submodule(name.rpartition(".")[0])
                fresh = Rotary(config.hidden_size // config.heads, config.rope_theta).inv_freq
                owner.register_buffer(name.rpartition(".")[2], fresh, persistent=False)
        assert not any(p.is_meta for p in model.parameters())
        return model.eval()


class LanguageModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0),
            "layers": nn.ModuleList([Layer(config, i) for i in range(config.layers)]),
            "norm": RMSNorm(config.hidden_size, config.eps),
            "rotary": Rotary(config.hidden_size // config.heads, config.rope_theta),
        })  # fmt: skip
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.score = nn.Linear(config.hidden_size, 3)
        self.gradient_checkpointing = False
        self.tie_weights()

    def tie_weights(self):
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids=None, attention_mask=None, labels=None, cache=None, output_hidden_states=False,
                classify=None, return_dict=True):  # fmt: skip
        x = self.model.embed_tokens(input_ids)
        past = cache.length() if cache is not None else 0
        position_ids = torch.arange(past, past + x.shape[1], device=x.device).unsqueeze(0)
        total = past + x.shape[1]
        low = torch.finfo(x.dtype).min
        mask = torch.full((x.shape[1], total), low, dtype=x.dtype, device=x.device)
        mask = torch.triu(mask, diagonal=1 + past)[None, None].expand(x.shape[0], 1, -1, -1).clone()
        if attention_mask is not None:
            padding = attention_mask[:, None, None, :].to(x.dtype).eq(0.0)
            mask[..., : attention_mask.shape[-1]] = mask.masked_fill(padding, low)
        cos, sin = self.model.rotary(x, position_ids)
        every = (x,)
        for layer in self.model.layers:
            if self.gradient_checkpointing and self.training:
                x = torch.utils.checkpoint.checkpoint(layer.__call__, x, cos, sin, mask, use_reentrant=False)
            else:
                x = layer(x, cos, sin, mask, cache)
            every += (x,)
        x = self.model.norm(x)
        logits, loss = self.lm_head(x), None
        if classify is not None:
            last = input_ids.ne(0).long().sum(-1) - 1
            logits = self.score(x)[torch.arange(len(x)), last]
            problem = self.config.problem_type
            if problem == "regression":
                loss = MSELoss()(logits[:, 0], classify.to(logits.dtype))
            elif problem == "multi_label_classification":
                loss = BCEWithLogitsLoss()(logits, nn.functional.one_hot(classify, 3).to(logits.dtype))
            else:
                loss = CrossEntropyLoss()(logits.view(-1, 3), classify.view(-1))
        elif labels is not None:
            shifted = logits.float()[..., :-1, :].contiguous()
            loss = CrossEntropyLoss()(shifted.view(-1, self.config.vocab_size), labels[..., 1:].contiguous().view(-1))
        if not return_dict:
            return tuple(v for v in (loss, logits) if v is not None)
        return Seq2SeqOutput(loss=loss, logits=logits, hidden_states=every if output_hidden_states else None)

    @torch.inference_mode()
    def generate(self, ids, processors, count):
        cache, step = Cache(), ids
        for _ in range(count):
            scores = self(step, cache=cache).logits[:, -1].float()
            for processor in processors:
                scores = processor(ids, scores)
            step = scores.argmax(-1, keepdim=True)
            ids = torch.cat([ids, step], dim=-1)
        return ids


def repetition(ids, scores, penalty=1.3):
    score = torch.gather(scores, 1, ids)
    return scores.scatter(1, ids, torch.where(score < 0, score * penalty, score / penalty))


def top_p(ids, scores, p=0.8, keep=1):
    ordered, index = torch.sort(scores, descending=False)
    remove = ordered.softmax(dim=-1).cumsum(dim=-1) <= (1 - p)
    remove[..., -keep:] = 0
    return scores.masked_fill(remove.scatter(1, index, remove), -float("inf"))


def no_repeat(ids, scores, size=2):
    scores = scores.clone()
    for row, tokens in enumerate(ids.tolist()):
        seen = defaultdict(list)
        for pair in zip(*[tokens[i:] for i in range(size)], strict=False):
            seen[pair[:-1]].append(pair[-1])
        banned = seen.get(tuple(tokens[-size + 1 :]), [])
        scores[row, banned] = -float("inf")
    return scores


def warm(step, warmup, total):
    if step < warmup:
        return float(step) / float(max(1, warmup))
    return max(0.0, float(total - step) / float(max(1, total - warmup)))


def main(fill):
    model = LanguageModel(Config())
    fill(model)
    assert model.num_parameters() == 24 * 16 + 2 * (2 * 256 + 2 * 128 + 3 * 512 + 32) - 2 * 0 + 16 + 51
    ids = (torch.arange(24).view(3, 8) * 7 % 23) + 1
    ids[1, 5:], ids[2, 7:] = 0, 0
    batch = {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": ids.masked_fill(ids.eq(0), -100)}
    no_decay = ["bias", "norm.weight"]
    groups = [
        {"params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, eps=1e-6, foreach=False)
    scheduler = LambdaLR(optimizer, partial(warm, warmup=1, total=6))
    model.gradient_checkpointing = True
    model.train()
    found = []
    for step in range(6):
        outputs = model(**batch)
        loss = outputs["loss"] / 2 if isinstance(outputs, dict) else outputs[0]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            loss.backward()
        if (step + 1) % 2 == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0, error_if_nonfinite=True)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            found += [outputs.loss.item(), norm.item(), scheduler.get_last_lr()[0]]
    for problem, target in (
        ("regression", [0.5, 1.0, -1.0]),
        ("multi_label_classification", [0, 2, 1]),
        (None, [2, 0, 1]),
    ):
        model.config.problem_type = problem
        found.append(model(ids, classify=torch.tensor(target), return_dict=False)[0].item())
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        pieces = model.save_pretrained(folder)
        again = LanguageModel.from_pretrained(folder)
        half = LanguageModel.from_pretrained(folder, torch_dtype=torch.bfloat16)
    assert again.lm_head.weight is again.model.embed_tokens.weight and half.dtype == torch.bfloat16
    hidden = again(ids, output_hidden_states=True).hidden_states
    short = half(ids).logits.float()
    text = again.generate(ids[:2, :3], [repetition, no_repeat, top_p], 6).clone()
    whole = again(text).logits[:, -1]
    cache = Cache()
    again(text[:, :-1], cache=cache)
    assert torch.allclose(again(text[:, -1:], cache=cache).logits[:, -1], whole, atol=1e-5)
    frozen = copy.deepcopy(again).requires_grad_(False)
    assert DistributedDataParallel.__name__ and frozen.num_parameters(only_trainable=True) == 0
    close = (short - again(ids).logits).abs().max().item() < 0.2
    return [*found, pieces, *(h.norm().item() for h in hidden), float(close), *text[:, 3:].flatten().tolist()]
