"""The ids and special tokens that the tokenizer classes of transformers give the pieces of a sentencepiece model.

Models that were trained with fairseq (Ott et al. 2019) put tokens of their own before the pieces, and others after
them: the languages of mBART (Liu et al. 2020; Tang et al. 2020), and `<mask>`. M2M100 (Fan et al. 2020) and
Speech2Text (Wang et al. 2020) number the pieces in a vocab.json. Pegasus (Zhang et al. 2019) puts what its training
masked before them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
M2M100 = {
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
NEVER = -1e4  # the score of pieces that vocab.json has and the .model file has not
# By class: the tokens before the pieces, how many pieces these replace, and the languages after them.
OF_FAIRSEQ: Mapping[str, tuple[Sequence[str], int, Sequence[str]]] = {
    "XLMRoberta": (FAIRSEQ, 3, ()),
    "MLuke": (FAIRSEQ, 3, ()),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1, ()),
    "MBart": (FAIRSEQ, 3, MBART),
    "MBart50": (FAIRSEQ, 3, MBART50),
    "PLBart": (FAIRSEQ, 3, PLBART),
}
MASK_BEHIND = {"DebertaV2": "[MASK]", "Barthez": "<mask>"}  # by class: a mask that is not a piece comes after them
LLAMA = (
    "", "Llama", "CodeLlama", "Gemma", "PreTrained", "Yi", "Baichuan", "BaiChuan", "InternLM", "InternLM2", "Orion",
    "Arctic",
)  # fmt: skip


def document_of_class(
    model: SentencePieceModel, settings: Mapping[str, Any], where: str, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The tokenizer.json of a .model file with the ids and special tokens of the class that `settings`
    (tokenizer_config.json) name; `numbers`: those of a vocab.json beside it, which M2M100 and Speech2Text
    have. ModelError for a class
    that is not known, FileFormatError for numbers with gaps or without special tokens.
    """
    kind = settings.get("tokenizer_class")
    kind = kind.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(kind, str) else ""
    if kind in OF_FAIRSEQ:
        front, replaced, languages = OF_FAIRSEQ[kind]
        many = kind == "PLBart" and settings.get("language_codes") == "multi"
        _number_as_fairseq(model, front, replaced, (*languages, *(PLBART_MORE if many else ("<mask>",))))
    elif kind == "SeamlessM4T":
        _number_as_fairseq(model, SEAMLESS, 3, ())
    elif kind == "Pegasus":
        _number_as_fairseq(model, PEGASUS, 2, ())
    elif kind == "M2M100":
        _number_as_listed(model, numbers, languages_of_m2m100(settings, where), where)
    elif kind == "Speech2Text":
        _number_as_listed(model, numbers, [piece for piece in numbers or () if LANGUAGE.fullmatch(piece)], where)
    post = _post_processor(kind, model, settings, where)
    document = sentencepiece_document(model, post, where)
    if steps := _first_steps(kind, settings):
        document["normalizer"] = sequence("normalizers", [*steps, *steps_of(document["normalizer"])])
    first = kind == "SeamlessM4T" or (settings.get("legacy") is False and kind in ("T5", *LLAMA))
    if first and model.add_dummy_prefix:
        _only_first_space(document)
    if kind == "SeamlessM4T":  # whose space before a text is one of its own, if it has any
        for step in steps_of(document["normalizer"]):
            if step["type"] == "Strip":
                step["strip_left"] = False
    added = {entry["id"]: entry for entry in document["added_tokens"]}
    if kind == "T5":
        count = settings.get("extra_ids", T5_EXTRA_IDS)
        count = count if type(count) is int and 0 <= count <= EXTRA_IDS_LIMIT else T5_EXTRA_IDS
        last = len(model.pieces) + count - 1
        added |= {last - index: added_token(last - index, f"<extra_id_{index}>") for index in range(count)}
    listed = more_tokens(settings)
    if kind in MASK_BEHIND:
        mask, behind = token_name(settings, "mask_token", MASK_BEHIND[kind]), len(model.pieces)
        if mask not in model.pieces and mask not in {entry["content"] for entry in listed.values()}:
            added[behind] = added_token(behind, mask) | {"lstrip": kind == "Barthez"}
    for number, entry in listed.items():
        piece = model.pieces[number] if number < len(model.pieces) else entry["content"]
        if piece == entry["content"]:
            added[number] = entry
    document["added_tokens"] = [added[number] for number in sorted(added)]
    return document


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
    if kind not in M2M100:
        raise ModelError(f"language_codes is {kind!r:.40}, expected one of {', '.join(M2M100)}", where=where)
    return [f"__{code}__" for code in M2M100[kind].split()]


def _first_steps(kind: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a class does to a text before sentencepiece's own normaliser."""
    steps: list[dict[str, Any]] = []
    if kind == "Albert":
        steps += [{"type": "Replace", "pattern": {"String": mark}, "content": '"'} for mark in ("``", "''")]
        if settings.get("keep_accents") is not True:
            steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if settings.get("do_lower_case", kind == "Albert") is True and kind in ("Albert", "DebertaV2"):
        steps.append({"type": "Lowercase"})
    return steps


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


def _post_processor(
    kind: str, model: SentencePieceModel, settings: Mapping[str, Any], where: str
) -> dict[str, Any] | None:
    number_of = {piece: number for number, piece in enumerate(model.pieces)}

    def named(role: str, usual: str, number: int) -> list[tuple[str, int]]:
        name = token_name(settings, role, usual)
        if name in number_of:
            return [(name, number_of[name])]
        return [(model.pieces[number], number)] if number >= 0 else []

    bos = named("bos_token", "<s>", model.bos_id)
    eos = named("eos_token", "</s>", model.eos_id)
    if kind in ("XLMRoberta", "MLuke", "Camembert", "Barthez"):
        return template(bos, eos, between=[*eos, *eos], second_type=0)
    if kind in ("MBart", "MBart50"):
        name = token_name(settings, "src_lang", "en_XX")
        if name not in OF_FAIRSEQ[kind][2]:
            raise ModelError(f"src_lang {name!r:.40} is not a language of this tokenizer", where=where)
        language = [(name, number_of[name])]
        if kind == "MBart":
            return template([], [*eos, *language], between=[], second_type=0)
        return template(language, eos, between=[], second_type=0)
    if kind == "PLBart":
        many = settings.get("language_codes") == "multi"
        name = token_name(settings, "src_lang", "en_XX" if many else "")
        if not name:
            return template([], eos, between=[], second_type=0)
        name = name if name.startswith("__") else f"__{name}__"
        if name not in (*PLBART, *(PLBART_MORE if many else ())):
            raise ModelError(f"src_lang {name.strip('_')!r:.40} is not a language of this tokenizer", where=where)
        return template([], [*eos, (name, number_of[name])], between=[], second_type=0)
    if kind == "M2M100":
        name = f"__{token_name(settings, 'src_lang', 'en')}__"
        if name not in languages_of_m2m100(settings, where):
            raise ModelError(f"src_lang {name.strip('_')!r:.40} is not a language of this tokenizer", where=where)
        return template([(name, number_of[name])], eos, between=[], second_type=0)
    if kind in ("Albert", "DebertaV2"):
        sep = named("sep_token", "[SEP]", model.eos_id)
        return template(named("cls_token", "[CLS]", model.bos_id), sep, between=sep)
    if kind == "SeamlessM4T":
        name = f"__{token_name(settings, 'src_lang', 'eng').strip('_')}__"
        numbers = [number for number, entry in more_tokens(settings).items() if entry["content"] == name]
        return template([(name, number) for number in numbers[:1]], eos, between=[], second_type=0)
    if kind == "Speech2Text":
        name = f"<lang:{token_name(settings, 'tgt_lang', '')}>"
        language = [(name, number_of[name])] if name in number_of else []
        return template(language, eos, between=[], second_type=0)
    if kind == "Pegasus":
        return template([], eos, between=[], second_type=0)
    if kind == "T5" or (not kind and model.kind == "unigram"):
        return template([], eos, second_type=0)
    if kind in LLAMA:
        front = bos if settings.get("add_bos_token", True) is not False else []
        return template(front, eos if settings.get("add_eos_token") is True else [])
    raise ModelError(
        f"the tokenizer's class {kind!r:.60} is not known for a sentencepiece model", where=where,
        hint="Give its tokenizer.json: `save_pretrained` of the fast tokenizer of transformers writes one",
    )  # fmt: skip
