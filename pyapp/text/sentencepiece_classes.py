"""The ids and special tokens that the tokenizer classes of transformers give the pieces of a sentencepiece model.

Models that were trained with fairseq (Ott et al. 2019) put tokens of their own before the pieces, and others behind
them: the languages of mBART (Liu et al. 2020; Tang et al. 2020), and `<mask>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import ModelError
from pyapp.formats.sentencepiece_model import CONTROL, UNKNOWN, SentencePieceModel
from pyapp.text.documents import SPACE, added_token, sequence, template
from pyapp.text.sentencepiece_vocabulary import sentencepiece_document
from pyapp.text.vocabulary_files import more_tokens, token_name

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
FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
# By class: the tokens before the pieces, how many pieces these replace, and the languages behind them.
OF_FAIRSEQ: Mapping[str, tuple[Sequence[str], int, Sequence[str]]] = {
    "XLMRoberta": (FAIRSEQ, 3, ()),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1, ()),
    "MBart": (FAIRSEQ, 3, MBART),
    "MBart50": (FAIRSEQ, 3, MBART50),
}
MASK_BEHIND = {"DebertaV2": "[MASK]", "Barthez": "<mask>"}  # by class: a mask that is no piece comes behind them
LLAMA = ("", "Llama", "CodeLlama", "Gemma", "PreTrained", "Yi", "Baichuan", "InternLM", "InternLM2")


def document_of_class(model: SentencePieceModel, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The tokenizer.json of a .model file with the ids and special tokens of the class that `settings`
    (tokenizer_config.json) name. ModelError for a class that is not known.
    """
    kind = settings.get("tokenizer_class")
    kind = kind.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(kind, str) else ""
    if kind in OF_FAIRSEQ:
        _number_as_fairseq(model, *OF_FAIRSEQ[kind])
    post = _post_processor(kind, model, settings, where)
    document = sentencepiece_document(model, post, where)
    if steps := _first_steps(kind, settings):
        document["normalizer"] = sequence("normalizers", [*steps, *steps_of(document["normalizer"])])
    if settings.get("legacy") is False and model.add_dummy_prefix and kind in ("T5", *LLAMA):
        _only_first_space(document)
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
    model: SentencePieceModel, front: Sequence[str], replaced: int, languages: Sequence[str]
) -> None:  # fmt: skip
    """Gives the pieces the ids of fairseq: `front`, all but the first `replaced` pieces, languages, `<mask>`."""
    behind = (*languages, "<mask>")
    kinds = [UNKNOWN if piece == "<unk>" else CONTROL for piece in front]
    model.pieces = [*front, *model.pieces[replaced:], *behind]
    model.scores = [*[0.0] * len(front), *model.scores[replaced:], *[0.0] * len(behind)]
    model.types = [*kinds, *model.types[replaced:], *[CONTROL] * len(behind)]
    number_of = {piece: number for number, piece in enumerate(model.pieces)}
    model.bos_id, model.pad_id, model.eos_id, model.unk_id = (
        number_of.get(name, -1) for name in ("<s>", "<pad>", "</s>", "<unk>")
    )


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
    """Puts a space before the beginning of a text only, not behind special tokens within it (`"legacy": false`)."""
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
    if kind in ("XLMRoberta", "Camembert", "Barthez"):
        return template(bos, eos, between=[*eos, *eos], second_type=0)
    if kind in ("MBart", "MBart50"):
        name = token_name(settings, "src_lang", "en_XX")
        if name not in OF_FAIRSEQ[kind][2]:
            raise ModelError(f"src_lang {name!r:.40} is no language of this tokenizer", where=where)
        language = [(name, number_of[name])]
        if kind == "MBart":
            return template([], [*eos, *language], between=[], second_type=0)
        return template(language, eos, between=[], second_type=0)
    if kind in ("Albert", "DebertaV2"):
        sep = named("sep_token", "[SEP]", model.eos_id)
        return template(named("cls_token", "[CLS]", model.bos_id), sep, between=sep)
    if kind == "T5" or (not kind and model.kind == "unigram"):
        return template([], eos, second_type=0)
    if kind in LLAMA:
        front = bos if settings.get("add_bos_token", True) is not False else []
        return template(front, eos if settings.get("add_eos_token") is True else [])
    raise ModelError(
        f"the tokenizer's class {kind!r:.60} is not known for a sentencepiece model", where=where,
        hint="Give its tokenizer.json: `save_pretrained` of the fast tokenizer of transformers writes one",
    )  # fmt: skip
