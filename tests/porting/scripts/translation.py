"""A transformer that turns sequences round: nn.Transformer with its masks, the schedule of "Attention is all you need",
positions as a buffer, greedy decoding.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import Transformer

PAD, BOS, EOS = 0, 1, 2


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 50):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(-2))

    def forward(self, token_embedding: Tensor):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class Seq2Seq(nn.Module):
    def __init__(self, vocab: int, emb_size: int = 16, nhead: int = 2, norm_first: bool = False):
        super().__init__()
        self.transformer = Transformer(
            d_model=emb_size, nhead=nhead, num_encoder_layers=2, num_decoder_layers=1, dim_feedforward=32, dropout=0.0,
            activation="gelu" if norm_first else "relu", norm_first=norm_first,
        )  # fmt: skip
        self.generator = nn.Linear(emb_size, vocab)
        self.embedding = nn.Embedding(vocab, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size, dropout=0.0)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def embed(self, tokens: Tensor):
        return self.positional_encoding(self.embedding(tokens.long()) * math.sqrt(self.embedding.embedding_dim))

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask):
        outs = self.transformer(
            self.embed(src), self.embed(trg), src_mask, tgt_mask, None, src_padding_mask, tgt_padding_mask,
            memory_key_padding_mask,
        )  # fmt: skip
        return self.generator(outs)

    def encode(self, src, src_mask):
        return self.transformer.encoder(self.embed(src), src_mask)

    def decode(self, tgt, memory, tgt_mask):
        return self.transformer.decoder(self.embed(tgt), memory, tgt_mask)


def create_mask(src, tgt):
    tgt_mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[0])
    src_mask = torch.zeros((src.shape[0], src.shape[0])).type(torch.bool)
    return src_mask, tgt_mask, (src == PAD).transpose(0, 1), (tgt == PAD).transpose(0, 1)


def batches(count):
    for step in range(count):
        rows = [[3 + (7 * step + 5 * i + 3 * j) % 9 for j in range(3 + (step + i) % 4)] for i in range(5)]
        src = [torch.tensor([BOS, *row, EOS]) for row in rows]
        tgt = [torch.tensor([BOS, *row[::-1], EOS]) for row in rows]
        pad = nn.utils.rnn.pad_sequence
        yield pad(src, padding_value=PAD), pad(tgt, padding_value=PAD)


@torch.no_grad()
def greedy_decode(model, src, max_len):
    memory = model.encode(src, torch.zeros(src.shape[0], src.shape[0]).type(torch.bool))
    ys = torch.ones(1, 1).fill_(BOS).type(torch.long)
    for _ in range(max_len - 1):
        mask = (nn.Transformer.generate_square_subsequent_mask(ys.size(0)) != 0).type(torch.bool)
        prob = model.generator(model.decode(ys, memory, mask).transpose(0, 1)[:, -1])
        _, next_word = torch.max(prob, dim=1)
        ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(next_word.item())], dim=0)
    return ys.flatten().tolist()


def main(fill):
    losses = []
    for norm_first in (False, True):
        torch.manual_seed(0)
        model = Seq2Seq(12, norm_first=norm_first)
        fill(model)
        loss_fn = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
        optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
        noam = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 16**-0.5 * min((step + 1) ** -0.5, (step + 1) * 40**-1.5)
        )
        model.train()
        for src, tgt in batches(6):
            tgt_input = tgt[:-1, :]
            src_mask, tgt_mask, src_padding, tgt_padding = create_mask(src, tgt_input)
            logits = model(src, tgt_input, src_mask, tgt_mask, src_padding, tgt_padding, src_padding)
            optimizer.zero_grad()
            loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
            loss.backward()
            optimizer.step()
            noam.step()
            losses += [loss.item(), noam.get_last_lr()[0]]
        model.eval()
        losses += greedy_decode(model, src[:, :1], 6)
    return losses
