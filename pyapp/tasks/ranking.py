"""Ranking texts by how well they answer a query: by scores of pairs, late interaction, the logits of a language model,
or the vectors of whole texts. And the vectors of tokens, which late interaction compares.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import pyapp
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Event, Item, Progress
from pyapp.text.tokenization.encoding import Encoding

from .text_batches import BATCH_SIZE, Work, batches, checked_texts, encoded, grouped, prompt_of, sigmoid

if TYPE_CHECKING:
    from pyapp.models.sentences.late_interaction import LateInteraction

# The names of prompts for each role, the first that a model has.
PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
MASKS = ("[MASK]", "<mask>")
Scored = Generator[Event | None, None, list[float]]  # the model's own number for each text


@dataclass
class TokenEncoding(Encoding):
    """The tokens of a text for late interaction: `counts` is 1 for tokens that are compared."""

    counts: list[int] = None  # type: ignore[assignment]


# -- late interaction


def is_late(loaded: Any) -> bool:
    """Whether a model gives a vector for each token, to compare texts by them."""
    return hasattr(loaded.model, "form")


def refuse_late(loaded: Any) -> None:
    """ModelError for a model of late interaction, where one vector for each text is needed."""
    if is_late(loaded):
        raise ModelError(
            "this model gives a vector for each token, not one for each text", where=loaded.name,
            hint="Use it with rerank, or embed --tokens (in Python the task embed-tokens)",
        )  # fmt: skip


def embed_tokens(
    loaded: Any, texts: Sequence[str], *, role: str | None = None, prompt: str | None = None,
    prompt_name: str | None = None, batch_size: int = BATCH_SIZE,
) -> Work:  # fmt: skip
    """Items with `embeddings`: a vector for each token of a text, before they are pooled; by a model of late
    interaction (ColBERT), one for each token that is compared.

    role: "query" or "document" (the default), which such a model reads in different ways. `prompt` is put before each
    text, or the model's prompt of that name.
    """
    if role not in (None, *PROMPTS):
        raise OptionError(f"{role!r:.40} is not a role", where="role", hint=f"Roles: {', '.join(PROMPTS)}")
    if is_late(loaded):
        found = yield from token_encodings(loaded, texts, role or "document", prompt, prompt_name)
        encodings: Sequence[Encoding] = found
        run = loaded.model
    else:
        if role is not None:
            raise OptionError("this model reads queries and documents alike", where="role", hint="Leave it out")
        start = prompt_of(loaded, prompt, prompt_name, "")
        encodings = yield from encoded(loaded, [start + text for text in checked_texts(texts)], None, loaded.model.most)
        run = loaded.model.encoder
    for index, vectors in batches(loaded, encodings, run, batch_size):
        if isinstance(vectors, Event):
            yield vectors
            continue
        one = encodings[index]
        counts = one.counts if isinstance(one, TokenEncoding) else one.attention_mask
        yield Item(index, {"embeddings": [vector for vector, kept in zip(vectors, counts, strict=False) if kept]})
    yield Done("complete", {"count": len(encodings)})


def token_encodings(
    loaded: Any, texts: Sequence[str], role: str, prompt: str | None = None, prompt_name: str | None = None
) -> Generator[Progress, None, list[TokenEncoding]]:
    """Progress while texts are split into tokens; returns the encodings of queries or documents."""
    model, tokenizer = loaded.model, loaded.tokenizer
    form: LateInteraction = model.form
    usual = next((name for name in PROMPTS[role] if name in model.settings.prompts), None)
    start = prompt_of(loaded, prompt, prompt_name, "" if usual is None else model.settings.prompts[usual])
    prefix = form.prefixes.get(role, "")
    marks = (tokenizer.id_of(name) for name in (prefix, *prefix.split()[:1]) if name)
    mark = next((number for number in marks if number is not None), None)
    if mark is None:  # no token of the vocabulary: text
        start = prefix + start
    expansion = form.expansion if role == "query" else None
    length = form.lengths.get(role)
    if expansion is not None and expansion.fixed:
        length = expansion.length
    elif expansion is not None and length is not None:
        length = max(length, expansion.length)
    most = min(model.most + (mark is not None), length or model.most) - (mark is not None)
    plain = yield from encoded(loaded, [start + text for text in checked_texts(texts)], None, most, cut_by_model=False)
    skipped = {tokenizer.id_of(word) for word in form.skipped} if role in form.skipping else set()
    unknown = tokenizer.special_id("unk_token", "[UNK]")
    skipped -= {None} if unknown is None or tokenizer.piece(unknown) in form.skipped else {None, unknown}
    filler = 0 if expansion is None else _filler(loaded, expansion.token)
    found = []
    for one in plain:
        ids, types, seen = list(one.ids), list(one.type_ids), list(one.attention_mask)
        if mark is not None:
            ids.insert(1, mark)
            types.insert(1, 0)
            seen.insert(1, 1)
        counts = [int(number not in skipped) for number in ids]
        if form.kept is not None and role == "document":
            counts = [count * (number in form.kept) for count, number in zip(counts, ids, strict=True)]
        if expansion is not None:
            more = max(min(expansion.length, model.most) - len(ids), 0)
            ids += [filler] * more
            types += [0] * more
            seen += [int(expansion.attend)] * more
            counts += [int(filler not in skipped)] * more
        found.append(TokenEncoding(ids, types, seen, [0] * len(ids), cut=one.cut, counts=counts))
    return found


def _filler(loaded: Any, token: str | None) -> int:
    """The id that queries are filled up with."""
    tokenizer = loaded.tokenizer
    if token is not None:
        found = tokenizer.id_of(token)
    else:
        masks = [tokenizer.special_id("mask_token"), *map(tokenizer.id_of, MASKS), *sorted(tokenizer.eos_ids)]
        found = next((number for number in masks if number is not None), None)
    if found is None:
        raise ModelError("the tokenizer has no token to fill queries up with", where=loaded.name)
    return int(found)


def _by_tokens(loaded: Any, query: str, texts: Sequence[str], prompt: str | None, batch_size: int) -> Scored:
    [asked] = yield from token_encodings(loaded, [query], "query", prompt)
    documents = yield from token_encodings(loaded, texts, "document")
    model = loaded.model
    with no_grad():
        for _, rows in grouped(loaded, [asked], 1):
            vectors: Tensor = model(rows("ids"), rows("attention_mask"), rows("type_ids"))[0]  # (T, D)
        places = [place for place, kept in enumerate(asked.counts) if kept]
        query_vectors = vectors[places]  # (Q, D)
    scores = [0.0] * len(documents)
    done = 0
    for chosen, rows in grouped(loaded, documents, batch_size):
        with no_grad():
            found = model(rows("ids"), rows("attention_mask"), rows("type_ids"))  # (B, T, D)
            values = model.score(query_vectors, found, rows("counts")).tolist()
        for index, value in zip(chosen, values, strict=True):
            scores[index] = value
        done += len(chosen)
        yield Progress("texts", done, len(documents), "texts")
    return scores


# -- vectors of whole texts


def similarities(measure: str, query: Sequence[float], texts: Sequence[Sequence[float]]) -> list[float]:
    """How near vectors are to that of a query by a measure of sentence-transformers: the cosine, the product ("dot"),
    or the distance, less than 0 ("euclidean", "manhattan").
    """
    if measure == "manhattan":
        return [-sum(abs(x - y) for x, y in zip(query, text, strict=True)) for text in texts]
    if measure == "euclidean":
        return [-sqrt(sum((x - y) ** 2 for x, y in zip(query, text, strict=True))) for text in texts]
    products = [sum(x * y for x, y in zip(query, text, strict=True)) for text in texts]
    if measure == "dot":
        return products
    squares = [sum(x * x for x in vector) for vector in (query, *texts)]
    lengths = [sqrt(squares[0] * square) for square in squares[1:]]
    return [x / length if length else 0.0 for x, length in zip(products, lengths, strict=True)]


def reads_roles(loaded: Any) -> bool:
    """Whether an embedder puts other words before queries than before documents."""
    prompts = loaded.model.settings.prompts
    return any(prompts.get(name) for names in PROMPTS.values() for name in names)


def _by_vectors(loaded: Any, query: str, texts: Sequence[str], prompt: str | None, batch_size: int) -> Scored:
    settings = loaded.model.settings

    def started(role: str, given: str | None) -> str:
        name = next((name for name in PROMPTS[role] if name in settings.prompts), settings.default_prompt)
        return given if given is not None else "" if name is None else settings.prompts[name]

    found: list[list[float]] = []
    for role, group, given in (("query", [query], prompt), ("document", texts, None)):
        start = started(role, given)
        skipped = len(loaded.tokenizer.encode(start, eos=False)) if start else 0
        encodings = yield from encoded(loaded, [start + text for text in group], None, loaded.model.most)
        rows: list[list[float]] = [[]] * len(group)
        run = lambda ids, mask, types, skipped=skipped: loaded.model(ids, mask, types, skipped)  # noqa: E731
        for index, vector in batches(loaded, encodings, run, batch_size):
            if isinstance(vector, Event):
                yield vector
            else:
                rows[index] = vector
        found += rows
    return similarities(settings.similarity, found[0], found[1:])


# -- pairs


def _by_pairs(loaded: Any, query: str, texts: Sequence[str], prompt: str | None, batch_size: int) -> Scored:
    names = loaded.model.config.labels
    if len(names) != 1:
        raise ModelError(
            f"this model has {len(names)} labels; a reranker has one", where=loaded.name,
            hint="Use it with classify, or choose a reranker",
        )  # fmt: skip
    encodings = yield from encoded(loaded, [prompt_for_pairs(loaded, prompt) + query] * len(texts), texts,
                                   loaded.model.encoder.most)  # fmt: skip
    return (yield from _scored(loaded, encodings, batch_size))


def prompt_for_pairs(loaded: Any, prompt: str | None) -> str:
    """What stands before each query of a model for pairs."""
    settings = loaded.sentence
    usual = settings.prompts[settings.default_prompt] if settings.default_prompt is not None else ""
    return usual if prompt is None else prompt


def _by_logits(loaded: Any, query: str, texts: Sequence[str], prompt: str | None, batch_size: int) -> Scored:
    from pyapp.models.sentences.logit_ranking import QWEN_INSTRUCTION, QWEN_TEMPLATE, pair_encodings, template_of

    tokenizer, most = loaded.tokenizer, loaded.model.most
    template = template_of(tokenizer, loaded.settings)
    start = prompt_for_pairs(loaded, prompt)
    if template is None:
        encodings = yield from encoded(loaded, [start + query] * len(texts), texts, most)
    else:
        qwen = template.source() == QWEN_TEMPLATE
        message = start or (QWEN_INSTRUCTION if qwen else None)
        limit = min(most, tokenizer.max_length or most)
        encodings = pair_encodings(tokenizer, template, query, texts, message, limit)
    return (yield from _scored(loaded, encodings, batch_size))


def _scored(loaded: Any, encodings: Sequence[Encoding], batch_size: int) -> Scored:
    scores = [0.0] * len(encodings)
    for index, values in batches(loaded, encodings, loaded.model, batch_size):
        if isinstance(values, Event):
            yield values
        else:
            scores[index] = values[0]
    return scores


# -- the task


def rerank_texts(
    loaded: Any, query: str, texts: Sequence[str], *, top: int | None = None, raw_scores: bool = False,
    prompt: str | None = None, batch_size: int = BATCH_SIZE,
) -> Work:  # fmt: skip
    """Items with `score`: how well each text answers the query; Done with `order`, the indices of the `top` best texts
    (by default all), best first.

    By a model for pairs (a cross-encoder, or a language model that was made for it) the score is between 0 and 1,
    unless the model's files or `raw_scores` ask for its own numbers. By a model of late interaction it is the sum of
    the largest products of tokens, by an embedder the similarity of the vectors that it was made for. `prompt` is put
    before the query in place of the model's own.
    """
    if not query.strip():
        raise OptionError("is empty", where="query", hint="Give the words to search for, or the question")
    texts = checked_texts(texts)
    work, activation = _way_of(loaded)
    scores = yield from work(loaded, query, texts, prompt, batch_size)
    if activation is not None and not raw_scores:
        scores = activation(scores)
    for index, score in enumerate(scores):
        yield Item(index, {"score": score})
    order = sorted(range(len(texts)), key=lambda i: -scores[i])[:top]
    yield Done("complete", {"count": len(texts), "order": order})


def _way_of(loaded: Any) -> tuple[Callable[..., Scored], Callable[[list[float]], list[float]] | None]:
    """How a model ranks, and what its scores become."""
    if is_late(loaded):
        return _by_tokens, None
    if hasattr(loaded.model, "settings"):
        return _by_vectors, None
    work = _by_logits if hasattr(loaded.model, "true") else _by_pairs
    return work, _activation(loaded.settings, loaded.sentence.activation)


def _activation(settings: Mapping[str, Any], named: str | None) -> Callable[[list[float]], list[float]]:
    """The activation that the files of a cross-encoder name, else the sigmoid."""
    from pyapp.models.sentences.embedding import activation_of

    more = settings.get("sentence_transformers")
    named = named or (more.get("activation_fn") if isinstance(more, dict) else None)
    path = named or settings.get("sbert_ce_default_activation_function")
    if not isinstance(path, str):
        return lambda scores: [sigmoid(score) for score in scores]
    function = activation_of(path, "config.json")
    return lambda scores: function(pyapp.tensor(scores)).tolist() if scores else []
