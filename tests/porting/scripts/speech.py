"""A recogniser of speech: spectra of given sounds, masks, a conformer with relative positions, CTC with a search over
prefixes, a transducer's loss in the logarithmic domain, edit distances, and an attention decoder with smoothing."""

import math
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def mel_filters(bins, low, high, count, rate):
    to_mel = lambda f: 2595.0 * math.log10(1.0 + f / 700.0)  # noqa: E731
    mels = torch.linspace(to_mel(low), to_mel(high), count + 2)
    hz = 700.0 * (10 ** (mels / 2595.0) - 1.0)
    freqs = torch.linspace(0, rate // 2, bins)
    diff = hz[1:] - hz[:-1]
    slopes = hz.unsqueeze(0) - freqs.unsqueeze(1)
    down, up = (-1.0 * slopes[:, :-2]) / diff[:-1], slopes[:, 2:] / diff[1:]
    return torch.max(torch.zeros(1), torch.min(down, up))


class Frontend(nn.Module):
    def __init__(self, size=64, hop=32, mels=10, rate=800):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hamming_window(size, periodic=True, alpha=0.54, beta=0.46))
        self.register_buffer("filters", mel_filters(size // 2 + 1, 20.0, rate / 2, mels, rate))
        self.mean, self.std = nn.Parameter(torch.zeros(mels), False), nn.Parameter(torch.ones(mels), False)

    @torch.no_grad()
    def forward(self, wave, lengths):
        wave = torch.cat([wave[:, :1], wave[:, 1:] - 0.97 * wave[:, :-1]], 1)
        spec = torch.stft(wave, self.size, self.hop, window=self.window, return_complex=True, onesided=True)
        power = torch.view_as_real(spec).pow(2).sum(-1)
        mel = (power.transpose(1, 2) @ self.filters).clamp(min=1e-6).log()
        lengths = torch.div(lengths, self.hop, rounding_mode="trunc") + 1
        mask = torch.arange(mel.size(1))[None] < lengths[:, None]
        total = mask.sum(1, keepdim=True).unsqueeze(-1)
        mean = (mel * mask.unsqueeze(-1)).sum(1, keepdim=True) / total
        std = (((mel - mean) ** 2 * mask.unsqueeze(-1)).sum(1, keepdim=True) / (total - 1)).sqrt()
        out = ((mel - mean) / (std + 1e-5)).masked_fill(~mask.unsqueeze(-1), 0.0)
        out[:, 3:5, :] = 0
        out[:, :, 6:7] = 0
        return out, lengths


class RelativeAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.pos = nn.Linear(width, width, bias=False)
        self.u, self.w = (nn.Parameter(torch.zeros(heads, self.d)) for _ in range(2))

    def positions(self, n, width):
        at = torch.arange(n - 1, -n, -1.0).unsqueeze(1)
        div = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        table = torch.zeros(2 * n - 1, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(at * div), torch.cos(at * div)
        return table

    def forward(self, x, mask):
        B, N, C = x.shape
        q, k, v = (p(x).view(B, N, self.heads, self.d) for p in (self.q, self.k, self.v))
        p = self.pos(self.positions(N, C)).view(-1, self.heads, self.d)
        content = torch.einsum("bnhd,bmhd->bhnm", q + self.u, k)
        place = torch.einsum("bnhd,mhd->bhnm", q + self.w, p)
        place = F.pad(place, (1, 0)).view(B, self.heads, -1, N)[:, :, 1:].view(B, self.heads, N, 2 * N - 1)[..., :N]
        scores = (content + place) / math.sqrt(self.d)
        weights = scores.masked_fill(~mask[:, None, None, :], -1e4).softmax(-1)
        return self.out(torch.einsum("bhnm,bmhd->bnhd", weights, v).reshape(B, N, C))


class Conformer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ff1, self.ff2 = (
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
            for _ in range(2)
        )
        self.norm, self.attn = nn.LayerNorm(width), RelativeAttention(width, 2)
        self.cn, self.pw1 = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.dw, self.bn = nn.Conv1d(width, width, 5, padding=2, groups=width), nn.BatchNorm1d(width, eps=1e-4)
        self.pw2, self.last = nn.Conv1d(width, width, 1), nn.LayerNorm(width)

    def forward(self, x, mask):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attn(self.norm(x), mask)
        h = F.glu(self.pw1(self.cn(x).transpose(1, 2)), dim=1).masked_fill(~mask[:, None], 0.0)
        x = x + self.pw2(F.silu(self.bn(self.dw(h)))).transpose(1, 2)
        return self.last(x + 0.5 * self.ff2(x))


class Recogniser(nn.Module):
    def __init__(self, vocab=7, width=12):
        super().__init__()
        self.front = Frontend()
        self.sub = nn.Sequential(
            nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, (1, 2), 1, groups=4), nn.ReLU()
        )
        self.proj, self.blocks = nn.Linear(12, width), nn.ModuleList([Conformer(width) for _ in range(1)])
        self.rnn = nn.LSTM(width, width, proj_size=6, bidirectional=True, batch_first=True)
        self.ctc = nn.Linear(width, vocab)
        self.predict, self.cell = (
            nn.Embedding(vocab, width),
            nn.RNN(width, width, nonlinearity="relu", batch_first=True),
        )
        self.joint = nn.Linear(width, vocab)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 24, dropout=0.0, batch_first=True)

    def forward(self, wave, lengths, text):
        x, lengths = self.front(wave, lengths)
        x = self.sub(x.unsqueeze(1))
        x = self.proj(x.permute(0, 2, 1, 3).flatten(2))
        lengths = (lengths + 1) // 2
        mask = torch.arange(x.size(1)).expand(len(x), -1).lt(lengths[:, None])
        for block in self.blocks:
            x = block(x, mask)
        x, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        x, _ = pad_packed_sequence(x, batch_first=True)
        begun = F.pad(text, (1, 0))
        states, _ = self.cell(self.predict(begun))
        joint = self.joint(torch.tanh(x.unsqueeze(2) + states.unsqueeze(1))).log_softmax(-1)
        causal = nn.Transformer.generate_square_subsequent_mask(begun.size(1))
        spoken = self.decoder(self.predict(begun), x, tgt_mask=causal, memory_key_padding_mask=~mask[:, : x.size(1)],
                              tgt_is_causal=True)  # fmt: skip
        return self.ctc(x).log_softmax(-1), joint, self.joint(spoken), lengths


def transducer_loss(joint, text, times, counts):
    """All alignments, by rows of the lattice."""
    blank, losses = joint[..., 0], []
    label = joint[:, :, :-1].gather(3, text[:, None, :, None].expand(-1, joint.size(1), -1, 1)).squeeze(-1)
    for b, (t_end, u_end) in enumerate(zip(times.tolist(), counts.tolist(), strict=False)):
        row = torch.cat([torch.zeros(1), label[b, 0, :u_end].cumsum(0)])
        for t in range(1, t_end):
            below, new = row + blank[b, t - 1, : u_end + 1], []
            for u in range(u_end + 1):
                new.append(below[u] if u == 0 else torch.logaddexp(below[u], new[u - 1] + label[b, t, u - 1]))
            row = torch.stack(new)
        losses.append(-(row[u_end] + blank[b, t_end - 1, u_end]))
    return torch.stack(losses)


def prefixes(logp, width=4):
    beams = {(): (0.0, -math.inf)}
    for row in logp.tolist():
        grown = defaultdict(lambda: (-math.inf, -math.inf))
        add = lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))) if max(a, b) > -math.inf else a  # noqa: E731
        for prefix, (blank, own) in beams.items():
            for token, p in enumerate(row):
                was = grown[prefix]
                if token == 0:
                    grown[prefix] = (add(was[0], add(blank, own) + p), was[1])
                    continue
                longer = (*prefix, token)
                base = blank if prefix and prefix[-1] == token else add(blank, own)
                grown[longer] = (grown[longer][0], add(grown[longer][1], base + p))
                if prefix and prefix[-1] == token:
                    grown[prefix] = (grown[prefix][0], add(grown[prefix][1], own + p))
        beams = dict(sorted(grown.items(), key=lambda item: -add(*item[1]))[:width])
    return next(iter(beams))


def distance(a, b):
    row = torch.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        before, row = row, row.clone()
        row[0] = i
        for j, y in enumerate(b, 1):
            row[j] = torch.min(torch.stack([before[j] + 1, row[j - 1] + 1, before[j - 1] + int(x != y)]))
    return row[-1].item()


def main(fill):
    model = Recogniser()
    fill(nn.ModuleList([m for n, m in model.named_children() if n != "front"]))
    t = torch.arange(480.0) / 800
    wave = torch.stack([torch.sin(2 * math.pi * f * t * (1 + t)) * torch.exp(-t) for f in (50, 90, 140)])
    lengths = torch.tensor([480, 400, 320])
    text, counts = torch.tensor([[3, 1, 4, 5], [2, 6, 0, 0], [5, 5, 1, 0]]), torch.tensor([4, 2, 3])
    names = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.NAdam([p for _, p in names], lr=5e-3, momentum_decay=1e-2)
    found = []
    for _ in range(3):
        ctc, joint, spoken, times = model(wave, lengths, text)
        loss_ctc = F.ctc_loss(ctc.transpose(0, 1), text, times, counts, reduction="sum") / counts.sum()
        loss_rnnt = transducer_loss(joint, text, times, counts).mean()
        target = torch.cat([text, text.new_zeros(3, 1)], 1).masked_fill(torch.arange(5) > counts[:, None], -1)
        loss_text = F.cross_entropy(spoken.mT, target, ignore_index=-1, label_smoothing=0.1)
        optimizer.zero_grad()
        (0.3 * loss_ctc + 0.1 * loss_rnnt + loss_text).backward()
        grads = nn.utils.clip_grad_norm_([p for _, p in names], 5.0)
        optimizer.step()
        found += [loss_ctc.item(), loss_rnnt.item(), loss_text.item(), grads.item()]
    model.eval()
    with torch.no_grad():
        ctc, *_ = model(wave[:1], lengths[:1], text[:1])
    best = prefixes(ctc[0, :6])
    greedy = torch.unique_consecutive(ctc[0].argmax(-1))
    errors = distance(text[0].tolist(), greedy[greedy != 0].tolist())
    return [*found, len(best), *best[:2], errors, ctc.exp().amax().item(), model.front.filters.sum().item()]
