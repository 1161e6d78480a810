"""Writes golden_sentencepiece_classes.json: the ids that the tokenizer classes of transformers give with nothing but a
sentencepiece model and a tokenizer_config.json.

    python -m tests.text.make_golden_sentencepiece_classes      # needs transformers 4 and sentencepiece

transformers 4 runs sentencepiece itself; the classes of version 5 normalise some texts otherwise than the models say.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.text.make_golden_tokenizers import TEXTS, sentencepiece

OUT = Path(__file__).with_name("golden_sentencepiece_classes.json")
SPECIAL = [
    "a <mask> b", "Hello</s> world", "<pad>the  time", "<s>Hello", "<extra_id_3> park", "en_XX hello", "[MASK] the",
    "<mask_1> the <unk_5>",
]  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "fairseq": {"kind": "unigram", "vocab_size": 80, "rules": True},
    "t5": {"kind": "unigram", "vocab_size": 80, "rules": True, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "llama": {"kind": "bpe", "vocab_size": 360, "byte_fallback": True, "remove_extra_whitespaces": False},
    "gemma": {
        "kind": "bpe", "vocab_size": 360, "byte_fallback": True, "remove_extra_whitespaces": False, "pad_id": 0,
        "add_dummy_prefix": False, "eos_id": 1, "bos_id": 2, "unk_id": 3, "pad_piece": "<pad>", "eos_piece": "<eos>",
        "bos_piece": "<bos>", "user_defined_symbols": ["<start_of_turn>", "<end_of_turn>", "\n\n"],
    },
    "albert": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]"], "user_defined_symbols": ["[MASK]"],
    },
    "barthez": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3,
        "pad_piece": "<pad>",
    },
    "pegasus": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "bos_id": 0, "eos_id": 1, "unk_id": 2,
    },
    "bert_generation": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3,
        "pad_piece": "<pad>", "control_symbols": ["<::::>"],
    },
    "gpt_sw3": {
        "kind": "bpe", "vocab_size": 360, "byte_fallback": True, "remove_extra_whitespaces": False, "pad_id": 0,
        "unk_id": 1, "bos_id": 2, "eos_id": 3, "pad_piece": "<pad>", "eos_piece": "<|endoftext|>",
    },
    "m2m": {"kind": "bpe", "vocab_size": 120, "rules": True},
    "seamless": {"kind": "bpe", "vocab_size": 120, "rules": True},
    "s2t": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3,
        "pad_piece": "<pad>",
        "user_defined_symbols": [f"<lang:{code}>" for code in ("pt", "fr", "ru", "nl", "ro", "it", "es", "de")],
    },
    "deberta": {
        "kind": "unigram", "vocab_size": 80, "rules": True, "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3,
        "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]",
    },
}  # fmt: skip
LISTED = ("m2m", "s2t")  # whose pieces a vocab.json numbers
FILES = {
    "fairseq": "sentencepiece.bpe.model", "t5": "spiece.model", "llama": "tokenizer.model", "gemma": "tokenizer.model",
    "albert": "spiece.model", "barthez": "sentencepiece.bpe.model", "deberta": "spm.model",
    "pegasus": "spiece.model", "bert_generation": "spiece.model", "gpt_sw3": "spiece.model",
    "m2m": "sentencepiece.bpe.model",
    "s2t": "sentencepiece.bpe.model", "seamless": "sentencepiece.bpe.model",
}  # fmt: skip
# The words by which a text says where an entity is, as files list them.
ENTITIES = {str(number): {"content": word, "special": True} for number, word in enumerate(("<ent>", "<ent2>"), 82)}
SEAMLESS_LANGUAGES = {
    str(number): {"content": name, "special": True, "lstrip": False, "rstrip": False, "normalized": False,
                  "single_word": False}
    for number, name in enumerate(("<pad>", "<unk>", "<s>", "</s>"))
} | {
    str(number): {"content": name, "special": True, "lstrip": False, "rstrip": False, "normalized": False,
                  "single_word": False}
    for number, name in enumerate(("__eng__", "__deu__", "__fra__"), 121)
}  # fmt: skip
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("XLMRobertaTokenizer", "fairseq", {}),
    ("CamembertTokenizer", "fairseq", {}),
    ("MBartTokenizer", "fairseq", {}),
    ("MBartTokenizer", "fairseq", {"src_lang": "de_DE", "tgt_lang": "fr_XX"}),
    ("MBart50Tokenizer", "fairseq", {"src_lang": "uk_UA"}),
    ("T5Tokenizer", "t5", {}),
    ("T5Tokenizer", "t5", {"extra_ids": 0, "additional_special_tokens": []}),
    ("LlamaTokenizer", "llama", {}),
    ("LlamaTokenizerFast", "llama", {"legacy": False}),
    ("LlamaTokenizer", "llama", {"add_eos_token": True, "add_bos_token": False}),
    ("GemmaTokenizer", "gemma", {}),
    ("AlbertTokenizer", "albert", {}),
    ("AlbertTokenizer", "albert", {"do_lower_case": False, "keep_accents": True}),
    ("BarthezTokenizer", "barthez", {}),
    ("DebertaV2Tokenizer", "deberta", {}),
    ("DebertaV2Tokenizer", "deberta", {"do_lower_case": True}),
    ("PegasusTokenizer", "pegasus", {}),
    ("MLukeTokenizer", "fairseq", {"added_tokens_decoder": ENTITIES}),
    ("SeamlessM4TTokenizerFast", "seamless", {"src_lang": "deu", "added_tokens_decoder": SEAMLESS_LANGUAGES}),
    ("Speech2TextTokenizer", "s2t", {}),
    ("Speech2TextTokenizer", "s2t", {"lang_codes": "mustc", "tgt_lang": "fr"}),
    ("BertGenerationTokenizer", "bert_generation", {}),
    ("GPTSw3Tokenizer", "gpt_sw3", {}),
    ("PLBartTokenizer", "fairseq", {}),
    ("PLBartTokenizer", "fairseq", {"src_lang": "python", "tgt_lang": "en_XX"}),
    ("PLBartTokenizer", "fairseq", {"language_codes": "multi", "src_lang": "__php__"}),
    ("M2M100Tokenizer", "m2m", {"src_lang": "fr"}),
]


def listed(model: bytes) -> dict[str, int]:
    """A vocab.json of M2M100 or Speech2Text: fairseq's special tokens, and the other pieces in another order."""
    from sentencepiece import SentencePieceProcessor

    known = SentencePieceProcessor(model_proto=model)
    pieces = [known.id_to_piece(i) for i in range(known.unk_id() + 1 if known.unk_id() else 3, known.get_piece_size())]
    first = [piece for piece in pieces if piece.startswith("<lang:")]
    return {
        piece: number
        for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *first, *sorted({*pieces} - {*first})])
    }


def main() -> None:
    import transformers

    assert transformers.__version__.startswith("4.")
    models = {name: base64.b64decode(sentencepiece(**dict(made))["model"]) for name, made in MODELS.items()}
    cases = []
    for kind, name, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, FILES[name]).write_bytes(models[name])
            config = {"tokenizer_class": kind.removesuffix("Fast"), **settings}
            Path(folder, "tokenizer_config.json").write_text(json.dumps(config))
            if name in LISTED:
                Path(folder, "vocab.json").write_text(json.dumps(listed(models[name])))
            if kind == "MLukeTokenizer":
                Path(folder, "entity_vocab.json").write_text(
                    json.dumps({"[UNK]": 0, "[PAD]": 1, "[MASK]": 2, "[MASK2]": 3})
                )
            native = getattr(transformers, kind).from_pretrained(folder)
        given = {"padding": False} if kind.startswith("Seamless") else {}  # which pads to even numbers of tokens
        rows = [native(text, **given)["input_ids"] for text in TEXTS + SPECIAL]
        if settings.get("language_codes") == "multi":  # which has no token for a mask
            rows = [None if "<mask>" in text else row for text, row in zip(TEXTS + SPECIAL, rows, strict=True)]
        pair = native("hello", "the world", **given)["input_ids"]
        cases.append({"class": kind, "model": name, "settings": settings, "ids": rows, "pair": pair,
                      "size": len(native) + len(getattr(native, "lang_token_to_id", []))})  # fmt: skip
    golden = {
        "texts": TEXTS + SPECIAL, "files": FILES, "cases": cases,
        "numbers": {name: listed(models[name]) for name in LISTED},
        "models": {name: base64.b64encode(data).decode() for name, data in models.items()},
    }  # fmt: skip
    OUT.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
