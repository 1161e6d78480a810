"""Vocabularies of models that speak, in the form of their files: (vocab.json, tokenizer_config.json, texts)."""

from __future__ import annotations

from typing import Any


def _settings(pad: str, unknown: int, **more: Any) -> dict[str, Any]:
    """A tokenizer_config.json, as the voices of MMS have it."""
    added = {str(number): {"content": token, "special": True} for number, token in ((0, pad), (unknown, "<unk>"))}
    return {
        "add_blank": True, "added_tokens_decoder": added, "is_uroman": False, "language": "eng", "normalize": True,
        "pad_token": pad, "phonemize": False, "unk_token": "<unk>",
    } | more  # fmt: skip


def _numbers(characters: str) -> dict[str, int]:
    return {character: number for number, character in enumerate(characters)}


ENGLISH = _numbers("k'zyuidcebrpqhf-slvnatgxomjw ") | {"<unk>": 29}
ROMANIAN = _numbers("_aăâbcţșț i") | {"<unk>": 11}
PHONEMES = _numbers("_;:,.!?¡ aɑbɐcdeəfɡhiɪjklmnŋoɔpɹsʃtθuʊvwzʒˈˌːANK")
CASES: dict[str, tuple[dict[str, int], dict[str, Any], list[str]]] = {
    "english": (
        ENGLISH, _settings("k", 29),
        ["Hello, my dog is cute.", "Kate kkick", "ka", "k", " a  b ", "It's 5 o'clock & <unk>", "İx <UNK>", "—", "ïa"],
    ),
    "romanian": (ROMANIAN, _settings("_", 11, language="ron"), ["Ți-a bătut", "AȚĂ_bac"]),
    "without-blanks": (ENGLISH, _settings("<pad>", 29, add_blank=False), ["Hello there", "kk"]),
    "no-settings": (ENGLISH, {"phonemize": False}, ["Hello, kate"]),
    "long-tokens": (
        ENGLISH | {"ch": 30, "SH": 31, "h": 13}, _settings("<pad>", 29), ["Church SHore", "shore"],
    ),
    "phonemes": (PHONEMES, _settings("_", len(PHONEMES), phonemize=True), ["həlˈoʊ, wˈɜːld!", "NAK_a"]),
}  # fmt: skip
