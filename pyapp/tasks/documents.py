"""Tasks over pages: labelled parts, answers to questions and labels, by a model that reads where words stand, such as
LayoutLM, or by one that reads their text alone.

A page is a picture (a path, bytes, a ByteSource or a tensor uint8 (height, width, 3 or 1)) or a PDF of several, in
which the embedded reader finds the words; or a mapping with `words`, `boxes` (left, top, right, bottom of each),
`width` and `height` of the page in the boxes' units (1000, if they are not said) and, for models that see pages,
`image`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Item, Notice, Progress
from pyapp.nn.vision.page_encoder import PAGE
from pyapp.text.spans import AGGREGATIONS, LONGEST_ANSWER, best_answers, labelled_spans, word_at
from pyapp.text.tokenization.encoding import Encoding

from .given_files import check_files, listed
from .keeper import LOADERS, known
from .reading import NO_TEXT, read_pages
from .spans import OVERLAP, check_limits, checked_questions, most_tokens
from .text_batches import BATCH_SIZE, Work, checked_texts, grouped
from .texts import check_top, ranked_labels, stream_of

MOST_WORDS = 1 << 20  # of a page
SIDES = 4  # of a box


@dataclass(frozen=True)
class Page:
    """The words of a page with their boxes, and its picture (1, 3, H, W) as the model takes it, if it sees pages.
    `number` is that of the page in its file.
    """

    source: int
    number: int
    words: list[str]
    boxes: list[tuple[float, ...]]
    size: tuple[float, float]  # width, height
    pixels: Tensor | None

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(self.words)

    def owners(self) -> list[int]:
        """The word of each character of the text; a space belongs to the word after it."""
        return [i for i, word in enumerate(self.words) for _ in range(len(word) + (i > 0))]

    def thousandths(self, word: int) -> tuple[int, ...]:
        """The box of a word in thousandths of the page."""
        return tuple(
            min(max(int(PAGE * side / self.size[i % 2]), 0), PAGE) for i, side in enumerate(self.boxes[word])
        )  # fmt: skip

    def around(self, first: int, last: int) -> tuple[float, ...]:
        """The box around some words."""
        lefts, tops, rights, bottoms = zip(*self.boxes[first : last + 1], strict=True)
        return min(lefts), min(tops), max(rights), max(bottoms)

    def place(self) -> dict[str, Any]:
        """What says where an answer is."""
        return {"picture": self.source, "page": self.number}


def check_pages(pages: Any, *_: Any, **more: Any) -> None:
    """OSError for a page whose file is not there, OptionError for a mapping that is not a page."""
    for page in listed(pages):
        if isinstance(page, Mapping):
            _given(None, 0, page)
        else:
            check_files([page])


def _given(loaded: Any, source: int, page: Mapping[str, Any]) -> Page:
    """The page of a mapping. OptionError for one that is none."""
    from pyapp.vision.reading import page_pictures

    words, boxes = page.get("words"), page.get("boxes")
    if not isinstance(words, list | tuple) or not isinstance(boxes, list | tuple) or len(words) != len(boxes):
        raise OptionError("a page has `words` and as many `boxes`", where="pages")
    if len(words) > MOST_WORDS:
        raise OptionError(f"a page has {len(words):,} words, at most {MOST_WORDS:,} are read", where="pages")
    size = page.get("width", PAGE), page.get("height", PAGE)
    if not all(type(side) in (int, float) and 0 < side < float("inf") for side in size):
        raise OptionError(f"width and height are {size!r:.60}, expected numbers above 0", where="pages")
    found = []
    for word, box in zip(checked_texts(words), boxes, strict=True):
        fits = isinstance(box, list | tuple) and len(box) == SIDES and all(type(side) in (int, float) for side in box)
        if not fits or not (0 <= box[0] <= box[2] <= size[0] and 0 <= box[1] <= box[3] <= size[1]):
            raise OptionError(
                f"the box of {word!r:.40} is {box!r:.80}, expected left, top, right and bottom on a page of "
                f"{size[0]:g} x {size[1]:g}",
                where="pages",
            )
        if word.strip():
            found.append((" ".join(word.split()), tuple(box)))
    image = page.get("image")
    pixels = None if loaded is None or image is None else _pixels(loaded, next(page_pictures(image)))
    return Page(source, 0, [word for word, _ in found], [box for _, box in found], size, pixels)


def _pixels(loaded: Any, picture: Tensor) -> Tensor | None:
    """A picture uint8 (H, W, 3) as the model takes it; None for a model that sees none."""
    processor = getattr(loaded, "processor", None)
    return None if processor is None else processor([picture], loaded.model.device).pixel_values


def _pages(loaded: Any, pages: Any, password: str | None) -> Generator[Event | None, None, list[Page]]:
    """Progress and Notices while the words of pages are read; returns the pages."""
    from pyapp.vision.reading import page_pictures

    pages, found, reader = listed(pages), [], None
    for source, page in enumerate(pages):
        yield Progress("pages", source, len(pages), "pages")
        if isinstance(page, Mapping):
            found.append(_given(loaded, source, page))
            continue
        reader = reader or LOADERS["read"](known(None, "read"), None, lambda event: None, Cancel())
        for number, picture in enumerate(page_pictures(page, password)):
            values = yield from _read(reader, picture)
            words = [
                word for region in values["regions"] for line in region["lines"] for word in line["words"]
            ]  # fmt: skip
            if not words:
                yield Notice(NO_TEXT, where=page if isinstance(page, str) else getattr(page, "name", None))
            size = float(values["width"]), float(values["height"])
            texts, boxes = [word["text"] for word in words], [tuple(word["box"]) for word in words]
            found.append(Page(source, number, texts, boxes, size, _pixels(loaded, picture)))
    return found


def _read(reader: Any, picture: Tensor) -> Generator[Event | None, None, Mapping[str, Any]]:
    """What the reader finds in a picture; yields only moments to do other work."""
    values: Mapping[str, Any] = {}
    for event in read_pages(reader, [picture]):
        if isinstance(event, Item):
            values = event.values
        yield None
    return values


def _scores(
    loaded: Any, page: Page, windows: Sequence[Encoding], batch_size: int
) -> Iterator[tuple[list[int], Any] | None]:
    """The numbers of windows over a page's text, and the model's scores of them as lists."""
    encoder = loaded.model.encoder
    reads_boxes, owners = getattr(encoder, "reads_boxes", False), page.owners()
    for chosen, rows in grouped(loaded, windows, batch_size):
        ids = rows("ids")  # (B, T)
        given: list[Tensor] = []
        if reads_boxes:
            boxes = [_boxes(loaded, page, owners, windows[i], ids.shape[1]) for i in chosen]
            flat = [side for row in boxes for box in row for side in box]
            given.append(int32_tensor(flat, loaded.model.device).reshape(*ids.shape, SIDES))
            if page.pixels is not None:
                given.append(page.pixels.expand(len(chosen), *page.pixels.shape[1:]).contiguous())
        with no_grad():
            found = loaded.model(ids, rows("attention_mask"), rows("type_ids"), *given)
        yield chosen, _checked(loaded, found)
        yield None


def _checked(loaded: Any, scores: Tensor) -> Any:
    """Scores as lists. ModelError for NaN."""
    if bool((scores != scores).any().item()):
        raise ModelError("the model computes NaN", where=loaded.name, hint="Its weights may be damaged")
    return scores.tolist()


def _boxes(loaded: Any, page: Page, owners: list[int], window: Encoding, length: int) -> list[tuple[int, ...]]:
    """The boxes of a window's tokens in thousandths: those of their words, and zeros for others."""
    second = 1 if 1 in window.texts else 0  # the text of the page, after a question
    ends = loaded.tokenizer.settings.get("sep_token_box", loaded.model.encoder.end_box)
    end = loaded.tokenizer.special_id("sep_token")
    boxes: list[tuple[int, ...]] = []
    for token, owner, span in zip(window.ids, window.texts, window.offsets or (), strict=True):
        if owner == second:
            boxes.append(page.thousandths(word_at(owners, span[1])))
        else:
            boxes.append(tuple(ends) if owner is None and token == end else (0,) * SIDES)
    return boxes + [(0,) * SIDES] * (length - len(boxes))


def label_pages(
    loaded: Any,
    pages: Any,
    *,
    aggregation: str = "first",
    ignore: Sequence[str] = ("O",),
    password: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `picture` and `page` (of a PDF), `width`, `height`, and `entities`: the labelled parts of each page,
    mappings with label, score, word, box, and start and end (words of the page).

    aggregation: as for label_tokens; by default a word has the label of its first token, as these models are trained.
    ignore: labels that are left out. password: opens PDFs that are locked.
    """
    if aggregation not in AGGREGATIONS:
        raise OptionError(f"{aggregation!r:.40} is none of {', '.join(AGGREGATIONS)}", where="aggregation")
    left_out, names = frozenset(checked_texts(ignore)), loaded.model.config.labels
    read = yield from _pages(loaded, pages, password)
    most = most_tokens(loaded)
    for index, page in enumerate(read):
        windows = loaded.tokenizer.windows(page.text, most, min(OVERLAP, most // 4), parse_special=False)
        parts: dict[int, Any] = {}
        for found in _scores(loaded, page, windows, batch_size) if page.words else ():
            if found is not None:
                parts |= dict(zip(*found, strict=True))
            yield None
        scored, owners = [(windows[i], parts[i]) for i in sorted(parts)], page.owners()
        entities = []
        for span in labelled_spans(loaded.tokenizer, page.text, scored, names, aggregation, owners):
            first, last = owners[min(span["start"], len(owners) - 1)], word_at(owners, span["end"])
            if span["label"] not in left_out:
                entity = {"label": span["label"], "score": span["score"], "word": span["word"].strip()}
                entities.append(entity | {"box": page.around(first, last), "start": first, "end": last + 1})
        size = {"width": page.size[0], "height": page.size[1]}
        yield Item(index, {**page.place(), **size, "entities": entities})
        yield Progress("pages", index + 1, len(read), "pages")
    yield Done("complete", {"count": len(read)})


def answer_pages(
    loaded: Any,
    questions: Sequence[str],
    pages: Any,
    *,
    top: int = 1,
    longest: int = LONGEST_ANSWER,
    impossible: bool = False,
    password: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `answers`: the `top` best answers to each question on any of the pages, mappings with answer, score,
    `picture`, `page` (of a PDF), box, and start and end (words of the page). An answer is whole words; the options are
    those of answer_questions. password: opens PDFs that are locked.
    """
    check_limits(top, longest)
    questions = checked_questions(questions)
    read = yield from _pages(loaded, pages, password)
    most = most_tokens(loaded)
    for index, question in enumerate(questions):
        best: dict[tuple[int, int, int], float] = {}  # by the page and its words; (0, 0, -1): none
        for number, page in enumerate(read):
            if not page.words:
                continue
            windows = loaded.tokenizer.windows(page.text, most, min(OVERLAP, most // 4), question, parse_special=False)
            owners = page.owners()
            for found in _scores(loaded, page, windows, batch_size):
                for i, values in zip(*found, strict=True) if found is not None else ():
                    for (start, end), score in best_answers(windows[i], values, longest, top, impossible):
                        first, last = (owners[min(start, len(owners) - 1)], owners[end - 1]) if end else (0, -1)
                        key = (number if end else 0, first, last)
                        best[key] = max(score, best.get(key, 0.0))
                yield None
        order = sorted(best, key=lambda key: -best[key])[:top]
        yield Item(index, {"answers": [_answer(read, key, best[key]) for key in order]})
        yield Progress("questions", index + 1, len(questions), "questions")
    yield Done("complete", {"count": len(questions)})


def _answer(pages: Sequence[Page], key: tuple[int, int, int], score: float) -> dict[str, Any]:
    number, first, last = key
    page = pages[number]
    text = " ".join(page.words[first : last + 1])
    box = page.around(first, last) if text else None
    return {"answer": text, "score": score, **page.place(), "box": box, "start": first, "end": last + 1}


def classified_pages(
    loaded: Any, pages: Any, *, top: int | None = None, password: str | None = None, batch_size: int = BATCH_SIZE
) -> Work:  # fmt: skip
    """Items with `picture`, `page` (of a PDF) and `labels`: the names and probabilities of a page's labels, the most
    probable first, at most `top` of them. Of a long page the model reads as much as it can. password: opens PDFs that
    are locked.
    """
    check_top(top)
    read = yield from _pages(loaded, pages, password)
    most = most_tokens(loaded)
    for index, page in enumerate(read):
        windows = loaded.tokenizer.windows(page.text, most, min(OVERLAP, most // 4), parse_special=False)[:1]
        for found in _scores(loaded, page, windows, batch_size):
            for scores in found[1] if found is not None else ():
                yield Item(index, {**page.place(), "labels": ranked_labels(loaded, scores, top)})
            yield None
        yield Progress("pages", index + 1, len(read), "pages")
    yield Done("complete", {"count": len(read)})


def _of_questions(work: Callable[..., None]) -> Callable[..., None]:
    """A check of the pages that stand after the questions."""
    return lambda questions, pages, *_, **more: work(pages)


classify_pages = stream_of("classify", classified_pages, remote=False, check=check_pages)
label_on_pages = stream_of("token-classification", label_pages, remote=False, check=check_pages)
answer_from_pages = stream_of("question-answering", answer_pages, remote=False, check=_of_questions(check_pages))
