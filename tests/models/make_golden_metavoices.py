"""Makes golden_metavoices/metavoice.json with torch: the second network is torch's TransformerEncoder, the first its
attention and norms in Llama's order, with learned positions.

    PYTHONPATH=. python tests/models/make_golden_metavoices.py

The file has the names and shapes of the tensors in both files, logits of a text in a voice and in none, the tokens that
are written greedily with guidance, the codes of all codebooks, and the product of each tensor's gradient with a fixed
vector. The weights are not stored: metavoice_configs.py makes them here and in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from tests.goldens import write_json
from tests.models.metavoice_configs import CONFIGS, ENTRIES, FIRST, PIECES, vector, weights
from tests.models.seeded import direction, rounded, shown

FILE = Path(__file__).parent / "golden_metavoices" / "metavoice.json"
CONFIG = CONFIGS["metavoice"]
GUIDANCE, HEADS, FINER_HEADS, MARGIN = 3.0, 16, 6, 1e-3
# "the oat" by the longest pieces, and the end of the text.
TEXT = [FIRST + id for id in [257, ord(" "), ord("o"), ord("a"), ord("t"), 256 + len(PIECES)]]


def first_shapes() -> dict[str, tuple[int, ...]]:
    size, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        "tok_embeddings.weight": (CONFIG["vocab_size"], size), "output.weight": (CONFIG["vocab_size"], size),
        "pos_embeddings.weight": (CONFIG["max_position_embeddings"], size), "norm.weight": (size,),
        "speaker_cond_pos.weight": (size, CONFIG["speaker_size"]),
    }  # fmt: skip
    for i in range(CONFIG["num_hidden_layers"]):
        found |= {
            f"layers.{i}.attention.wqkv.weight": (3 * size, size), f"layers.{i}.attention.wo.weight": (size, size),
            f"layers.{i}.feed_forward.swiglu.w1.weight": (inner, size),
            f"layers.{i}.feed_forward.swiglu.w3.weight": (inner, size),
            f"layers.{i}.feed_forward.w2.weight": (size, inner),
            f"layers.{i}.attention_norm.weight": (size,), f"layers.{i}.ffn_norm.weight": (size,),
        }  # fmt: skip
    return found


def second_shapes() -> dict[str, tuple[int, ...]]:
    width = CONFIG["finer_size"]
    found: dict[str, tuple[int, ...]] = {
        "transformer.wpe.weight": (CONFIG["finer_positions"], width), "transformer.ln_f.weight": (width,),
        "speaker_cond_pos.weight": (width, CONFIG["speaker_size"]),
        **{f"transformer.wtes.{i}.weight": (count, width) for i, count in enumerate(CONFIG["finer_vocab_sizes"])},
        **{f"lm_heads.{i}.weight": (count, width) for i, count in enumerate(CONFIG["finer_targets"])},
    }  # fmt: skip
    for i in range(CONFIG["finer_layers"]):
        at = f"transformer.h.{i}."
        found |= {
            f"{at}ln_1.weight": (width,), f"{at}ln_2.weight": (width,), f"{at}attn.c_attn.weight": (3 * width, width),
            f"{at}attn.c_proj.weight": (width, width), f"{at}mlp.c_fc.weight": (4 * width, width),
            f"{at}mlp.c_proj.weight": (width, 4 * width),
        }  # fmt: skip
    return found


def first(z: dict[str, Any], ids: Any, voices: Any) -> Any:
    """ids (B, T), voices (B, S) → logits (B, T, V)."""
    size = CONFIG["hidden_size"]
    x = z["tok_embeddings.weight"][ids] + z["pos_embeddings.weight"][: ids.shape[1]]
    x = x + (voices @ z["speaker_cond_pos.weight"].T)[:, None]
    for i in range(CONFIG["num_hidden_layers"]):
        at = f"layers.{i}."
        y = functional.rms_norm(x, (size,), z[f"{at}attention_norm.weight"], 1e-5) @ z[f"{at}attention.wqkv.weight"].T
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in y.chunk(3, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + y @ z[f"{at}attention.wo.weight"].T
        y = functional.rms_norm(x, (size,), z[f"{at}ffn_norm.weight"], 1e-5)
        gate, up = (y @ z[f"{at}feed_forward.swiglu.w{n}.weight"].T for n in (1, 3))
        x = x + (functional.silu(gate) * up) @ z[f"{at}feed_forward.w2.weight"].T
    return functional.rms_norm(x, (size,), z["norm.weight"], 1e-5) @ z["output.weight"].T


def second(z: dict[str, Any], codes: Any, voices: Any) -> list[Any]:
    """codes (B, 2, T), voices (B, S) → scores (B, T, V) of each codebook, by torch's layers."""
    width = CONFIG["finer_size"]
    x = z["transformer.wpe.weight"][: codes.shape[2]] + (voices @ z["speaker_cond_pos.weight"].T)[:, None]
    x = x + sum(z[f"transformer.wtes.{i}.weight"][codes[:, i]] for i in range(codes.shape[1]))
    names = {
        "norm1.weight": "ln_1.weight", "norm2.weight": "ln_2.weight", "self_attn.in_proj_weight": "attn.c_attn.weight",
        "self_attn.out_proj.weight": "attn.c_proj.weight", "linear1.weight": "mlp.c_fc.weight",
        "linear2.weight": "mlp.c_proj.weight",
    }  # fmt: skip
    layer = torch.nn.TransformerEncoderLayer(
        width, FINER_HEADS, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True, bias=False
    )
    for i in range(CONFIG["finer_layers"]):
        own = {name: z[f"transformer.h.{i}.{file}"] for name, file in names.items()}
        x = torch.func.functional_call(layer, own, (x,))
    x = functional.layer_norm(x, (width,), z["transformer.ln_f.weight"])
    return [x @ z[f"lm_heads.{i}.weight"].T for i in range(len(CONFIG["finer_targets"]))]


def golden() -> dict[str, Any]:
    one, two = (
        {name: torch.from_numpy(weights(name, shape)).requires_grad_() for name, shape in shapes.items()}
        for shapes in (first_shapes(), second_shapes())
    )
    voice = torch.from_numpy(vector())
    voices = torch.cat([voice, torch.zeros_like(voice)])
    logits = first(one, torch.tensor([TEXT, TEXT]), voices)
    written: list[int] = []
    with torch.no_grad():
        most = min(CONFIG["max_position_embeddings"] - len(TEXT), 2 * (CONFIG["finer_positions"] - len(TEXT) - 1))
        while len(written) < most:
            spoken, silent = first(one, torch.tensor([TEXT + written] * 2), voices)[:, -1]
            best = (GUIDANCE * spoken + (1 - GUIDANCE) * silent).topk(2)
            assert best.values[0] - best.values[1] > MARGIN
            if int(best.indices[0]) == 2 * ENTRIES:
                break
            written.append(int(best.indices[0]))
    books = [[t for t in written if t < ENTRIES], [t - ENTRIES for t in written if ENTRIES <= t < 2 * ENTRIES]]
    count = min(map(len, books))
    rows = [
        [*(id - ENTRIES for id in TEXT), *books[0][:count]], [*[ENTRIES] * len(TEXT), *books[1][:count]],
    ]  # fmt: skip
    rows = [row + [ENTRIES] * (CONFIG["finer_positions"] - len(row)) for row in rows]
    scores = second(two, torch.tensor([rows]), voice)
    every = rows + [part[0].argmax(1).tolist() for part in scores]
    parts = [logits, *scores]
    sum((part * torch.from_numpy(direction(str(i), tuple(part.shape))).float()).sum()
        for i, part in enumerate(parts)).backward()  # fmt: skip
    return {
        "text": TEXT, "written": written, "codes": [[code for code in row if code < ENTRIES] for row in every],
        "logits": [rounded(shown(part.detach().numpy())) for part in parts],
        **{name: {
            key: [list(value.shape), *rounded([(value.grad.double().numpy() * direction(key, value.shape)).sum()])]
            for key, value in values.items()
        } for name, values in (("first", one), ("second", two))},
    }  # fmt: skip


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    print(write_json(FILE, golden(), separators=(",", ":")))
