"""Tasks over many texts: embeddings, labels, ranking, masked words, translation, labelled parts, answers.

The tasks are streams of events: Progress, an Item for each text as soon as its batch is done, and Done.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import pyapp
from pyapp.engine import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Item, Notice, Progress
from pyapp.text.spans import softmax
from pyapp.text.tokenization.encoding import Encoding

from .core import Breath, Events, Remote, Step, only_here, task
from .keeper import keeper
from .ranking import MASKS, embed_tokens, refuse_late, rerank_texts
from .spans import answer_questions, label_tokens
from .text_batches import BATCH_SIZE, Work, batches, checked_texts, encoded, grouped, prompt_of, sigmoid

if TYPE_CHECKING:
    from pyapp.text.generation.sequence_to_sequence import SearchOptions

T = TypeVar("T")
# The tokens of the languages of mBART and NLLB (de_DE, deu_Latn), of M2M100 (__de__) and PLBART (__java__, __en_XX__).
LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,10}(_XX)?__")
LISTED = 24  # languages in an error
SPARSE = 256  # words of a sparse vector, unless more are asked for

# -- the work, step by step: generators of events over a loaded model


def embed_texts(
    loaded: Any,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    prompt_name: str | None = None,
    normalize: bool | None = None,
    dimensions: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `embedding`, a list of floats; Done with `dimensions` and `similarity`, the measure that the model was
    made for.

    `prompt` is put before each text, or the model's prompt of that name, or its default prompt. `normalize`: vectors of
    length 1; None: as the model's folder says. `dimensions`: only so many numbers of each vector, the first
    (Matryoshka: Kusupati et al. 2022, arXiv 2205.13147), before it gets the length 1.
    """
    encodings, skipped = yield from encoded_for_embedding(loaded, texts, prompt, prompt_name)
    yield from embed_encoded(loaded, encodings, skipped, normalize, batch_size, dimensions)


def encoded_for_embedding(
    loaded: Any, texts: Sequence[str], prompt: str | None = None, prompt_name: str | None = None
) -> Generator[Progress, None, tuple[list[Encoding], int]]:
    """Progress while texts are split into tokens; returns their encodings with the prompt, and the prompt's tokens."""
    refuse_late(loaded)
    model, settings = loaded.model, loaded.model.settings
    texts = checked_texts(texts)
    usual = "" if settings.default_prompt is None else settings.prompts[settings.default_prompt]
    start = prompt_of(loaded, prompt, prompt_name, usual)
    # The tokens of the prompt and those before it, as sentence-transformers counts them: without the last special one.
    skipped = len(loaded.tokenizer.encode(start, eos=False)) if start else 0
    encodings = yield from encoded(loaded, [start + text for text in texts] if start else texts, None, model.most)
    return encodings, skipped


def embed_encoded(
    loaded: Any, encodings: Sequence[Encoding], skipped: int, normalize: bool | None = None,
    batch_size: int = BATCH_SIZE, most: int | None = None,
) -> Work:  # fmt: skip
    """As embed_texts, of what encoded_for_embedding gives; `most` are its dimensions."""
    from pyapp.models.sentences.embedding import normalized

    model, settings = loaded.model, loaded.model.settings
    if most is not None and (type(most) is not int or most < 1):
        raise OptionError(f"{most!r:.40} is not a number from 1", where="dimensions")

    def run(ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        y: Tensor = model(ids, mask, types, skipped)
        if most is not None and most > y.shape[1]:
            raise OptionError(f"the model's vectors have {y.shape[1]:,} numbers, not {most:,}", where="dimensions")
        y = y if most is None else y.narrow(1, 0, most)
        return normalized(y) if normalize else y

    dimensions = 0
    for index, vector in batches(loaded, encodings, run, batch_size):
        if isinstance(vector, Event):
            yield vector
            continue
        dimensions = len(vector)
        yield Item(index, {"embedding": vector})
    yield Done("complete", {"count": len(encodings), "dimensions": dimensions, "similarity": settings.similarity})


def sparse_texts(
    loaded: Any, texts: Sequence[str], *, top: int | None = None, batch_size: int = BATCH_SIZE
) -> Work:  # fmt: skip
    """Items with `words`, their `ids` and `weights`, largest first: a sparse vector over the vocabulary, of at most
    `top` words (None: 256), by a model that fills masks and was trained for it (SPLADE: Formal et al. 2021, arXiv
    2109.10086). The weight of a word is log(1 + its largest score above 0 at any token). Done with `dimensions`, the
    vocabulary's.
    """
    words = loaded.model.config.vocab_size
    top = min(SPARSE, words) if top is None else top
    if type(top) is not int or not 1 <= top <= words:
        raise OptionError(f"{top!r:.40} is not a number of words from 1 to {words:,}", where="top")
    texts = checked_texts(texts)
    encodings = yield from encoded(loaded, texts, None, loaded.model.encoder.most)

    def run(ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        scores = loaded.model(ids, mask, types).relu() * mask.to("float32").unsqueeze(-1)  # (B, T, V)
        found: Tensor = pyapp.cat(list(scores.amax(1).log1p().topk(top, -1)), -1)  # (B, 2 top): weights, then ids
        return found

    tokenizer = loaded.tokenizer
    for index, row in batches(loaded, encodings, run, batch_size):
        if isinstance(row, Event):
            yield row
            continue
        weights = [weight for weight in row[:top] if weight > 0]
        numbers = [int(number) for number in row[top : top + len(weights)]]
        named = [tokenizer.piece(number) or f"<{number}>" for number in numbers]
        yield Item(index, {"words": named, "ids": numbers, "weights": weights})
    yield Done("complete", {"count": len(texts), "dimensions": words})


def classify_texts(
    loaded: Any,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    top: int | None = None,
    raw_scores: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `labels`: the names and probabilities of the labels, the most probable first, at most `top` of them.

    The probabilities of one text add up to 1, unless the model has one label or is made for several at once.
    `raw_scores`: the model's own numbers, before they become probabilities.
    """
    check_top(top)
    texts = checked_texts(texts)
    encodings = yield from encoded(loaded, texts, pairs, loaded.model.encoder.most)
    for index, scores in batches(loaded, encodings, loaded.model, batch_size):
        if isinstance(scores, Event):
            yield scores
            continue
        if raw_scores:
            order = sorted(range(len(scores)), key=lambda i: -scores[i])[:top]
            labels = [{"label": loaded.model.config.labels[i], "score": scores[i]} for i in order]
        else:
            labels = ranked_labels(loaded, scores, top)
        yield Item(index, {"labels": labels})
    yield Done("complete", {"count": len(texts)})


def check_top(top: int | None) -> None:
    """OptionError unless `top` is None or a number from 1."""
    if top is not None and (type(top) is not int or top < 1):
        raise OptionError(f"{top!r} is not a number of labels from 1", where="top")


def ranked_labels(loaded: Any, scores: Sequence[float], top: int | None) -> list[dict[str, Any]]:
    """The names and probabilities of a classifier's labels, the most probable first, at most `top` of them."""
    names = loaded.model.config.labels
    several = loaded.settings.get("problem_type") == "multi_label_classification" or len(names) == 1
    return ranked(names, scores, several, top)


def ranked(names: Sequence[str], scores: Sequence[float], independent: bool, top: int | None) -> list[dict[str, Any]]:
    """Names with the probabilities of their scores, the most probable first, at most `top` of them. independent: each
    has a probability of its own, else all add up to 1.
    """
    chances = [sigmoid(score) for score in scores] if independent else softmax(scores)
    order = sorted(range(len(names)), key=lambda i: -chances[i])[:top]
    return [{"label": names[i], "score": chances[i]} for i in order]


def fill_masks(loaded: Any, texts: Sequence[str], *, top: int = 5, batch_size: int = BATCH_SIZE) -> Work:
    """Items with `masks`: for each masked word of a text, the `top` words that may stand there, with their
    probabilities, their ids, and the text with that word.
    """
    tokenizer = loaded.tokenizer
    mask = tokenizer.special_id("mask_token")  # XLM's is <special1>
    names = (*MASKS, *([] if mask is None else [tokenizer.piece(mask)]))
    mask_name = next((name for name in names if name in tokenizer.special_names), None)
    if mask_name is None:
        raise ModelError("the tokenizer has no token for masked words", where=loaded.name)
    if type(top) is not int or not 1 <= top <= loaded.model.config.vocab_size:
        raise OptionError(f"{top!r} is not a number of words from 1", where="top")
    [mask_id] = tokenizer.encode(mask_name, bos=False, eos=False)
    texts = checked_texts(texts)
    encodings = yield from encoded(loaded, texts, None, loaded.model.encoder.most)
    for text, encoding in zip(texts, encodings, strict=True):
        if mask_id not in encoding.ids:
            raise OptionError(f"{text!r:.60} has no {mask_name}", where="texts", hint=f"Write {mask_name} for the word")

    def run(ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        logits = loaded.model(ids, mask, types)  # (B, T, V)
        found: Tensor = pyapp.cat(list(logits.softmax(-1).topk(top, -1)), -1)  # (B, T, 2 top): chances, then ids
        return found

    for index, rows in batches(loaded, encodings, run, batch_size):
        if isinstance(rows, Event):
            yield rows
            continue
        ids, masks = encodings[index].ids, []
        for place, row in enumerate(rows[: len(ids)]):
            if ids[place] != mask_id:
                continue
            words = []
            for score, number in zip(row[:top], map(int, row[top:]), strict=True):
                filled = [number if i == place else other for i, other in enumerate(ids)]
                word = tokenizer.decode([number]).strip()
                words.append({"word": word, "id": number, "score": score, "text": tokenizer.decode(filled)})
            masks.append(words)
        yield Item(index, {"masks": masks})
    yield Done("complete", {"count": len(texts)})


def translate_texts(
    loaded: Any,
    texts: Sequence[str],
    *,
    prefix: str = "",
    source: str | None = None,
    target: str | None = None,
    batch_size: int = BATCH_SIZE,
    **options: Any,
) -> Work:
    """Items with `text`: what the model writes for each text, a translation or a summary.

    `prefix` is put before each text ("translate English to German: " of T5, ">>fra<< " of OPUS-MT). `source`, `target`:
    the language of the texts and that to write, by its token or the code in it ("de_DE" or "de" of mBART, "deu_Latn" or
    "deu" of NLLB, "de" of M2M100). The other options are those of
    text.generation.sequence_to_sequence.SearchOptions, by default those of the model's generation_config.json.
    """
    settings = _search_options(loaded, target, options)
    encodings = yield from _encoded_sources(loaded, checked_texts(texts), prefix, source)
    done = 0
    for chosen, written in _written(loaded, encodings, settings, batch_size):
        if written is None:
            yield None
            continue
        for index, text in zip(chosen, written, strict=True):
            yield Item(index, {"text": text})
        done += len(chosen)
        yield Progress("texts", done, len(texts), "texts")
    yield Done("complete", {"count": len(texts)})


def _search_options(loaded: Any, target: str | None, options: dict[str, Any]) -> SearchOptions:
    """The options of a search that writes the language `target`."""
    from pyapp.text.generation.sequence_to_sequence import SearchOptions

    if target is not None:
        options = {**options, "forced_bos_token_id": language_of(loaded.tokenizer, target, "target")}
    return SearchOptions.from_files(loaded.settings, loaded.generation, options)


def _encoded_sources(
    loaded: Any, texts: list[str], prefix: str, source: str | None
) -> Generator[Progress, None, list[Encoding]]:
    """The encodings of texts of the language `source`, as long as the model reads."""
    encodings = yield from encoded(loaded, [prefix + text for text in texts], None, loaded.model.most)
    if source is not None:
        from_language(loaded.tokenizer, encodings, source)
    return encodings


def _result(work: Generator[Any, None, T]) -> T:
    """What a generator returns at its end; what it yields is passed over."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def _written(
    loaded: Any, encodings: Sequence[Encoding], settings: SearchOptions, batch_size: int
) -> Iterator[tuple[list[int], list[str] | None]]:
    """What the model writes, batch by batch: the places of the texts, with None after each token, at last texts."""
    from pyapp.text.generation.sequence_to_sequence import search

    for chosen, rows in grouped(loaded, encodings, batch_size):
        written: list[list[int]] = []
        for state in search(loaded.model, rows("ids"), rows("attention_mask"), settings):
            written = state or []
            yield chosen, None
        yield chosen, [loaded.tokenizer.decode(ids).strip() for ids in written]


def translate_parts(
    loaded: Any,
    text: str,
    *,
    division: str = "sentences",
    prefix: str = "",
    source: str | None = None,
    target: str | None = None,
    **options: Any,
) -> Work:
    """Items with `start` and `end`, characters of a long text, and `text`, what the model writes for that part, in the
    order of the text. `division`: its "sentences", as models of translation were trained on, its "paragraphs", or the
    "whole". A Notice says that parts are longer than the model reads; their ends are left out. The other options are
    those of translate_texts, whose batches these parts do without.
    """
    from pyapp.text.passages import paragraphs, sentences

    divisions: dict[str, Callable[[str], list[tuple[int, int]]]] = {
        "sentences": sentences,
        "paragraphs": paragraphs,
        "whole": lambda text: [(0, len(text))],
    }
    if division not in divisions:
        raise OptionError(f"{division!r:.40} is none of {', '.join(divisions)}", where="division")
    settings = _search_options(loaded, target, options)
    [text] = checked_texts([text])
    spans = divisions[division](text) if text.strip() else []
    cut = longest = 0
    for index, (start, end) in enumerate(spans):
        (encoding,) = _result(_encoded_sources(loaded, [text[start:end]], prefix, source))
        cut, longest = cut + (encoding.cut > 0), max(longest, len(encoding))
        for _, written in _written(loaded, [encoding], settings, 1):
            yield None if written is None else Item(index, {"start": start, "end": end, "text": written[0]})
        yield Progress("parts", index + 1, len(spans), "parts")
    if cut:
        whose = "the text is" if len(spans) == 1 else f"{cut:,} of {len(spans):,} parts {'is' if cut == 1 else 'are'}"
        left = "its end was" if cut == 1 else "their ends were"
        yield Notice(
            f"{whose} longer than the {longest:,} tokens that this model reads: {left} left out",
            hint=None if division == "sentences" else "Divide the text into smaller parts",
        )
    yield Done("complete", {"count": len(spans)})


def languages_of(tokenizer: Any) -> list[str]:
    """The tokens of the languages that a tokenizer has: "de_DE" of mBART, "deu_Latn" of NLLB, "__de__" of M2M100."""
    return sorted(filter(LANGUAGE.fullmatch, tokenizer.special_names))


def prefixes_of(settings: Mapping[str, Any]) -> list[str]:
    """The texts that tell a model what to do, from its config.json: T5's `task_specific_params`."""
    tasks = settings.get("task_specific_params")
    given = [task.get("prefix") for task in tasks.values() if isinstance(task, dict)] if isinstance(tasks, dict) else []
    return [prefix for prefix in given if isinstance(prefix, str) and prefix.strip()]


def language_of(tokenizer: Any, name: str, where: str) -> int:
    """The id of a language's token, by the token or the code in it. OptionError for a code of none or several."""
    chosen = [name]
    if name not in tokenizer.special_names:
        languages = languages_of(tokenizer)
        chosen = [token for token in languages if token == f"__{name}__" or token.startswith(f"{name}_")]
        if len(chosen) != 1:
            known = chosen or languages
            raise OptionError(
                f"the tokenizer has {'several tokens' if chosen else 'no token'} {name!r:.60}", where=where,
                hint=f"Choose {', '.join(known[:LISTED])}{' …' if len(known) > LISTED else ''}" if known else None,
            )  # fmt: skip
    [found] = tokenizer.encode(chosen[0], bos=False, eos=False)
    return int(found)


def from_language(tokenizer: Any, encodings: Sequence[Encoding], source: str) -> None:
    """Writes the token of the language `source` where the tokenizer puts that of its usual one beside a text."""
    wanted = language_of(tokenizer, source, "source")
    languages = {language_of(tokenizer, name, "source") for name in languages_of(tokenizer)}
    for encoding in encodings:
        places = [i for i, text in enumerate(encoding.texts) if text is None and encoding.ids[i] in languages]
        if not places:
            raise OptionError(
                "this tokenizer does not mark the language of a text",
                where="source",
                hint="Write it before the texts: prefix",
            )
        for place in places:
            encoding.ids[place] = wanted


# -- streams of events

# The loader of a task, where it has another name.
LOADED_FOR = {
    "embed-image": "match-image", "embed-pages": "rank-pages", "embed-sparse": "fill-mask",
    "video-classification": "classify-video", "audio-classification": "classify-sound",
    "audio-frame-classification": "label-sound",
    "zero-shot-audio-classification": "match-sound", "translate-text": "translate",
    **dict.fromkeys(("embed-tokens", "index", "vectors", "nearest_sentences"), "embed"),
}  # fmt: skip


async def _stream(
    name: str, work: Callable[..., Work], arguments: Sequence[Any], model: Any, key: object,
    of_loader: Mapping[str, Any], cancel: Cancel | None, options: Mapping[str, Any],
) -> AsyncGenerator[Event, None]:  # fmt: skip
    cancel = cancel or Cancel()
    if isinstance(model, Remote):
        only_here(**of_loader)
        async with aclosing(model.of_texts(name, arguments, options, cancel)) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    async with Step(keeper.get(LOADED_FOR.get(name, name), model, None, key, cancel, **of_loader)) as loading:
        async for step in loading:
            yield step
    breath = Breath()
    await breath.take()
    for event in work(loading.value, *arguments, **options):
        if event is not None:
            yield event
        cancel.check()
        await breath.take()


def stream_of(
    name: str, work: Callable[..., Work], remote: bool = True, check: Callable[..., None] | None = None,
    loading: Sequence[str] = (),
) -> Callable[..., Events]:  # fmt: skip
    """The stream of a task: arguments and options of `work`, and those of every stream here. remote: whether a server's
    model may do the work. check: gets the arguments and options before the model is loaded, and raises what is wrong
    with them. loading: the options that are the loader's.
    """

    @task
    def stream(
        *arguments: Any, model: Any = None, key: object = None, dtype: str | None = None,
        cancel: Cancel | None = None, **options: Any,
    ) -> Events:  # fmt: skip
        if isinstance(model, Remote) and not remote:
            raise OptionError("a server's models do not do this", where="model")
        if check is not None:
            check(*arguments, **options)
        of_loader: dict[str, Any] = {"dtype": dtype}
        if not hasattr(model, "tokenizer"):
            of_loader |= {name: options.pop(name) for name in loading if name in options}
        return _stream(name, work, arguments, model, key, of_loader, cancel, options)

    stream.__doc__ = (
        f"{work.__doc__}\n\n    `model` is a folder, a name on the hub or a loaded model; `key` identifies models "
        'without a name: the last\n    used model is kept. `dtype` ("q8_0" …): the type of the matrices.\n    '
    )
    return stream


embed = stream_of("embed", embed_texts)
embed_sparse = stream_of("embed-sparse", sparse_texts, remote=False)
classify = stream_of("classify", classify_texts)
embed_every_token = stream_of("embed-tokens", embed_tokens, remote=False)
rerank = stream_of("rerank", rerank_texts)
fill_mask = stream_of("fill-mask", fill_masks)
translate = stream_of("translate", translate_texts)
translate_text = stream_of("translate-text", translate_parts, remote=False)
label = stream_of("token-classification", label_tokens)
answer = stream_of("question-answering", answer_questions)
