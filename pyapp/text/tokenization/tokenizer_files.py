"""A tokenizer from the files of a model: whichever of the usual forms a folder has.

`load_tokenizer` reads tokenizer.json, sentencepiece's .model, vocab.json with merges.txt, BERT's vocab.txt,
.tiktoken, Mistral's tekken.json, RWKV's rwkv_vocab_v20230424.txt, the metadata of a GGUF file and llama2.c's
tokenizer.bin (ByT5's, CANINE's and Perceiver's have no file), with the settings beside them: tokenizer_config.json,
special_tokens_map.json, added_tokens.json, chat_template.jinja, generation_config.json, and config.json for the
tokenizer's class where the others do not name it. What makes a tokenizer.json of other forms is imported when a file
has one: the page's first story and transcript do without.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.opening import sniff
from pyapp.formats.source import ByteSource, close_source, looks_like_text, open_source, read_whole
from pyapp.formats.tokenizer_bin import read_tokenizer_bin
from pyapp.text.tokenization.tokenizer import Tokenizer, read_json, read_utf8

TokenizerSource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ByteSource"

# Files that describe the tokenizer of a folder, besides its vocabulary.
SETTINGS = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json", "generation_config.json", "config.json",
)  # fmt: skip
# Vocabularies in the order in which they are preferred.
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model",
    "vocab.json", "vocab-src.json", "vocab.txt", "rwkv_vocab_v20230424.txt", "tekken.json", "tokenizer.bin",
)  # fmt: skip
# The classes of models' tokenizers that are read by their class, by model_type.
CLASSES = {
    "xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer", "mbart": "MBartTokenizer",
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "switch_transformers"), "T5Tokenizer"),
    "m2m_100": "M2M100Tokenizer", "plbart": "PLBartTokenizer",
    **dict.fromkeys(("pegasus", "bigbird_pegasus", "pegasus_x"), "PegasusTokenizer"),
    "llama": "LlamaTokenizer", "mistral": "LlamaTokenizer", "mixtral": "LlamaTokenizer",
    "gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer", "gemma3": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer", "roberta": "RobertaTokenizer", "bert-generation": "BertGenerationTokenizer",
    "roberta-prelayernorm": "RobertaTokenizer", "bart": "BartTokenizer",
    "mpnet": "MPNetTokenizer", "clip": "CLIPTokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer",
    "blenderbot-small": "BlenderbotSmallTokenizer", "ctrl": "CTRLTokenizer", "xlm": "XLMTokenizer",
    "flaubert": "FlaubertTokenizer",
    "canine": "CanineTokenizer", "perceiver": "PerceiverTokenizer",
    "speech_to_text": "Speech2TextTokenizer", "seamless_m4t_v2": "SeamlessM4TTokenizer",
    "seamless_m4t": "SeamlessM4TTokenizer",
    "qwen2_moe": "Qwen2Tokenizer", "qwen3_moe": "Qwen2Tokenizer",
}  # fmt: skip
OF_WORDS = ("BlenderbotSmallTokenizer", "CTRLTokenizer")  # whose pieces say that a word goes on
OF_MOSES = ("XLMTokenizer", "FlaubertTokenizer")  # whose words are those of Moses
ENDINGS = (".tiktoken", ".gguf", ".model")
HINT = "Give tokenizer.json, tokenizer.model, vocab.json with merges.txt, vocab.txt, a .tiktoken or a .gguf file"
MERGES = "merges.txt"
TARGET = "vocab-tgt.json"  # of the language that is written, beside vocab-src.json
HEAD = 64


def load_tokenizer(files: TokenizerSource | Mapping[str, TokenizerSource], name: str | None = None) -> Tokenizer:
    """The tokenizer of a model's folder, of one of its files (path, bytes or ByteSource, recognised by content), or of
    a mapping of file names to such sources.

    Settings beside a path are used. `name` is the name of a file given as bytes. Raises FileNotFoundError,
    FileFormatError for a damaged or foreign file, ModelError for an unsupported tokenizer.
    """
    if isinstance(files, Mapping):
        found: dict[str, TokenizerSource] = dict(files)
        where = name or "tokenizer"
    elif isinstance(files, str | os.PathLike):
        if not os.fspath(files):  # Path would make the present folder of it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
        found = dict(beside(Path(files)))
        where = os.fspath(files)
    else:
        found = {name or Path(str(getattr(files, "name", "tokenizer"))).name: files}
        where = name or str(getattr(files, "name", "tokenizer"))
    with ExitStack() as stack:
        return _load(_opened(found, stack), where)


def _opened(files: Mapping[str, TokenizerSource], stack: ExitStack) -> dict[str, ByteSource]:
    """The files, which `stack` closes."""
    opened: dict[str, ByteSource] = {}
    for key, source in files.items():
        opened[key] = open_source(source)
        if opened[key] is not source:
            stack.callback(close_source, opened[key])
    return opened


def needs_no_vocabulary(files: Mapping[str, TokenizerSource]) -> bool:
    """Whether the settings among these files name a tokenizer that needs no vocabulary."""
    with ExitStack() as stack:
        settings = _settings(_opened({key: file for key, file in files.items() if key in SETTINGS}, stack))[0]
    return settings.get("tokenizer_class") in WITHOUT_VOCABULARY


def beside(path: Path) -> dict[str, Path]:
    """The files of a tokenizer: those of a folder, or `path` and the settings beside it."""
    if path.is_dir():
        names = [*VOCABULARIES, TARGET, MERGES, *SETTINGS]
        found = {entry: path / entry for entry in names if (path / entry).is_file()}
        if not any(entry in found for entry in VOCABULARIES):
            others = sorted(entry for entry in path.iterdir() if entry.suffix in ENDINGS and entry.is_file())
            found |= {entry.name: entry for entry in others[:1]}
        return found
    more = [*SETTINGS, MERGES, TARGET] if path.suffix in (".json", ".txt", ".model", ".tiktoken") else []
    return {entry: path.with_name(entry) for entry in more if path.with_name(entry).is_file()} | {path.name: path}


def _load(files: Mapping[str, ByteSource], where: str) -> Tokenizer:
    plain = [key for key in files if key not in SETTINGS and key not in (MERGES, TARGET)]
    order = [key for key in VOCABULARIES if key in plain] + [key for key in plain if key not in VOCABULARIES]
    settings, ends = _settings(files)
    if not order and (made := WITHOUT_VOCABULARY.get(str(settings.get("tokenizer_class")))) is not None:
        return made(settings, ends, where)
    if not order:
        what = f"there is no vocabulary beside {', '.join(sorted(files))}" if files else "there is no tokenizer"
        raise ModelError(what, where=where, hint=HINT)
    return _read(order[0], files[order[0]], files, settings, ends)


def _of_bytes(settings: dict[str, Any], ends: list[int], where: str) -> Tokenizer:
    from pyapp.text.tokenization.byte_vocabulary import byte_document

    return Tokenizer(byte_document(settings, where), settings, end_ids=ends, where=where)


def _of_perceiver(settings: dict[str, Any], ends: list[int], where: str) -> Tokenizer:
    from pyapp.text.tokenization.byte_vocabulary import PERCEIVER, perceiver_document

    named = {f"{name.strip('[]').lower()}_token": name for name in PERCEIVER}
    return Tokenizer(perceiver_document(), {**named, **settings}, end_ids=ends, where=where)


def _of_characters(settings: dict[str, Any], ends: list[int], where: str) -> Tokenizer:
    from pyapp.text.tokenization.characters import CharacterTokenizer

    return CharacterTokenizer(settings, ends, where)


# By the class: what makes the tokenizers that have no vocabulary.
WITHOUT_VOCABULARY = {
    "ByT5Tokenizer": _of_bytes, "CanineTokenizer": _of_characters, "PerceiverTokenizer": _of_perceiver,
}  # fmt: skip


def _json(files: Mapping[str, ByteSource], key: str) -> dict[str, Any]:
    return read_json(read_whole(files[key]), files[key].name) if key in files else {}


def _settings(files: Mapping[str, ByteSource]) -> tuple[dict[str, Any], list[int]]:
    """tokenizer_config.json with what the other files add, and the ids in generation_config.json that end a text."""
    settings = _json(files, "special_tokens_map.json") | _json(files, "tokenizer_config.json")
    added = settings.get("added_tokens_decoder")
    added = dict(added) if isinstance(added, Mapping) else {}
    for content, number in _json(files, "added_tokens.json").items():
        if type(number) is int:
            added.setdefault(str(number), {"content": content, "special": False})
    if added:
        settings["added_tokens_decoder"] = added
    if "chat_template.jinja" in files:
        source = files["chat_template.jinja"]
        settings["chat_template"] = read_utf8(read_whole(source), source.name)
    elif isinstance(chat := _json(files, "chat_template.json").get("chat_template"), str):
        settings["chat_template"] = chat
    if not isinstance(settings.get("tokenizer_class"), str):
        settings |= _class_of(_json(files, "config.json"))
    ends = _json(files, "generation_config.json").get("eos_token_id")
    numbers = ends if isinstance(ends, list) else [ends]
    return settings, [number for number in numbers if type(number) is int]


def _class_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The tokenizer's class that a model's config.json names, or that models of its kind have."""
    named, kind, first = config.get("tokenizer_class"), config.get("model_type"), config.get("encoder")
    kind = first.get("model_type") if kind == "encoder-decoder" and isinstance(first, dict) else kind
    found = named if isinstance(named, str) else CLASSES.get(kind) if isinstance(kind, str) else None
    return {} if found is None else {"tokenizer_class": found}


def _read(
    key: str, source: ByteSource, files: Mapping[str, ByteSource], settings: dict[str, Any], ends: list[int]
) -> Tokenizer:
    head = bytes(source.read(0, min(source.size, HEAD)))
    where = source.name
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"{" or not head:
        return _read_json(source, files, settings, ends)
    if head[:4] == b"GGUF":
        from pyapp.formats.gguf import GgufFile

        return gguf_tokenizer(GgufFile(source).values, where, settings, ends)
    if _is_sentencepiece(head):
        from pyapp.formats.sentencepiece_model import read_sentencepiece_model
        from pyapp.text.tokenization.sentencepiece_classes import document_of_class

        numbers = _json(files, "vocab.json") if "vocab.json" in files else None
        if numbers is not None:
            from pyapp.text.tokenization.vocabulary_files import checked_vocabulary

            numbers = checked_vocabulary(numbers, files["vocab.json"].name)
        document = document_of_class(read_sentencepiece_model(source), settings, where, numbers)
        return Tokenizer(document, settings, end_ids=ends, where=where)
    if key.endswith(".txt") and looks_like_text(head):
        if key == MERGES:
            raise ModelError("merges.txt needs the vocab.json of the same folder", where=where, hint=HINT)
        if key.startswith("rwkv"):
            from pyapp.text.tokenization.longest_match import longest_match_document, read_world

            pieces_of_world = read_world(read_utf8(read_whole(source), where), where)
            made = longest_match_document(pieces_of_world, settings, where)
            return Tokenizer(made, settings, end_ids=ends, where=where)
        from pyapp.text.tokenization.vocabulary_files import read_vocab_txt, whole_token_document, wordpiece_document

        vocabulary = read_vocab_txt(read_utf8(read_whole(source), where), where)
        proteins = str(settings.get("tokenizer_class")).startswith("Esm")
        made = (whole_token_document if proteins else wordpiece_document)(vocabulary, settings, where)
        return Tokenizer(made, settings, end_ids=ends, where=where)
    if key.endswith((".tiktoken", ".model")) and looks_like_text(head):
        return _read_tiktoken(source, settings, ends)
    if kind := _foreign(source):
        raise FileFormatError(f"this is {kind}, not a tokenizer", where=where, hint=HINT)
    pieces = read_tokenizer_bin(source)
    return Tokenizer.from_llama2c(pieces.pieces, pieces.scores, where=where)


def gguf_tokenizer(
    values: Mapping[str, Any], where: str, settings: Mapping[str, Any] | None = None, end_ids: Sequence[int] = ()
) -> Tokenizer:
    """The tokenizer in the metadata of a GGUF file; `settings` are those beside it, `end_ids` further ids that end a
    text. FileFormatError and ModelError as load_tokenizer.
    """
    from pyapp.text.tokenization.gguf_vocabulary import GgufVocabulary

    found = GgufVocabulary(values, where)
    return Tokenizer(
        found.document, found.settings | dict(settings or {}), end_ids=[*end_ids, *found.end_ids], where=where
    )


def _is_sentencepiece(head: bytes) -> bool:
    """Whether the first field is a piece whose first field is its text. The first number of a tokenizer.bin, the length
    of its longest piece, is far smaller than these bytes as a number.
    """
    if head[:1] != b"\x0a":
        return False
    at = 1
    while at < min(len(head), 4) and head[at] & 0x80:
        at += 1
    return head[at + 1 : at + 2] == b"\x0a" and head[1] > 2


def _foreign(source: ByteSource) -> str | None:
    """What a file is that is certainly no tokenizer; None if it may be a damaged tokenizer.bin."""
    try:
        kind = sniff(source)
    except FileFormatError as error:
        return None if "does not know" in error.what else error.what.removeprefix("this is ")
    return None if kind == "tokenizer.bin" else f"a file of weights ({kind})"


def _read_json(
    source: ByteSource, files: Mapping[str, ByteSource], settings: dict[str, Any], ends: list[int]
) -> Tokenizer:
    data = read_whole(source)
    text = read_utf8(data, source.name)
    whole = read_json(text, source.name)
    if "config" in whole and "model" not in whole:
        from pyapp.text.tokenization.tekken import is_tekken, tekken_document

        if is_tekken(whole):
            document, settings = tekken_document(whole, settings, source.name)
            return Tokenizer(document, settings, end_ids=ends, where=source.name)
    if "model" in whole or not whole or {*map(type, whole.values())} != {int}:
        return Tokenizer(whole, settings, json_text=text, end_ids=ends, where=source.name)
    if MERGES not in files:
        raise ModelError(
            "this is a vocab.json, which needs the merges.txt beside it", where=source.name, hint="Give merges.txt too"
        )
    from pyapp.text.tokenization.vocabulary_files import (
        byte_level_document,
        checked_vocabulary,
        clip_document,
        is_clip,
        more_tokens,
        read_merges,
    )

    merges_text = read_utf8(read_whole(files[MERGES]), files[MERGES].name)

    def counted_merges() -> list[tuple[str, str]]:
        """Of files whose lines have a count behind the pair."""
        pairs = "\n".join(" ".join(line.split()[:2]) for line in merges_text.split("\n"))
        return read_merges(pairs, files[MERGES].name)

    if settings.get("tokenizer_class") in OF_MOSES:
        from pyapp.text.tokenization.moses import moses_document

        document, settings = moses_document(whole, counted_merges(), settings, source.name)
        return Tokenizer(document, settings, end_ids=ends, where=source.name)
    if TARGET in files:
        from pyapp.text.tokenization.language_pair import PairTokenizer

        return PairTokenizer(whole, _json(files, TARGET), counted_merges(), settings, ends, source.name)
    vocabulary = checked_vocabulary(whole, source.name)
    merges = read_merges(merges_text, files[MERGES].name)
    if settings.get("tokenizer_class") in OF_WORDS:
        from pyapp.text.tokenization.joined_pieces import joined_pieces_document

        document, settings = joined_pieces_document(vocabulary, merges, settings, source.name)
        return Tokenizer(document, settings, end_ids=ends, where=source.name)
    for number, entry in more_tokens(settings).items():
        vocabulary.setdefault(entry["content"], number)
    if is_clip(settings):
        document = clip_document(vocabulary, merges, settings=settings, where=source.name)
    else:
        document = byte_level_document(vocabulary, merges, settings=settings, where=source.name)
    return Tokenizer(document, settings, end_ids=ends, where=source.name)


def _read_tiktoken(source: ByteSource, settings: dict[str, Any], ends: list[int]) -> Tokenizer:
    from pyapp.text.tokenization.vocabulary_files import read_tiktoken, tiktoken_document

    pieces = read_tiktoken(read_whole(source), source.name)
    document = tiktoken_document(pieces, settings=settings, where=source.name)
    return Tokenizer(document, settings, end_ids=ends, where=source.name)
