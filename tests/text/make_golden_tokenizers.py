"""Writes golden_tokenizers.json: small vocabularies made by sentencepiece, tiktoken and tokenizers, and the ids that
these programs give.

    python -m tests.text.make_golden_tokenizers      # needs sentencepiece, tiktoken, tokenizers and transformers
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("golden_tokenizers.json")
CORPUS = [
    "Once upon a time there was a little girl named Lily. She loved to play outside in the park, didn't she?",
    "The naïve café owner said: I've 3 dogs and 12345 cats! Don't you? Hello world, hello HELLO Hello",
    "def main(): return 1 + 2  # the time of the day in the park by the little river",
] * 4
TEXTS = [
    "Hello world", "  two  spaces ", "", " ", "naïve café DON'T I'll 12345 3.14", "日本語 and 😀 emoji",
    "line\nbreaks\r\n\n  tab\tend", "ﬁne ＡＢＣ café", "don't DIDN'T we'Ve", "HelloWorld fooBar ÉCOLE",
    "x = foo(1,2)//bar",
]  # fmt: skip
NORMALISER = {"ﬁ": "fi", "Ａ": "A", "Ｂ": "B", "Ｃ": "C", "e\u0301": "é", "\t": " ", "\n": " ", "\r": "", "É": "e"}


def sentencepiece(kind: str, **options: Any) -> dict[str, Any]:
    import sentencepiece

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        rules = Path("rules.tsv")  # the model holds its path, which must not be another one each time
        lines = [
            " ".join(f"{ord(sign):X}" for sign in source) + "\t" + " ".join(f"{ord(sign):X}" for sign in target)
            for source, target in NORMALISER.items()
        ]
        rules.write_text("\n".join(lines) + "\n")
        normaliser = {"normalization_rule_tsv": str(rules)} if options.pop("rules", False) else {
            "normalization_rule_name": "identity"
        }  # fmt: skip
        sink = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=sink, model_type=kind, minloglevel=2, **normaliser, **options
        )
    processor = sentencepiece.SentencePieceProcessor(model_proto=sink.getvalue())
    return {"model": base64.b64encode(sink.getvalue()).decode(), "ids": [processor.encode(text) for text in TEXTS]}


def tiktoken() -> dict[str, Any]:
    import tiktoken
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    native = Tokenizer(models.BPE())
    native.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    native.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=360, initial_alphabet=alphabet, show_progress=False)
    )
    byte_of = tiktoken_bytes()
    pieces = sorted(native.get_vocab(), key=native.get_vocab().get)  # type: ignore[arg-type]
    ranks = {bytes(byte_of[sign] for sign in piece): rank for rank, piece in enumerate(pieces)}
    cl100k = (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
        r"\s*[\r\n]|\s+(?!\S)|\s+"
    )
    encoding = tiktoken.Encoding("small", pat_str=cl100k, mergeable_ranks=ranks, special_tokens={"<|end|>": len(ranks)})
    data = b"".join(base64.b64encode(piece) + b" %d\n" % rank for piece, rank in ranks.items())
    merges = [
        merge if isinstance(merge, str) else " ".join(merge) for merge in json.loads(native.to_str())["model"]["merges"]
    ]
    return {
        "file": base64.b64encode(data).decode(), "ids": [encoding.encode(text) for text in TEXTS],
        "merges": "#version: 0.2\n" + "\n".join(merges),
        "special": encoding.encode("a<|end|>b", allowed_special="all"),
    }  # fmt: skip


def tiktoken_bytes() -> dict[str, int]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return {sign: byte for byte, sign in bytes_to_unicode().items()}


def wordpiece() -> dict[str, Any]:
    from transformers import BertTokenizer

    letters = "abcdefghijklmnopqrstuvwxyzé0123456789.,!?'ABCDEFGHIJKLMNOPQRSTUVWXYZ日本語"
    words = ["the", "hello", "Hello", "world", "##ing", "time", "cafe", "naive", "park", "##lo"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{sign}" for sign in letters), *words]
    found: dict[str, Any] = {"vocab": "\n".join(vocabulary) + "\n", "cases": []}
    for settings in ({}, {"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False},
                     {"tokenize_chinese_chars": False}):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "vocab.txt").write_text(found["vocab"])
            (Path(folder) / "tokenizer_config.json").write_text(
                json.dumps({"tokenizer_class": "BertTokenizer", **settings})
            )
            native = BertTokenizer.from_pretrained(folder)
            ids = [native(text)["input_ids"] for text in TEXTS]
            found["cases"].append({"settings": settings, "ids": ids, "pair": native("hello", "the world")["input_ids"]})
    return found


def main() -> None:
    golden = {
        "texts": TEXTS,
        "spm_bpe": sentencepiece("bpe", vocab_size=400, byte_fallback=True, remove_extra_whitespaces=False,
                                 user_defined_symbols=["<think>"]),
        "spm_bpe_plain": sentencepiece("bpe", vocab_size=120, add_dummy_prefix=False, remove_extra_whitespaces=False,
                                       user_defined_symbols=["▁▁"]),
        "spm_unigram": sentencepiece("unigram", vocab_size=80, rules=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
        "tiktoken": tiktoken(),
        "wordpiece": wordpiece(),
    }  # fmt: skip
    OUT.write_text(json.dumps(golden, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
