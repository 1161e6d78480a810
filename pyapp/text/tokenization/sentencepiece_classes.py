"""The ids and special tokens that the tokenizer classes of transformers give the pieces of a sentencepiece model.

Models that were trained with fairseq (Ott et al. 2019) put tokens of their own before the pieces, and others after
them: the languages of mBART (Liu et al. 2020; Tang et al. 2020), and `<mask>`. M2M100 (Fan et al. 2020) and
Speech2Text (Wang et al. 2020) number the pieces in a vocab.json. Pegasus (Zhang et al. 2019) puts what its training
masked before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, SentencePieceModel
from pyapp.text.documents import SPACE, added_token, sequence, template
from pyapp.text.tokenization.sentencepiece_vocabulary import sentencepiece_document
from pyapp.text.tokenization.vocabulary_files import more_tokens, token_name

T5_EXTRA_IDS = 100
EXTRA_IDS_LIMIT = 1 << 12
MBART = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX",
    "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN",
    "zh_CN",
)  # fmt: skip
MBART50 = (
    *MBART, "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK", "ml_IN", "mn_MN",
    "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK",
    "xh_ZA", "gl_ES", "sl_SI",
)  # fmt: skip
# By "language_codes" of the settings.
M2M100_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}  # fmt: skip
PLBART = ("__java__", "__python__", "__en_XX__")
PLBART_MORE = ("__javascript__", "__php__", "__ruby__", "__go__")  # behind them, of "language_codes" "multi"
FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
SEAMLESS = ("<pad>", "<unk>", "<s>", "</s>")
PEGASUS = ("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)))
LANGUAGE = re.compile(r"<lang:\w+>")  # tokens of Speech2Text's languages, in its vocab.json
# What GPT-SW3 (Ekgren et al. 2023, arXiv 2305.12987) leaves out of texts, and what it takes for a space.
UNPRINTED = r"[\x{0}-\x{8}\x{B}-\x{1F}\x{7F}-\x{9F}\x{A0}\x{AD}\x{200B}]"
WHITE = r"[\x{2002}\x{2003}\x{2005}\x{2008}\x{2009}\x{200A}\x{202F}\x{3000}\x{FFFC}]"
NEVER = -1e4  # the score of pieces that vocab.json has and the .model file has not


def _number_as_fairseq(
    model: SentencePieceModel, front: Sequence[str], replaced: int, behind: Sequence[str]
) -> None:  # fmt: skip
    """Gives the pieces the ids of fairseq: `front`, all but the first `replaced` pieces, those `behind`."""
    kinds = [UNKNOWN if piece == "<unk>" else CONTROL for piece in front]
    model.pieces = [*front, *model.pieces[replaced:], *behind]
    model.scores = [*[0.0] * len(front), *model.scores[replaced:], *[0.0] * len(behind)]
    model.types = [*kinds, *model.types[replaced:], *[CONTROL] * len(behind)]
    _name_special(model)


def _number_as_listed(
    model: SentencePieceModel, numbers: Mapping[str, int] | None, languages: Sequence[str], where: str
) -> None:  # fmt: skip
    """Gives the pieces the ids of a vocab.json, `numbers`, and puts the tokens of languages after them."""
    if numbers is None:
        raise ModelError("its vocab.json is missing", where=where, hint="Put the model's vocab.json beside it")
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    if [numbers[piece] for piece in pieces] != list(range(len(pieces))):
        raise FileFormatError("the numbers of vocab.json are not 0, 1, 2 … without gaps", where=where)
    if missing := [name for name in FAIRSEQ if name not in numbers]:
        raise FileFormatError(f"vocab.json has no {', '.join(missing)}", where=where)
    kinds = model.types or [NORMAL] * len(model.pieces)
    own = {piece: (score, kind) for piece, score, kind in zip(model.pieces, model.scores, kinds, strict=True)}
    special = {name: (0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in FAIRSEQ}
    special |= dict.fromkeys(languages, (0.0, CONTROL))
    known = [special.get(piece) or own.get(piece, (NEVER, NORMAL)) for piece in pieces]
    behind = [piece for piece in languages if piece not in numbers]
    model.pieces = [*pieces, *behind]
    model.scores = [*(score for score, _ in known), *[0.0] * len(behind)]
    model.types = [*(kind for _, kind in known), *[CONTROL] * len(behind)]
    _name_special(model)


def _name_special(model: SentencePieceModel) -> None:
    """Says where the special tokens of fairseq are among the pieces."""
    number_of = {piece: number for number, piece in enumerate(model.pieces)}
    model.bos_id, model.pad_id, model.eos_id, model.unk_id = (number_of.get(name, -1) for name in FAIRSEQ)


def languages_of_m2m100(settings: Mapping[str, Any], where: str) -> list[str]:
    """The tokens of the languages of an M2M100."""
    kind = settings.get("language_codes", "m2m100")
    if kind not in M2M100_LANGUAGES:
        raise ModelError(f"language_codes is {kind!r:.40}, expected one of {', '.join(M2M100_LANGUAGES)}", where=where)
    return [f"__{code}__" for code in M2M100_LANGUAGES[kind].split()]


def steps_of(normalizer: Mapping[str, Any] | None) -> list[Any]:
    """The steps of a normalizer."""
    if normalizer is None:
        return []
    return list(normalizer["normalizers"]) if normalizer["type"] == "Sequence" else [normalizer]


def _only_first_space(document: dict[str, Any]) -> None:
    """Puts a space before the beginning of a text only, not after special tokens within it (`"legacy": false`)."""
    steps = steps_of(document["normalizer"])
    prepends = [step for step in steps if step["type"] == "Prepend"]
    if prepends:  # a Metaspace takes their place, and that of what writes the spaces
        rest = [step for step in steps if step["type"] not in ("Prepend", "Replace")]
        document["normalizer"] = sequence("normalizers", rest)
        document["pre_tokenizer"] = {"type": "Metaspace", "replacement": SPACE, "split": False}
    document["pre_tokenizer"]["prepend_scheme"] = "first"


class SentencePieceClass:
    """A class of tokenizers: the ids of the pieces, what is done to a text before sentencepiece's own normaliser, and
    the special tokens around a text. Subclasses say what differs.
    """

    NAMES: tuple[str, ...] = ()  # without "Tokenizer"

    def __init__(
        self, model: SentencePieceModel, settings: Mapping[str, Any], where: str, numbers: Mapping[str, int] | None
    ) -> None:
        self.model, self.settings, self.where, self.numbers = model, settings, where, numbers

    def number(self) -> None:
        """Gives the pieces their ids. Those of the .model file are usual."""

    def first_steps(self) -> list[dict[str, Any]]:
        """The steps of a normalizer that come before sentencepiece's own."""
        return []

    def spaces_beginnings_only(self) -> bool:
        """Whether a space is put before the beginning of a text only, not after special tokens within it."""
        return False

    def finish(self, document: dict[str, Any]) -> None:
        """Changes the normalizer and pre-tokenizer of a tokenizer.json."""
        if self.spaces_beginnings_only() and self.model.add_dummy_prefix:
            _only_first_space(document)

    def tokens_behind(self, listed: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        """Tokens after the pieces, by id. listed: those that the settings name."""
        return {}

    def post_processor(self) -> dict[str, Any] | None:
        """The special tokens around a text, and around two texts."""
        raise NotImplementedError

    def named(self, role: str, usual: str, number: int) -> list[tuple[str, int]]:
        """A special token by its name, or else by its number; nothing if the pieces do not have it."""
        name = token_name(self.settings, role, usual)
        if name in self.model.pieces:
            return [self.numbered(name)]
        return [(self.model.pieces[number], number)] if number >= 0 else []

    def numbered(self, name: str) -> tuple[str, int]:
        """A piece and its id, the last one of several alike."""
        return name, len(self.model.pieces) - 1 - self.model.pieces[::-1].index(name)

    @property
    def bos(self) -> list[tuple[str, int]]:
        return self.named("bos_token", "<s>", self.model.bos_id)

    @property
    def eos(self) -> list[tuple[str, int]]:
        return self.named("eos_token", "</s>", self.model.eos_id)

    def language(self, name: str, known: Sequence[str]) -> tuple[str, int]:
        """The token of a language. ModelError if it is not among the known ones."""
        if name not in known:
            raise ModelError(
                f"src_lang {name.strip('_')!r:.40} is not a language of this tokenizer", where=self.where
            )  # fmt: skip
        return self.numbered(name)

    def mask_behind(self, listed: Mapping[int, Mapping[str, Any]], usual: str, lstrip: bool) -> dict[int, Any]:
        """The mask after the pieces, unless it is one of them, or is listed."""
        mask, behind = token_name(self.settings, "mask_token", usual), len(self.model.pieces)
        if mask in self.model.pieces or mask in {entry["content"] for entry in listed.values()}:
            return {}
        return {behind: added_token(behind, mask) | {"lstrip": lstrip}}


class Barthez(SentencePieceClass):
    NAMES: tuple[str, ...] = ("Barthez",)

    def tokens_behind(self, listed: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        return self.mask_behind(listed, "<mask>", True)

    def post_processor(self) -> dict[str, Any] | None:
        return template(self.bos, self.eos, between=[*self.eos, *self.eos], second_type=0)


class XLMRoberta(SentencePieceClass):
    NAMES: tuple[str, ...] = ("XLMRoberta", "MLuke", "LayoutXLM")

    def number(self) -> None:
        _number_as_fairseq(self.model, FAIRSEQ, 3, ("<mask>",))

    def post_processor(self) -> dict[str, Any] | None:
        return template(self.bos, self.eos, between=[*self.eos, *self.eos], second_type=0)


class Camembert(XLMRoberta):
    NAMES: tuple[str, ...] = ("Camembert",)

    def number(self) -> None:
        front = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED")
        _number_as_fairseq(self.model, front, 1, ("<mask>",))


class MBart(SentencePieceClass):
    NAMES: tuple[str, ...] = ("MBart",)
    languages: Sequence[str] = MBART

    def number(self) -> None:
        _number_as_fairseq(self.model, FAIRSEQ, 3, (*self.languages, "<mask>"))

    def around(self, language: tuple[str, int]) -> dict[str, Any] | None:
        return template([], [*self.eos, language], between=[], second_type=0)

    def post_processor(self) -> dict[str, Any] | None:
        return self.around(self.language(token_name(self.settings, "src_lang", "en_XX"), self.languages))


class MBart50(MBart):
    NAMES: tuple[str, ...] = ("MBart50",)
    languages = MBART50

    def around(self, language: tuple[str, int]) -> dict[str, Any] | None:
        return template([language], self.eos, between=[], second_type=0)


class PLBart(SentencePieceClass):
    NAMES: tuple[str, ...] = ("PLBart",)

    @property
    def many(self) -> bool:
        """Whether it has more than three languages, and no mask."""
        return bool(self.settings.get("language_codes") == "multi")

    def number(self) -> None:
        _number_as_fairseq(self.model, FAIRSEQ, 3, (*PLBART, *(PLBART_MORE if self.many else ("<mask>",))))

    def post_processor(self) -> dict[str, Any] | None:
        name = token_name(self.settings, "src_lang", "en_XX" if self.many else "")
        if not name:
            return template([], self.eos, between=[], second_type=0)
        name = name if name.startswith("__") else f"__{name}__"
        language = self.language(name, (*PLBART, *(PLBART_MORE if self.many else ())))
        return template([], [*self.eos, language], between=[], second_type=0)


class SeamlessM4T(SentencePieceClass):
    NAMES: tuple[str, ...] = ("SeamlessM4T",)

    def number(self) -> None:
        _number_as_fairseq(self.model, SEAMLESS, 3, ())

    def spaces_beginnings_only(self) -> bool:
        return True

    def finish(self, document: dict[str, Any]) -> None:
        super().finish(document)
        for step in steps_of(document["normalizer"]):  # the space before a text is one of its own, if it has any
            if step["type"] == "Strip":
                step["strip_left"] = False

    def post_processor(self) -> dict[str, Any] | None:
        name = f"__{token_name(self.settings, 'src_lang', 'eng').strip('_')}__"
        numbers = [number for number, entry in more_tokens(self.settings).items() if entry["content"] == name]
        return template([(name, number) for number in numbers[:1]], self.eos, between=[], second_type=0)


class M2M100(SentencePieceClass):
    NAMES: tuple[str, ...] = ("M2M100",)

    def number(self) -> None:
        _number_as_listed(self.model, self.numbers, languages_of_m2m100(self.settings, self.where), self.where)

    def post_processor(self) -> dict[str, Any] | None:
        name = f"__{token_name(self.settings, 'src_lang', 'en')}__"
        language = self.language(name, languages_of_m2m100(self.settings, self.where))
        return template([language], self.eos, between=[], second_type=0)


class Speech2Text(SentencePieceClass):
    NAMES: tuple[str, ...] = ("Speech2Text",)

    def number(self) -> None:
        languages = [piece for piece in self.numbers or () if LANGUAGE.fullmatch(piece)]
        _number_as_listed(self.model, self.numbers, languages, self.where)

    def post_processor(self) -> dict[str, Any] | None:
        name = f"<lang:{token_name(self.settings, 'tgt_lang', '')}>"
        language = [self.numbered(name)] if name in self.model.pieces else []
        return template(language, self.eos, between=[], second_type=0)


class DebertaV2(SentencePieceClass):
    NAMES: tuple[str, ...] = ("DebertaV2",)
    lowers_letters = False  # unless the settings say so

    def first_steps(self) -> list[dict[str, Any]]:
        lowers = self.settings.get("do_lower_case", self.lowers_letters) is True
        return [{"type": "Lowercase"}] if lowers else []

    def tokens_behind(self, listed: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        return self.mask_behind(listed, "[MASK]", False)

    def post_processor(self) -> dict[str, Any] | None:
        sep = self.named("sep_token", "[SEP]", self.model.eos_id)
        return template(self.named("cls_token", "[CLS]", self.model.bos_id), sep, between=sep)


class Albert(DebertaV2):
    NAMES: tuple[str, ...] = ("Albert",)
    lowers_letters = True

    def first_steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]]
        steps = [{"type": "Replace", "pattern": {"String": mark}, "content": '"'} for mark in ("``", "''")]
        if self.settings.get("keep_accents") is not True:
            steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
        return [*steps, *super().first_steps()]

    def tokens_behind(self, listed: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        return {}


class Pegasus(SentencePieceClass):
    NAMES: tuple[str, ...] = ("Pegasus",)

    def number(self) -> None:
        _number_as_fairseq(self.model, PEGASUS, 2, ())

    def post_processor(self) -> dict[str, Any] | None:
        return template([], self.eos, between=[], second_type=0)


class Llama(SentencePieceClass):
    NAMES: tuple[str, ...] = (
        "", "Llama", "CodeLlama", "Gemma", "PreTrained", "Yi", "Baichuan", "BaiChuan", "InternLM", "InternLM2",
        "Orion", "Arctic",
    )  # fmt: skip

    def spaces_beginnings_only(self) -> bool:
        return self.settings.get("legacy") is False

    def post_processor(self) -> dict[str, Any] | None:
        front = self.bos if self.settings.get("add_bos_token", True) is not False else []
        return template(front, self.eos if self.settings.get("add_eos_token") is True else [])


class BertGeneration(SentencePieceClass):
    """Texts have no special tokens around them."""

    NAMES: tuple[str, ...] = ("BertGeneration",)

    def post_processor(self) -> dict[str, Any] | None:
        return None


class GPTSw3(BertGeneration):
    NAMES: tuple[str, ...] = ("GPTSw3",)

    def first_steps(self) -> list[dict[str, Any]]:
        return [
            {"type": "Replace", "pattern": {"Regex": UNPRINTED}, "content": ""},
            {"type": "Replace", "pattern": {"Regex": WHITE}, "content": " "}, {"type": "NFC"},
        ]  # fmt: skip


class Unigram(Llama):
    """A unigram model whose settings name no class."""

    NAMES: tuple[str, ...] = ()

    def post_processor(self) -> dict[str, Any] | None:
        return template([], self.eos, second_type=0)


class T5(Unigram):
    NAMES: tuple[str, ...] = ("T5",)

    def tokens_behind(self, listed: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        count = self.settings.get("extra_ids", T5_EXTRA_IDS)
        count = count if type(count) is int and 0 <= count <= EXTRA_IDS_LIMIT else T5_EXTRA_IDS
        last = len(self.model.pieces) + count - 1
        return {last - index: added_token(last - index, f"<extra_id_{index}>") for index in range(count)}


def _classes(of: type[SentencePieceClass]) -> Iterator[tuple[str, type[SentencePieceClass]]]:
    for found in of.__subclasses__():
        yield from ((name, found) for name in found.NAMES)
        yield from _classes(found)


CLASSES = dict(_classes(SentencePieceClass))  # by name


def document_of_class(
    model: SentencePieceModel, settings: Mapping[str, Any], where: str, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The tokenizer.json of a .model file with the ids and special tokens of the class that `settings`
    (tokenizer_config.json) name; `numbers`: those of a vocab.json beside it, which M2M100 and Speech2Text
    have. ModelError for a class
    that is not known, FileFormatError for numbers with gaps or without special tokens.
    """
    name = settings.get("tokenizer_class")
    name = name.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(name, str) else ""
    if name not in CLASSES:
        raise ModelError(
            f"the tokenizer's class {name!r:.60} is not known for a sentencepiece model", where=where,
            hint="Give its tokenizer.json: `save_pretrained` of the fast tokenizer of transformers writes one",
        )  # fmt: skip
    found = Unigram if not name and model.kind == "unigram" else CLASSES[name]
    tokenizer = found(model, settings, where, numbers)
    tokenizer.number()
    document = sentencepiece_document(model, tokenizer.post_processor(), where)
    if steps := tokenizer.first_steps():
        document["normalizer"] = sequence("normalizers", [*steps, *steps_of(document["normalizer"])])
    tokenizer.finish(document)
    listed = more_tokens(settings)
    added = {entry["id"]: entry for entry in document["added_tokens"]} | tokenizer.tokens_behind(listed)
    for number, entry in listed.items():
        piece = model.pieces[number] if number < len(model.pieces) else entry["content"]
        if piece == entry["content"]:
            added[number] = entry
    document["added_tokens"] = [added[number] for number in sorted(added)]
    return document
