"""The regular expressions by which byte-level tokenizers of model families divide text into words.

They are the published patterns of the models' tokenizers, under the names of GGUF's `tokenizer.ggml.pre`, which
src/llama-vocab.cpp of https://github.com/ggml-org/llama.cpp lists. Each pattern divides the parts that the one before
it left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD, _SIGNS = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = f"{_ENGLISH}|{_WORD}|" r"\p{N}{1,3}" f"|{_SIGNS}|{_SPACES}"
QWEN2 = f"{_ENGLISH}|{_WORD}|" r"\p{N}" f"|{_SIGNS}|{_SPACES}"
_MARKED = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
QWEN35 = f"{_ENGLISH}|{_MARKED}|" r"\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" f"|{_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CAMEL = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
TEKKEN = f"{_CAMEL[0]}|{_CAMEL[1]}|" r"\p{N}" f"|{_PATHS}|{_SPACES}"
GPT4O = f"{_CAMEL[0]}{_ENGLISH}?|{_CAMEL[1]}{_ENGLISH}?|" r"\p{N}{1,3}" f"|{_PATHS}|{_SPACES}"
_DEEPSEEK_CJK = "[一-龥ࠀ-一가-\ud7ff]+"
_DEEPSEEK_LETTERS = (
    # Letters with case.
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}"
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}"
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}"
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}"
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}"
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}"
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}"
    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}"
    r"\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}"
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+"
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    f"|{_SPACES}",
)
_SPARK = (
    *_DEEPSEEK3[:2],
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|"""
    r"\s+(?!\S)|\s+",
    r"\p{N}",
)
# Digits in groups of three from the last one on; Chinese, Japanese, Thai, Lao, Khmer, Burmese and Korean letters.
_AFMOE = (
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "[一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-⿟\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff"
    "\uac00-\ud7af\u1100-\u11ff]+",
    _DEEPSEEK3[2],
)
_YOUTU = (
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-\u309f\u30a0-\u30ff]+",
    f"{_CAMEL[0]}{_ENGLISH}?|{_CAMEL[1]}{_ENGLISH}?|" r"\p{N}" f"|{_PATHS}|{_SPACES}",
)
# Chinese letters are words of their own, and no part of others.
_HAN = (
    "⺀-⺙⺛-⻳⼀-⿕々〇〡-〩〸-〻㐀-䶿一-鿿\uf900-\ufa6d\ufa70-\ufad9\U00020000-\U0002a6df\U0002a700-\U0002ebe0\U0002f800-\U0002fa1d"
    "\U00030000-\U000323af"
)
_NO_HAN = f"(?:(?![{_HAN}]){_UPPER})", f"(?:(?![{_HAN}]){_LOWER})"
_KIMI = (
    rf"[{_HAN}]+|[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN[0]}*{_NO_HAN[1]}+{_ENGLISH}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN[0]}+{_NO_HAN[1]}*{_ENGLISH}?|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"
)
_JAIS2 = (
    f"{_ENGLISH}|{_WORD}|"
    r"\p{N}{1,3}"
    f"|{_SIGNS}|"
    r"\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|"
    r"\s{1,2}(?!\S)|\s{1}"
)
_LINES = r"[^\n]+|[\n]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_PUNCTUATION = r"[\p{P}\$\+<=>\^~\|]+"


@dataclass(frozen=True)
class WordPattern:
    """The patterns of one family, and what else its name says: `ignore_merges` (a word that is a token is not split),
    and the special tokens that files without settings mean: one before a text, and around it as in RoBERTa.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False
    adds_sep: bool = False

    def pre_tokenizer(self) -> dict[str, Any]:
        """The part of a tokenizer.json."""
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        if self.patterns == (GPT2,):
            return {**byte_level, "use_regex": True}
        splits: list[dict[str, Any]] = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in self.patterns
        ]
        return {"type": "Sequence", "pretokenizers": [*splits, {**byte_level, "use_regex": False}]}


# Published patterns that repeat a group: what they match is never ambiguous.
_EXAONE_MOE = (
    f"{_ENGLISH}|"
    r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|"
    r"\s+(?!\S)|\s+"
)
_DIGIT = (r"\p{N}", GPT2)
_FAMILIES: list[tuple[str, WordPattern]] = [
    (
        "default",
        WordPattern((_PUNCTUATION, GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    ),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        WordPattern((LLAMA3,), ignore_merges=True, adds_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", WordPattern((LLAMA3,))),
    ("glm4 glm5", WordPattern((LLAMA3,), ignore_merges=True)),
    (
        "minicpm5",
        WordPattern((r"\p{N}{1,3}", f"{_ENGLISH}|{_WORD}|" r"\p{N}+" f"|{_SIGNS}|{_SPACES}"), ignore_merges=True),
    ),
    (
        "qwen2 stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2",
        WordPattern((QWEN2,)),
    ),
    ("qwen35", WordPattern((QWEN35,))),
    ("laguna", WordPattern((_LINES, QWEN2))),
    ("ufakzeka", WordPattern((QWEN2.removeprefix(f"{_ENGLISH}|"),))),
    ("jais-2", WordPattern((_JAIS2,))),
    ("kimi-k2", WordPattern((_KIMI,))),
    ("afmoe", WordPattern(_AFMOE)),
    ("youtu", WordPattern(_YOUTU, ignore_merges=True)),
    ("spark2_5", WordPattern(_SPARK)),
    (
        "gpt-2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 "
        "mellum modern-bert exaone4",
        WordPattern((GPT2,)),
    ),
    ("roberta-bpe jina-v1-en jina-v2-code", WordPattern((GPT2,), adds_sep=True)),
    ("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", WordPattern(_DIGIT)),
    ("falcon", WordPattern((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"))),
    ("tekken", WordPattern((TEKKEN,), ignore_merges=True, adds_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", WordPattern((GPT4O,))),
    ("granite-embed-multi-97m", WordPattern((GPT4O,), ignore_merges=True)),
    ("tiny_aya cohere2moe", WordPattern((r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O))),
    (
        "deepseek-llm",
        WordPattern(
            (r"[\r\n]", _DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", _DEEPSEEK_CJK, r"\p{N}+")
        ),
    ),
    ("deepseek-coder", WordPattern((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK, r"\p{N}"))),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", WordPattern(_DEEPSEEK3)),
    (
        "bailingmoe bailingmoe2 llada-moe",
        WordPattern(
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|"
                r"\s+(?!\S)|\s+",
            )
        ),
    ),
    (
        "seed-coder",
        WordPattern((f"{_ENGLISH}|{_WORD}|" r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" f"|{_SPACES}",)),
    ),
    ("bloom poro-chat gpt3-finnish", WordPattern((_BLOOM,))),
    ("exaone-moe", WordPattern((_EXAONE_MOE,))),
    ("viking", WordPattern((_BLOOM, r"\p{N}"))),
]
WORD_PATTERNS: Mapping[str, WordPattern] = {name: pattern for names, pattern in _FAMILIES for name in names.split()}

KNOWN_PATTERNS = frozenset(pattern for words in WORD_PATTERNS.values() for pattern in words.patterns)


def word_pattern(name: str, where: str) -> WordPattern:
    """The patterns under a name of `tokenizer.ggml.pre`. ModelError for an unknown one."""
    if name not in WORD_PATTERNS:
        raise ModelError(
            f"its text is divided into words in the way {name!r:.60}, which is not supported", where=where,
            hint="Supported: " + ", ".join(WORD_PATTERNS),
        )  # fmt: skip
    return WORD_PATTERNS[name]


def name_of_pattern(pre_tokenizer: Mapping[str, Any] | None, ignore_merges: bool, sep: bool) -> str | None:
    """The name for a `pre_tokenizer` of a tokenizer.json; None if none of the patterns is equal."""
    patterns = _patterns_of(pre_tokenizer)
    equal = [name for name, pattern in WORD_PATTERNS.items() if pattern.patterns == patterns]
    exact = [
        name for name in equal
        if WORD_PATTERNS[name].ignore_merges == ignore_merges and WORD_PATTERNS[name].adds_sep == sep
    ]  # fmt: skip
    if exact:
        return exact[0]
    # The setting `add_sep_token` of the file replaces what the name says; nothing replaces `ignore_merges`.
    return next((name for name in equal if WORD_PATTERNS[name].ignore_merges == ignore_merges), None)


_SAME = {
    # Other spellings of the same division.
    GPT2.removesuffix(r"|\s+"): GPT2,
    LLAMA3.replace(_ENGLISH, "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"): LLAMA3,
    QWEN2.replace(_ENGLISH, "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"): QWEN2,
}


def _patterns_of(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """The patterns of a byte-level `pre_tokenizer`; None if it has other steps."""
    if not pre_tokenizer:
        return None
    steps = pre_tokenizer.get("pretokenizers") if pre_tokenizer.get("type") == "Sequence" else [pre_tokenizer]
    found: list[str] = []
    byte_level = False
    for step in steps or ():
        kind, pattern = step.get("type"), step.get("pattern")
        regex = pattern.get("Regex") if isinstance(pattern, Mapping) else None
        # Words that match are kept apart from the rest, or are all that is kept.
        keeps = (step.get("behavior"), step.get("invert", False)) in (("Isolated", False), ("Removed", True))
        if kind == "Split" and keeps and isinstance(regex, str):
            found.append(_SAME.get(regex, regex))
        elif kind == "Digits" and step.get("individual_digits"):
            found.append(r"\p{N}")
        elif kind == "ByteLevel" and not step.get("add_prefix_space"):
            byte_level = True
            if step.get("use_regex", True):
                found.append(GPT2)
        else:
            return None
    return tuple(found) if byte_level else None
