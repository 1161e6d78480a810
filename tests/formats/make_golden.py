"""Makes tests/formats/golden: small files written by torch, safetensors and sentencepiece.

Run it from the repository's root with the `oracle` extra and sentencepiece installed: python
tests/formats/make_golden.py

The llama2.c files are packed here a second time, value by value from the description in pyapp/formats/llama2c.py, with
torch doing the rounding, so that a mistake in the package's reader or writer cannot cancel itself out.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file

from tests.goldens import write_json

GOLDEN = Path(__file__).parent / "golden"
SMALL = {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 20, "max_seq_len": 8}
GROUPED = {
    "dim": 32,
    "hidden_dim": 48,
    "n_layers": 2,
    "n_heads": 2,
    "n_kv_heads": 1,
    "vocab_size": 24,
    "max_seq_len": 8,
}
SHORT = {"dim": 24, "hidden_dim": 40, "n_layers": 1, "n_heads": 3, "n_kv_heads": 3, "vocab_size": 20, "max_seq_len": 8}


def random_weights(config: dict[str, int], tied: bool, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    dim, hidden, kv = config["dim"], config["hidden_dim"], config["dim"] // config["n_heads"] * config["n_kv_heads"]
    shapes: dict[str, tuple[int, ...]] = {"tok_embeddings.weight": (config["vocab_size"], dim), "norm.weight": (dim,)}
    for layer in range(config["n_layers"]):
        for name, shape in {
            "attention.wq": (dim, dim), "attention.wk": (kv, dim),
            "attention.wv": (kv, dim), "attention.wo": (dim, dim),
            "feed_forward.w1": (hidden, dim), "feed_forward.w2": (dim, hidden), "feed_forward.w3": (hidden, dim),
            "attention_norm": (dim,), "ffn_norm": (dim,),
        }.items():  # fmt: skip
            shapes[f"layers.{layer}.{name}.weight"] = shape
    if not tied:
        shapes["output.weight"] = (config["vocab_size"], dim)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def of_layers(weights: dict[str, torch.Tensor], kind: str) -> list[str]:
    return sorted(name for name in weights if name.endswith(f".{kind}.weight") and name.startswith("layers."))


def pack_v0(config: dict[str, int], weights: dict[str, torch.Tensor]) -> bytes:
    tied = "output.weight" not in weights
    out = io.BytesIO()
    fields = list(config.values())
    out.write(struct.pack("<7i", *fields[:5], fields[5] if tied else -fields[5], fields[6]))
    order = ["tok_embeddings.weight"]
    for kind in "attention_norm attention.wq attention.wk attention.wv attention.wo ffn_norm feed_forward.w1 feed_forward.w2 feed_forward.w3".split():  # noqa: E501
        order += of_layers(weights, kind)
    for name in [*order, "norm.weight"]:
        out.write(weights[name].numpy().tobytes())
    head_dim = config["dim"] // config["n_heads"]
    angles = torch.outer(
        torch.arange(config["max_seq_len"]).float(), 1.0 / 10000.0 ** (torch.arange(0, head_dim, 2).float() / head_dim)
    )
    out.write(angles.cos().numpy().tobytes() + angles.sin().numpy().tobytes())
    if not tied:
        out.write(weights["output.weight"].numpy().tobytes())
    return out.getvalue()


def pack_v1_or_v2(
    config: dict[str, int], weights: dict[str, torch.Tensor], group: int
) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The file, and the weights as a reader must see them. group 0: version 1."""
    tied = "output.weight" not in weights
    out = io.BytesIO()
    out.write(b"24ka" + struct.pack("<i7iB", 2 if group else 1, *config.values(), tied))
    out.write(struct.pack("<i", group) if group else b"")
    out.write(bytes(256 - out.tell()))
    expected = dict(weights)
    for name in [*of_layers(weights, "attention_norm"), *of_layers(weights, "ffn_norm"), "norm.weight"]:
        out.write(weights[name].numpy().tobytes())
    order = ["tok_embeddings.weight"]
    for (
        kind
    ) in "attention.wq attention.wk attention.wv attention.wo feed_forward.w1 feed_forward.w2 feed_forward.w3".split():
        order += of_layers(weights, kind)
    for name in order if tied else [*order, "output.weight"]:
        if not group:
            out.write(weights[name].numpy().tobytes())
            continue
        rows = weights[name].reshape(-1, group)
        scale = rows.abs().max(dim=1).values / 127.0
        quants = torch.round(rows / scale[:, None]).to(torch.int8)
        out.write(quants.numpy().tobytes() + scale.numpy().tobytes())
        expected[name] = (quants.float() * scale[:, None]).reshape(weights[name].shape)
    return out.getvalue(), expected


def make_llama2c() -> None:
    untied = random_weights(SMALL, tied=False, seed=0)
    (GOLDEN / "v0_untied.bin").write_bytes(pack_v0(SMALL, untied))
    save_file(untied, GOLDEN / "v0_untied.safetensors")
    tied = random_weights(SMALL, tied=True, seed=1)
    (GOLDEN / "v0_tied.bin").write_bytes(pack_v0(SMALL, tied))
    (GOLDEN / "v1_tied.bin").write_bytes(pack_v1_or_v2(SMALL, tied, 0)[0])
    save_file(tied, GOLDEN / "v1_tied.safetensors")
    for name, config, group, is_tied in (("v2_straddling", GROUPED, 32, False), ("v2_short_groups", SHORT, 8, True)):
        weights = random_weights(config, is_tied, seed=group)
        data, expected = pack_v1_or_v2(config, weights, group)
        (GOLDEN / f"{name}.bin").write_bytes(data)
        save_file(weights, GOLDEN / f"{name}.original.safetensors")
        save_file(expected, GOLDEN / f"{name}.safetensors")


def make_safetensors() -> None:
    """One tensor of each type that the library writes, among them a scalar and an empty one."""
    names = (
        "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    )
    raw = torch.arange(48, dtype=torch.uint8)
    tensors = {name: raw.clone().view(getattr(torch, name)) for name in names.split() if name != "bool"}
    tensors["bool"] = raw % 2 == 0
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    tensors["matrix é"] = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    save_file(tensors, GOLDEN / "all_types.safetensors", metadata={"format": "pt"})


def make_tokenizer() -> None:
    text = "Once upon a time there was a little girl named Lily. She loved to play outside in the park. é ñ 日本 \n"
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text] * 20), model_writer=model, vocab_size=320, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", minloglevel=2, num_threads=1,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    pieces[processor.bos_id()], pieces[processor.eos_id()] = "\n<s>\n", "\n</s>\n"
    pieces = [piece.replace("\u2581", " ") for piece in pieces]
    scores = [processor.get_score(i) for i in range(len(pieces))]
    longest = max(len(piece.encode()) for piece in pieces)
    records = (struct.pack("<fi", score, len(p.encode())) + p.encode() for p, score in zip(pieces, scores, strict=True))
    (GOLDEN / "tokenizer.bin").write_bytes(struct.pack("<i", longest) + b"".join(records))
    write_json(GOLDEN / "tokenizer.expected.json", {"pieces": pieces, "scores": scores})


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    make_llama2c()
    make_safetensors()
    make_tokenizer()
    for path in sorted(GOLDEN.iterdir()):
        print(f"{path.stat().st_size:8,}  {path.name}")
