"""From sequence to sequence with attention over packed encoders, teacher forcing, a beam search, and CTC beside it."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpad_sequence,
)

PAD, SOS, EOS = 0, 1, 2


class EncoderRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden, padding_idx=PAD, max_norm=2.0)
        self.gru = nn.GRU(hidden, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.ctc = nn.Linear(2 * hidden, vocab)

    def forward(self, input, lengths):
        packed = pack_padded_sequence(self.embedding(input), lengths.cpu(), batch_first=True, enforce_sorted=False)
        assert isinstance(packed, PackedSequence) and packed.sorted_indices is not None
        output, hidden = self.gru(packed)
        output, out_lengths = pad_packed_sequence(output, batch_first=True, padding_value=0.0, total_length=7)
        assert torch.equal(out_lengths, lengths)
        hidden = hidden.view(2, 2, input.size(0), -1).sum(1)
        return output, hidden


class BahdanauAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(hidden, hidden), nn.Linear(2 * hidden, hidden), nn.Linear(hidden, 1)
        self.mix = nn.Bilinear(hidden, 1, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys))).squeeze(2)
        bias = self.mix(query, query.mean(-1, keepdim=True))
        scores = scores.add(bias).masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=torch.float32)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class AttnDecoder(nn.Module):
    def __init__(self, hidden, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.attention = BahdanauAttention(hidden)
        self.cells = nn.ModuleList([nn.GRUCell(3 * hidden, hidden), nn.GRUCell(hidden, hidden)])
        self.out = nn.Linear(hidden, vocab)

    def step(self, token, hidden, keys, mask):
        context, weights = self.attention(hidden[-1], keys, mask)
        x, states = torch.cat((self.embedding(token), context), dim=1), []
        for cell, h in zip(self.cells, hidden, strict=False):
            x = cell(x, h)
            states.append(x)
        return F.log_softmax(self.out(x), dim=-1), torch.stack(states), weights

    def forward(self, keys, hidden, mask, target, forced):
        token = torch.full((keys.size(0),), SOS, dtype=torch.long, device=keys.device)
        outputs, attentions = [], []
        for i in range(target.size(1)):
            logp, hidden, weights = self.step(token, hidden, keys, mask)
            outputs.append(logp)
            attentions.append(weights)
            token = target[:, i] if forced else logp.topk(1).indices.squeeze(-1).detach()
        return torch.stack(outputs, dim=1), torch.stack(attentions, 1)


@torch.no_grad()
def beam_search(decoder, keys, hidden, mask, width=3, length=5):
    beams = [(0.0, [SOS], hidden)]
    for _ in range(length):
        grown = []
        for score, tokens, state in beams:
            if tokens[-1] == EOS:
                grown.append((score, tokens, state))
                continue
            logp, new, _ = decoder.step(torch.tensor([tokens[-1]]), state, keys, mask)
            best = torch.topk(logp[0], width)
            for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=False):
                grown.append((score + value, [*tokens, index], new))
        beams = sorted(grown, key=lambda beam: -beam[0])[:width]
    return beams[0][0], beams[0][1]


def main(fill):
    random.seed(0)
    torch.manual_seed(0)
    vocab, hidden = 12, 8
    encoder, decoder = EncoderRNN(vocab, hidden), AttnDecoder(hidden, vocab)
    fill(encoder)
    fill(decoder)
    with torch.no_grad():
        encoder.embedding.weight[PAD].zero_()
    texts = [[4, 5, 6, 7, 8, 9], [3, 3, 10], [5, 11, 4, 6, 2, 9, 8], [7, 2]]
    source = pad_sequence([torch.tensor(t) for t in texts], batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(t) for t in texts])
    target = pad_sequence([torch.tensor([*reversed(t), EOS]) for t in texts], batch_first=True)
    mask = torch.arange(7).expand(len(texts), 7) < lengths.unsqueeze(1)
    again = unpad_sequence(source, lengths, batch_first=True)
    assert [a.tolist() for a in again] == texts
    packed = pack_sequence([torch.tensor(t).float() for t in texts], enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [4, 4, 3, 2, 2, 2, 1]
    optimizer = optim.Adamax([*encoder.parameters(), *decoder.parameters()], lr=0.02)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=5, pct_start=0.4, three_phase=True)
    criterion = nn.NLLLoss(ignore_index=PAD, weight=torch.linspace(0.5, 1.5, vocab))
    found = []
    for epoch in range(5):
        optimizer.zero_grad()
        keys, state = encoder(source, lengths)
        logp, attention = decoder(keys, state, mask, target, forced=epoch % 2 == 0)
        loss = criterion(logp.flatten(0, 1), target.flatten())
        entropy = -(attention * attention.clamp_min(1e-9).log()).sum(-1).mean()
        aligned = F.ctc_loss(
            encoder.ctc(keys).log_softmax(-1).transpose(0, 1),
            torch.tensor([5, 6, 3, 9, 4, 7]),
            lengths,
            torch.tensor([2, 1, 2, 1]),
            blank=0,
            zero_infinity=True,
        )
        (loss + 0.1 * aligned - 0.01 * entropy).backward()
        norm = nn.utils.clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 5.0, norm_type=2)
        nn.utils.clip_grad_value_(decoder.parameters(), clip_value=0.5)
        optimizer.step()
        scheduler.step()
        found += [loss.item(), aligned.item(), entropy.item(), norm.item(), scheduler.get_last_lr()[0]]
    encoder.eval(), decoder.eval()
    keys, state = encoder(source[:1], lengths[:1])
    score, tokens = beam_search(decoder, keys, state[:, :1], mask[:1])
    return [*found, score, *tokens]
