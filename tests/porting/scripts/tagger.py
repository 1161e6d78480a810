"""A bidirectional LSTM that tags the words of sentences of different lengths: padding, packing, a collate function."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

SENTENCES = [
    ("the dog ate the apple", "D N V D N"), ("everybody read that book", "N V D N"), ("she sleeps", "N V"),
    ("a bird in the old tree sang a song", "D N P D A N V D N"), ("the old man", "D A N"), ("birds sing", "N V"),
]  # fmt: skip
WORDS = {w: i + 1 for i, w in enumerate(sorted({w for s, _ in SENTENCES for w in s.split()}))}
TAGS = {t: i for i, t in enumerate("DNVPA")}
IGNORED = -100


class Sentences(Dataset):
    def __len__(self):
        return len(SENTENCES)

    def __getitem__(self, i):
        words, tags = SENTENCES[i]
        return torch.tensor([WORDS[w] for w in words.split()]), torch.LongTensor([TAGS[t] for t in tags.split()])


def collate(batch):
    words, tags = zip(*batch, strict=True)
    lengths = torch.tensor([len(w) for w in words])
    return (
        pad_sequence(words, batch_first=True),
        pad_sequence(tags, batch_first=True, padding_value=IGNORED),
        lengths,
    )


class Tagger(nn.Module):
    def __init__(self, vocab_size, tagset_size, embedding_dim=12, hidden_dim=10):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, num_layers=2, bidirectional=True, batch_first=True)
        self.attend = nn.MultiheadAttention(2 * hidden_dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(2 * hidden_dim)
        self.hidden2tag = nn.Linear(2 * hidden_dim, tagset_size)

    def forward(self, words, lengths):
        embedded = self.embedding(words)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_out, (hidden, cell) = self.lstm(packed)
        out, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=words.size(1))
        padding = torch.arange(words.size(1), device=words.device)[None, :] >= lengths[:, None]
        attended, weights = self.attend(out, out, out, key_padding_mask=padding)
        out = self.norm(out + attended)
        return self.hidden2tag(out), hidden, weights


def main(fill):
    torch.manual_seed(3)
    model = Tagger(len(WORDS) + 1, len(TAGS))
    fill(model)
    loader = DataLoader(Sentences(), batch_size=3, collate_fn=collate)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED, weight=torch.tensor([1.0, 1.0, 1.5, 2.0, 2.0]))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    losses = []
    for _epoch in range(4):
        for words, tags, lengths in loader:
            model.zero_grad()
            scores, hidden, weights = model(words, lengths)
            loss = criterion(scores.view(-1, scores.shape[-1]), tags.view(-1))
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            losses += [loss.item(), hidden.abs().mean().item(), weights[0, 0].max().item()]
    model.eval()
    with torch.inference_mode():
        words, tags, lengths = next(iter(loader))
        best = model(words, lengths)[0].argmax(dim=-1)
        mask = tags != IGNORED
        losses.append((best[mask] == tags[mask]).float().mean().item())
    return losses
