"""Batches of texts and pairs: ids, types, masks, offsets, truncation and padding, as Hugging Face's tokenizers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyapp.errors import FileFormatError, OptionError
from pyapp.text.tokenization.encoding import Encoding
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.text.tokenizer_documents import document, numbered, template

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "</s>", *(f"w{number}" for number in range(20))]
TEMPLATES: dict[str, Any] = {
    "none": None,
    "bert": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "roberta": {
        "type": "RobertaProcessing", "sep": ["</s>", 5], "cls": ["<s>", 4], "trim_offsets": True,
        "add_prefix_space": False,
    },
    "llama": template({"<s>": 4}, "<s> $A", "<s> $A <s>:1 $B:1"),
    "t5": template({"</s>": 5}, "$A </s>", "$A </s> $B </s>"),
}  # fmt: skip


def around(template: Any) -> dict[str, Any]:
    """A tokenizer of words with this post-processor."""
    model = {"type": "WordPiece", "vocab": numbered(WORDS), "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100}  # fmt: skip
    return document(model, numbered(WORDS[:6]), pre_tokenizer={"type": "Whitespace"}, post_processor=template)


def make(name: str, **settings: Any) -> Tokenizer:
    return Tokenizer.from_json(json.dumps(around(TEMPLATES[name])), json.dumps(settings) if settings else None)


TEXTS = ["w1 w2 w3 w4 w5", "w6", "", "w7 w8 w9 zz w11 w12 w13 w14", "  w1   w2 "]
PAIRS = ["w15 w16", "w1 w2 w3 w4 w5 w6 w7", "w3", "w9 w8 w7 w6 w5 w4", "w2"]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("pair", [False, True])
def test_as_the_library(name: str, pair: bool) -> None:
    library = pytest.importorskip("tokenizers")
    native, ours = library.Tokenizer.from_str(json.dumps(around(TEMPLATES[name]))), make(name)
    inputs = list(zip(TEXTS, PAIRS, strict=True)) if pair else TEXTS
    pairs = PAIRS if pair else None
    for rule, limit, side in [(None, 0, "right"), *((rule, limit, side) for rule in ("longest_first", "only_first")
                              for limit in (6, 7, 9, 30) for side in ("left", "right"))]:  # fmt: skip
        native.no_truncation()
        if rule:
            native.enable_truncation(limit, strategy=rule, direction=side)
        for padding, multiple, pad_side in [
            (False, None, "right"),
            ("longest", None, "left"),
            ("max_length", 4, "right"),
        ]:
            native.no_padding()
            if padding:
                native.enable_padding(
                    direction=pad_side, pad_id=0, pad_token="[PAD]", pad_to_multiple_of=multiple,
                    length=30 if padding == "max_length" and not rule else limit if padding == "max_length" else None,
                )  # fmt: skip
            options: dict[str, Any] = {"padding": padding, "pad_to_multiple_of": multiple, "padding_side": pad_side}
            if rule:
                options |= {"truncation": rule, "truncation_side": side, "max_length": limit}
            elif padding == "max_length":
                options["max_length"] = 30
            try:
                expected = native.encode_batch(inputs)
            except Exception:  # only_first cannot shorten the second text
                with pytest.raises(OptionError, match="cannot remove"):
                    ours.encode_batch(TEXTS, pairs, **options)
                continue
            got = ours.encode_batch(TEXTS, pairs, offsets=True, **options)
            for one, other in zip(got, expected, strict=True):
                assert one.ids == other.ids and one.type_ids == other.type_ids
                assert one.attention_mask == other.attention_mask
                assert one.offsets == other.offsets
                kept = [(mine, theirs) for mine, theirs, mask in zip(one.texts, other.sequence_ids, one.attention_mask,
                                                                     strict=True) if mask]  # fmt: skip
                assert all(mine == theirs for mine, theirs in kept)


def test_one_text_and_several() -> None:
    """Without the native library: the page has another one."""
    ours = make("bert", model_max_length=6, padding_side="left")
    one = ours("w1 w2", "w3")
    assert isinstance(one, Encoding)
    assert (one.ids, one.type_ids, one.texts) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1], [None, 0, 0, None, 1, None])
    assert ours.encode("w1 w2", "w3") == one.ids and one.offsets is None
    several = ours(["w1", "w2 w3 w4 w5 w6 w7"], padding=True, truncation=True)
    assert several.ids == [[0, 0, 0, 2, 7, 3], [2, 8, 9, 10, 11, 3]]
    assert several.attention_mask == [[0, 0, 0, 1, 1, 1], [1] * 6]
    assert len(several) == 2 and several[0].ids == several.ids[0] and several.offsets is None
    assert ours(["w1"], add_special_tokens=False, padding="max_length").ids == [[0, 0, 0, 0, 0, 7]]
    assert ours([]).ids == []
    left = ours("w2 w3 w4 w5 w6 w7", truncation="only_first", max_length=4, truncation_side="left")
    assert left.ids == [2, 12, 13, 3]


def test_settings_change_the_template() -> None:
    plain = make("llama", add_bos_token=False, bos_token="<s>", eos_token="</s>")
    assert plain("w1", "w2").ids == [7, 8] and not plain.adds_bos
    both = make("llama", add_bos_token=True, add_eos_token=True, bos_token="<s>", eos_token="</s>")
    assert both("w1").ids == [4, 7, 5]
    assert both("w1", "w2").ids == [4, 7, 5, 4, 8, 5] and both("w1", "w2").type_ids == [0, 0, 0, 1, 1, 1]
    front = make("none", add_bos_token=True, bos_token="<s>")
    assert front("w1", "w2").ids == [4, 7, 4, 8]
    assert make("bert", pad_token="</s>").pad_id == 5 and make("bert").pad_id == 0


def test_wrong_options() -> None:
    ours = make("bert")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"truncation": True}, "Give max_length"),
        ({"padding": "max_length"}, "Give max_length"),
        ({"padding": "widest"}, "'longest', 'max_length'"),
        ({"truncation": "first"}, "'only_first'"),
        ({"truncation": True, "max_length": 1}, "2 special tokens"),
        ({"truncation": "only_second", "max_length": 3}, "needs a pair"),
        ({"max_length": -1}, "from 1 to"),
        ({"padding": True, "pad_to_multiple_of": 0}, "from 1 to"),
        ({"padding_side": "up"}, "'left', 'right'"),
    ]
    for options, message in cases:
        with pytest.raises(OptionError, match=message):
            ours("w1 w2 w3 w4", **options)
    with pytest.raises(OptionError, match="2 texts and 1 pairs"):
        ours.encode_batch(["w1", "w2"], ["w3"])
    with pytest.raises(TypeError, match="sequence"):
        ours(["w1"], "w2")
    ours.pad_id = None
    with pytest.raises(OptionError, match="no padding token"):
        ours(["w1"], padding=True)
    two = {"type": "Sequence", "processors": [TEMPLATES["bert"], TEMPLATES["llama"]]}
    with pytest.raises(FileFormatError, match="two of its steps"):
        Tokenizer.from_json(json.dumps(around(two)))


def test_names_of_special_tokens_in_a_text() -> None:
    ours = make("llama", eos_token="</s>")
    assert ours.encode("w1 </s> w2") == [4, 7, 5, 8]
    unknown = 1
    assert ours.encode("w1 </s> w2", parse_special=False) == [4, 7, unknown, unknown, unknown, 8]
    assert ours("w1 </s> w2", parse_special=False).ids == [4, 7, unknown, unknown, unknown, 8]
    user = ours.guard("w1 </s> w2 \ufdd0 <</s>s>")
    ids = ours.encode_guarded(f"<s>{user}</s>")
    assert ids[0] == 4 and ids[-1] == 5 and 4 not in ids[1:] and 5 not in ids[:-1]
    assert ours.encode_guarded(f"<s>{ours.guard('w1 w2')}</s>") == [4, 7, 8, 5]
    with pytest.raises(AttributeError):
        ours.special_names.add("x")  # type: ignore[attr-defined]


def test_saved(tmp_path: Any) -> None:
    make("bert").save(tmp_path / "tokenizer.json")
    again = Tokenizer.from_json((tmp_path / "tokenizer.json").read_bytes())
    assert again("w1", "w2").ids == make("bert")("w1", "w2").ids
