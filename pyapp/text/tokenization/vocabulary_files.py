"""Vocabularies in text files as a tokenizer.json: BERT's vocab.txt, GPT-2's vocab.json with merges.txt, .tiktoken.

Sources: Devlin et al., BERT (2018), for WordPiece; Radford et al., Language Models are Unsupervised Multitask Learners
(2019), for bytes as characters; https://github.com/openai/tiktoken for the order of the merges.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.text.documents import DECODE_STEPS, SPECIAL_ROLES, added_token, bpe_model, document, template
from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.post_processor import LARGEST_ID
from pyapp.text.tokenization.word_patterns import GPT2, GPT4O, LLAMA3, WORD_PATTERNS, WordPattern

WORD_LIMIT = 100  # characters of a word; longer ones are unknown
PIECE_LIMIT = 1 << 10  # bytes of a .tiktoken piece: the pairs that make it are sought
TIKTOKEN_HINT = "Give the tokenizer of the model"


def wordpiece_document(
    vocabulary: Mapping[str, int], settings: Mapping[str, Any] | None = None, where: str = "vocab.txt"
) -> dict[str, Any]:
    """The tokenizer.json of BERT's vocabulary. `settings` (tokenizer_config.json) has do_lower_case (default True),
    strip_accents (default as do_lower_case), tokenize_chinese_chars (default True), the names of special tokens, and
    `tokenizer_class`: MPNet's names are RoBERTa's, and two separators stand between a pair.
    """
    settings = settings or {}
    mpnet = str(settings.get("tokenizer_class")).startswith("MPNet")
    usual_names = MPNET_NAMES if mpnet else BERT_NAMES
    names = {role: token_name(settings, f"{role}_token", usual) for role, usual in usual_names.items()}
    for role in ("unk", "cls", "sep"):
        if names[role] not in vocabulary:
            raise FileFormatError(
                f"the vocabulary has no token {names[role]!r:.60}", where=where,
                hint="Give BERT's vocab.txt, one token a line",
            )  # fmt: skip
    cls, sep = ((names[role], vocabulary[names[role]]) for role in ("cls", "sep"))
    lowercase = settings.get("do_lower_case", True) is not False
    strip = settings.get("strip_accents")
    return document(
        {
            "type": "WordPiece", "unk_token": names["unk"], "continuing_subword_prefix": "##",
            "max_input_chars_per_word": WORD_LIMIT, "vocab": dict(vocabulary),
        },
        added_tokens=[added_token(vocabulary[name], name) for name in names.values() if name in vocabulary],
        normalizer={
            "type": "BertNormalizer", "clean_text": True,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True) is not False,
            "strip_accents": strip if isinstance(strip, bool) else None, "lowercase": lowercase,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=template([cls], [sep], between=[sep, sep] if mpnet else [sep]),
        decoder=DECODE_STEPS["wordpiece"],
    )  # fmt: skip


def whole_token_document(
    vocabulary: Mapping[str, int], settings: Mapping[str, Any], where: str = "vocab.txt"
) -> dict[str, Any]:
    """The tokenizer.json of ESM's vocabulary of amino acids: tokens are found anywhere in the text, the longest first;
    what is between them, up to a space, is unknown. `settings` as of wordpiece_document.
    """
    ends = settings.get("eos_token", "") is not None  # null: texts have no token at their end
    names = {
        role: token_name(settings, f"{role}_token", usual) for role, usual in ESM_NAMES.items() if ends or role != "eos"
    }
    missing = [name for name in names.values() if name not in vocabulary]
    if missing:
        raise FileFormatError(
            f"the vocabulary has no token {missing[0]!r:.60}", where=where, hint="Give ESM's vocab.txt"
        )
    front, behind = ([(name, vocabulary[name]) for name in (names.get(role),) if name] for role in ("cls", "eos"))
    special = set(names.values())
    return document(
        {
            "type": "WordPiece", "unk_token": names["unk"], "continuing_subword_prefix": "##",
            "max_input_chars_per_word": WORD_LIMIT, "vocab": dict(vocabulary),
        },
        added_tokens=[added_token(number, name, special=name in special) for name, number in vocabulary.items()],
        pre_tokenizer={"type": "Split", "pattern": {"Regex": r"\s+"}, "behavior": "Removed", "invert": False},
        post_processor=template(front, behind, between=behind, second_type=0),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": False},
    )  # fmt: skip


ESM_NAMES = {"unk": "<unk>", "cls": "<cls>", "eos": "<eos>", "pad": "<pad>", "mask": "<mask>"}
MPNET_NAMES = {"unk": "[UNK]", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
BERT_NAMES = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}


def token_name(settings: Mapping[str, Any], role: str, usual: str) -> str:
    """The name of a special token: a text, or `{"content": text}`."""
    value = settings.get(role)
    value = value.get("content") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) and value else usual


def read_vocab_txt(text: str, where: str = "vocab.txt") -> dict[str, int]:
    """The ids of tokens, one a line. FileFormatError for a token that appears twice."""
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(lines):
        token = line.rstrip("\r\n")
        if vocabulary.setdefault(token, number) != number:
            raise FileFormatError(f"lines {vocabulary[token] + 1} and {number + 1} are both {token!r:.60}", where=where)
    if not 0 < len(vocabulary) < LARGEST_ID:
        raise FileFormatError(f"it has {len(vocabulary):,} tokens", where=where)
    return vocabulary


def read_merges(text: str, where: str = "merges.txt") -> list[tuple[str, str]]:
    """The pairs of a merges.txt, one a line after a line "#version"."""
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not left or not right or " " in right:
            raise FileFormatError(f"line {number} is {line!r:.60}, expected two pieces", where=where)
        merges.append((left, right))
    return merges


def checked_vocabulary(vocabulary: Mapping[str, Any], where: str) -> dict[str, int]:
    """The ids of a vocab.json. FileFormatError unless they are distinct whole numbers."""
    numbers = list(vocabulary.values())
    valid = numbers and {*map(type, numbers)} <= {int} and 0 <= min(numbers) <= max(numbers) < LARGEST_ID
    if not valid or len(set(numbers)) != len(numbers):
        raise FileFormatError(
            "the tokens have no distinct numbers", where=where, hint="Give the vocab.json of the tokenizer"
        )
    return dict(vocabulary)


def usable_merges(merges: Iterable[tuple[str, str]], vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Those whose parts and union are in the vocabulary; the others can never be applied."""
    return [
        (left, right) for left, right in merges
        if left in vocabulary and right in vocabulary and left + right in vocabulary
    ]  # fmt: skip


def byte_level_document(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    settings: Mapping[str, Any] | None = None,
    where: str = "vocab.json",
) -> dict[str, Any]:
    """The tokenizer.json of GPT-2's kind of vocabulary. `settings` (tokenizer_config.json) has `tokenizer_class`
    (RoBERTa's, BART's and their relatives put `<s>` and `</s>` around texts, Qwen2's and GPT-NeoX's bring texts into
    the normal form NFC, Qwen2's divide words in their own way), `add_prefix_space`, and special tokens.
    """
    settings = settings or {}
    words = words_of(settings, WORD_PATTERNS["gpt-2"])
    composed = str(settings.get("tokenizer_class")).startswith(("Qwen2", "GPTNeoX"))
    vocabulary = checked_vocabulary(vocabulary, where)
    pre_tokenizer = words.pre_tokenizer()
    if settings.get("add_prefix_space") is True and words.patterns == (GPT2,):
        pre_tokenizer["add_prefix_space"] = True
    around = is_roberta(settings) or words.adds_sep
    post: dict[str, Any] | None = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    if around:
        cls, sep = token_name(settings, "cls_token", "<s>"), token_name(settings, "sep_token", "</s>")
        if cls not in vocabulary or sep not in vocabulary:
            raise FileFormatError(f"the vocabulary has no {cls!r:.40} or no {sep!r:.40}", where=where)
        post = {
            "type": "RobertaProcessing", "sep": [sep, vocabulary[sep]], "cls": [cls, vocabulary[cls]],
            "trim_offsets": True, "add_prefix_space": pre_tokenizer.get("add_prefix_space", False),
        }  # fmt: skip
    return document(
        bpe_model(vocabulary, usable_merges(merges, vocabulary), ignore_merges=words.ignore_merges),
        added_tokens=named_tokens(settings, vocabulary, around),
        normalizer={"type": "NFC"} if composed else None,
        pre_tokenizer=pre_tokenizer,
        post_processor=post,
        decoder=DECODE_STEPS["byte_level"],
    )


def words_of(settings: Mapping[str, Any], usual: WordPattern) -> WordPattern:
    """How the tokenizer's class divides text into words."""
    kind = settings.get("tokenizer_class")
    return WORD_PATTERNS["qwen2"] if isinstance(kind, str) and kind.startswith("Qwen2") else usual


END_OF_WORD = "</w>"  # after the last piece of a word in CLIP's vocabularies
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def is_clip(settings: Mapping[str, Any]) -> bool:
    """Whether the tokenizer's class is CLIP's."""
    return str(settings.get("tokenizer_class")).startswith("CLIP")


def clip_document(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    settings: Mapping[str, Any] | None = None,
    where: str = "vocab.json",
) -> dict[str, Any]:
    """The tokenizer.json of CLIP's vocabulary (Radford et al. 2021): text in small letters, words with an end, special
    tokens around a text.
    """
    settings = settings or {}
    vocabulary = checked_vocabulary(vocabulary, where)
    cls, sep = token_name(settings, "bos_token", "<|startoftext|>"), token_name(settings, "eos_token", "<|endoftext|>")
    if cls not in vocabulary or sep not in vocabulary:
        raise FileFormatError(f"the vocabulary has no {cls!r:.40} or no {sep!r:.40}", where=where)
    steps: list[dict[str, Any]] = [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"},
    ]  # fmt: skip
    words = {"type": "Split", "pattern": {"Regex": CLIP_WORDS}, "behavior": "Removed", "invert": True}
    characters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return document(
        bpe_model(
            vocabulary, usable_merges(merges, vocabulary), unk_token=sep, continuing_subword_prefix="",
            end_of_word_suffix=END_OF_WORD,
        ),
        added_tokens=named_tokens(settings, vocabulary),
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [words, characters]},
        post_processor={
            "type": "RobertaProcessing", "sep": [sep, vocabulary[sep]], "cls": [cls, vocabulary[cls]],
            "trim_offsets": False, "add_prefix_space": False,
        },
        decoder=DECODE_STEPS["byte_level"],
    )  # fmt: skip


ROBERTA_CLASSES = ("Roberta", "Bart", "Longformer", "LED", "Luke", "MVP", "Blenderbot", "Deberta")


def is_roberta(settings: Mapping[str, Any]) -> bool:
    """Whether the tokenizer's class puts special tokens around texts as RoBERTa does."""
    name = settings.get("tokenizer_class")
    return isinstance(name, str) and name.startswith(ROBERTA_CLASSES) and not name.startswith("DebertaV2")


def named_tokens(settings: Mapping[str, Any], vocabulary: Mapping[str, int], roberta: bool = False) -> list[Any]:
    """The added tokens: those of `added_tokens_decoder`, and the special tokens that the settings name."""
    found: dict[int, dict[str, Any]] = {}
    for role in SPECIAL_ROLES:
        name = token_name(settings, role, "")
        if name in vocabulary:
            found[vocabulary[name]] = added_token(vocabulary[name], name)
    usual = ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if roberta else ("<|endoftext|>",)
    for name in usual:
        if name in vocabulary:
            found.setdefault(vocabulary[name], added_token(vocabulary[name], name))
    if roberta and token_name(settings, "mask_token", "<mask>") in vocabulary:
        found[vocabulary[token_name(settings, "mask_token", "<mask>")]]["lstrip"] = True
    for number, entry in more_tokens(settings).items():
        found[number] = entry
    return list(found.values())


def more_tokens(settings: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The tokens of `added_tokens_decoder` in a tokenizer_config.json, by id."""
    listed = settings.get("added_tokens_decoder")
    found: dict[int, dict[str, Any]] = {}
    for key, entry in listed.items() if isinstance(listed, Mapping) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("content"), str) and key.isdecimal() and len(key) < 8:
            flags = {name: entry.get(name) is True for name in ("single_word", "lstrip", "rstrip", "normalized")}
            special = entry.get("special") is True
            found[int(key)] = added_token(int(key), entry["content"], special=special) | flags
    return {number: entry for number, entry in found.items() if number < LARGEST_ID}


def read_tiktoken(data: bytes, where: str) -> list[bytes]:
    """The pieces of a .tiktoken file: lines of base64 and rank, in the order of their ranks."""
    pieces: list[bytes] = []
    try:
        for line in data.split(b"\n"):
            if line.strip():
                text, rank = line.split()
                if int(rank) != len(pieces):
                    raise ValueError(f"rank {int(rank)} after {len(pieces) - 1}")
                pieces.append(b"" if text == b"=" else base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error) as error:
        raise FileFormatError(
            f"this is neither a tokenizer.json nor a .tiktoken file ({error})", where=where, hint=TIKTOKEN_HINT
        ) from error
    return pieces


def tiktoken_document(
    pieces: Sequence[bytes],
    *,
    words: WordPattern | None = None,
    settings: Mapping[str, Any] | None = None,
    where: str = "tokenizer.tiktoken",
    first: int = 0,
    front: Sequence[tuple[str, int]] = (),
) -> dict[str, Any]:
    """The tokenizer.json of a .tiktoken vocabulary: `pieces` by rank, which have the ids from `first` on. Special
    tokens come from `settings`; `front`: those before a text. Without `words` the number of pieces, or the class of the
    tokenizer, says which of the published patterns divides texts into words.
    """
    if any(not piece for piece in pieces) or len(set(pieces)) != len(pieces):
        raise FileFormatError("it has an empty piece, or one twice", where=where, hint=TIKTOKEN_HINT)
    if max(map(len, pieces), default=0) > PIECE_LIMIT:
        raise FileFormatError(f"a piece has more than {PIECE_LIMIT:,} bytes", where=where, hint=TIKTOKEN_HINT)
    missing = {bytes([value]) for value in range(256)} - set(pieces)
    if missing:
        raise FileFormatError(f"the vocabulary lacks {len(missing)} of the 256 bytes", where=where)
    character_of = {byte: character for character, byte in byte_of_character().items()}

    def text(piece: bytes) -> str:
        return "".join(character_of[byte] for byte in piece)

    vocabulary = {text(piece): rank for rank, piece in enumerate(pieces, first)}
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    merges = [
        (text(pair[0]), text(pair[1]))
        for piece in pieces if len(piece) > 1 and (pair := _last_pair(piece, ranks)) is not None
    ]  # fmt: skip
    settings = settings or {}
    if words is None:
        known = {50256: WORD_PATTERNS["gpt-2"], 50257: WORD_PATTERNS["gpt-2"], 151643: WORD_PATTERNS["qwen2"]}
        usual = WordPattern((LLAMA3,)) if len(pieces) < 190_000 else WordPattern((GPT4O,))
        words = words_of(settings, known.get(len(pieces), usual))
    listed = more_tokens(settings)
    for number, entry in listed.items():
        if first <= number < first + len(pieces):
            raise ModelError(f"the special token {entry['content']!r:.60} has the number of a piece", where=where)
        if number < first and vocabulary.setdefault(entry["content"], number) != number:
            raise FileFormatError(f"the special token {entry['content']!r:.60} is a piece, too", where=where)
    return document(
        bpe_model(vocabulary, merges, ignore_merges=True),
        added_tokens=listed.values(),
        pre_tokenizer=words.pre_tokenizer(),
        post_processor=template(front, []) or {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False},
        decoder=DECODE_STEPS["byte_level"],
    )


def _last_pair(piece: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two parts that are joined last when a piece is built by merges of lower rank; None for a piece that no merges
    build: it is only found as a whole word.
    """
    parts = [piece[index : index + 1] for index in range(len(piece))]
    while len(parts) > 2:
        unions = [ranks.get(left + right, LARGEST_ID) for left, right in zip(parts, parts[1:], strict=False)]
        best = min(unions)
        if best >= ranks[piece]:
            break
        at = unions.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None
