"""Search in texts by meaning: `index` splits texts into passages and embeds them, `best_sentences` finds the sentence
of each passage that is nearest to a question. Passages are compared by the dot product of vectors of length 1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from pyapp.errors import OptionError
from pyapp.events import Done, Event, Item, Progress
from pyapp.text import passages

from .texts import Work, embed_texts, stream_of

PASSAGE_TOKENS = 200
OVERLAP_TOKENS = 40
# Texts in a batch. A batch is not interrupted, so it must be short enough for a Stop; larger ones are hardly faster.
BATCH_SIZE = 4
PASSAGES_AT_ONCE = 32  # embedded together, those of similar length in a batch: a Stop loses no more
CHARACTERS_LIMIT = 1 << 26  # of all texts


def largest_passage(loaded: Any, prompt: str = "") -> int:
    """The tokens of the longest passage that the model reads whole after a prompt."""
    return int(loaded.model.most) - len(loaded.tokenizer.encode_batch([prompt])[0])


Found = tuple[int, int, int]  # a passage: the index of its text; the characters at which it begins and ends


def index_texts(
    loaded: Any, texts: Sequence[str], *, size: int = PASSAGE_TOKENS, overlap: int = OVERLAP_TOKENS, prompt: str = "",
    batch_size: int = BATCH_SIZE, start: int = 0,
) -> Work:  # fmt: skip
    """An Item for each passage of the texts, in order: `text` (the index of its text), `start` and `end` (characters),
    `embedding` (a list of floats, length 1). `size` and `overlap` in tokens: at most what the model reads. `prompt` is
    put before each passage.

    The Items come in groups while the texts are read: a Stop loses nothing of those that have come. To go on, give the
    texts from that of the last Item on, and as `start` the character at which it begins. It comes once more.
    """
    total = sum(map(len, texts))
    if total > CHARACTERS_LIMIT:
        raise OptionError(f"the texts have more than {CHARACTERS_LIMIT:,} characters", where="texts")
    size = min(size, largest_passage(loaded, prompt))
    overlap = min(overlap, size // 2)
    done, dimensions = 0, 0
    reached = start  # characters of all texts
    for group in _groups(loaded, texts, size, overlap, start):
        if group is None:
            yield None
            continue
        number, _, end = group[-1]
        until = sum(map(len, texts[:number])) + end
        vectors: dict[int, list[float]] = {}
        written = [texts[number][first:last] for number, first, last in group]
        for event in embed_texts(loaded, written, prompt=prompt, normalize=True, batch_size=batch_size):
            if isinstance(event, Item):
                vectors[event.index] = event.values["embedding"]
            elif isinstance(event, Progress) and event.what == "texts":
                share = event.done / len(group)
                yield Progress("embedding", reached + int((until - reached) * share), total, "characters")
            else:
                yield None
        for index, (number, first, last) in enumerate(group):
            values = {"text": number, "start": first, "end": last, "embedding": vectors[index]}
            yield Item(done + index, values)
        done, dimensions, reached = done + len(group), len(vectors[0]), until
    if not done:
        raise OptionError("there is no text to search", where="texts", hint="Give texts that have words in them")
    yield Done("complete", {"count": done, "dimensions": dimensions})


def _groups(loaded: Any, texts: Sequence[str], size: int, overlap: int, start: int) -> Iterator[list[Found] | None]:
    """The passages of the texts in groups that are embedded together; None between steps of the work."""

    def count(text: str) -> int:
        return len(loaded.tokenizer.encode(text, bos=False, eos=False))

    group: list[Found] = []
    for number, text in enumerate(texts):
        for span in passages.split(text, count, size, overlap, 0 if number else start):
            if span is None:
                yield None
                continue
            group.append((number, *span))
            if len(group) == PASSAGES_AT_ONCE:
                yield group
                group = []
    if group:
        yield group


def unit_vectors(loaded: Any, texts: Sequence[str], *, prompt: str = "", batch_size: int = BATCH_SIZE) -> Work:
    """The Items of pyapp.tasks.embed with vectors of length 1. `prompt` is put before each text."""
    yield from embed_texts(loaded, texts, prompt=prompt, normalize=True, batch_size=batch_size)


def best_sentences(
    loaded: Any, question: str, texts: Sequence[str], *, query_prompt: str = "", prompt: str = "",
    batch_size: int = BATCH_SIZE,
) -> Work:  # fmt: skip
    """An Item for each text: `start` and `end` (characters) of its sentence that is nearest to the question, and
    `score`, their cosine.
    """
    [asked] = yield from _vectors(loaded, [question], query_prompt, batch_size)
    spans = [(number, *span) for number, text in enumerate(texts) for span in passages.sentences(text)]
    vectors = yield from _vectors(loaded, [texts[number][a:b] for number, a, b in spans], prompt, batch_size)
    best: dict[int, tuple[float, int, int]] = {}
    for (number, start, end), vector in zip(spans, vectors, strict=True):
        score = sum(x * y for x, y in zip(asked, vector, strict=True))
        if number not in best or score > best[number][0]:
            best[number] = score, start, end
    for number, (score, start, end) in sorted(best.items()):
        yield Item(number, {"start": start, "end": end, "score": score})
    yield Done("complete", {"count": len(best)})


def _vectors(
    loaded: Any, texts: Sequence[str], prompt: str, batch_size: int
) -> Generator[Event | None, None, list[list[float]]]:
    found: dict[int, list[float]] = {}
    for event in embed_texts(loaded, texts, prompt=prompt, normalize=True, batch_size=batch_size):
        if isinstance(event, Item):
            found[event.index] = event.values["embedding"]
        elif not isinstance(event, Done):
            yield None
    return [found[index] for index in range(len(texts))]


def describe_embedder(loaded: Any) -> Mapping[str, Any]:
    """What a user interface shows of a model: `dimensions`, `longest` (tokens of a passage), its `prompts` by name."""
    settings = loaded.model.settings
    [vector] = [event.values["embedding"] for event in embed_texts(loaded, [PROBE], prompt="", normalize=True)
                if isinstance(event, Item)]  # fmt: skip
    return {
        "dimensions": len(vector), "longest": largest_passage(loaded), "prompts": dict(settings.prompts),
        "probe": vector,
    }  # fmt: skip


# A text whose vector tells models apart: vectors of two models cannot be compared.
PROBE = "The quick brown fox jumps over the lazy dog."

index = stream_of("index", index_texts, remote=False)
vectors = stream_of("vectors", unit_vectors, remote=False)
nearest_sentences = stream_of("nearest_sentences", best_sentences, remote=False)
