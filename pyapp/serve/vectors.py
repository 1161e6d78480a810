"""Embeddings and ranking: OpenAI's /v1/embeddings and /v1/rerank, and the routes of text-embeddings-inference."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks
from pyapp.formats.source import BytesSource
from pyapp.tasks.ranking import PROMPTS, is_late, reads_roles, similarities, token_encodings
from pyapp.tasks.texts import embed_every_token, encoded_for_embedding

from .answers import Answer, ArrayStream
from .batching import Batch, result_of
from .context import Context
from .fields import Fields, decoded
from .file_vectors import asks_for_files, vectors_of_files
from .items import by_task, items_of, values_of
from .problems import Problem, of_exception
from .running import start_task
from .served import ServedModel
from .vector_forms import FORMS

# Cohere's ways to shorten a text, and why it is refused.
CUTS = {"END": None, "NONE": "a text is longer than the model reads", "START": "long texts lose their ends here"}
# What requests call texts, and the roles of models' prompts.
ROLES = {"query": "query", "document": "document", "passage": "document"}
MOST_PAGES = 256  # pictures to rank in one request
MOST_INPUTS = 2048  # of one request
PIECE_TOKENS = 4096  # whose vectors are in memory at once, of one request


def role_of(fields: Fields) -> str | None:
    """What the texts are, "query" or "document", as Cohere, Voyage and NVIDIA (`input_type`) and Jina (`task`) say it;
    None: something else, or nothing is said.
    """
    said = [fields.text(name) for name in ("input_type", "task")]
    known = [ROLES.get(word.rpartition(".")[2].removeprefix("search_")) for word in said if word]
    return known[0] if known else None


async def embedded(
    request: Request, context: Context, model: ServedModel, texts: list[str], role: str | None = None
) -> list[list[float]]:
    """The vectors of texts, computed together with those of other requests, but for a `role` for which the model has a
    prompt: its tokens may not count, so that texts with other prompts cannot share its batches.
    """
    if not texts:
        return []
    prompts = model.loaded.model.settings.prompts
    prompt = next((name for name in PROMPTS.get(role or "", ()) if name in prompts), None)
    encodings, _ = await context.aside(lambda: result_of(encoded_for_embedding(model.loaded, texts, None, prompt)))
    tokens = sum(map(len, encodings))
    context.admit(tokens=tokens)
    request.scope["pyapp.log"]["prompt_tokens"] = tokens
    if prompt is not None:
        stream = partial(tasks.embed, texts, prompt_name=prompt)
        return [values["embedding"] for values in await by_task(request, context, model, len(texts), stream)]
    start = lambda answer: context.models.submit(model, Batch(encodings, answer.emit, answer.cancel))  # noqa: E731
    return [values["embedding"] for values in await items_of(request, context, model, len(texts), start)]


async def ranked(
    request: Request, context: Context, model: ServedModel, query: str, texts: list[str], raw: bool = False
) -> list[float]:  # fmt: skip
    """How well each text answers a query (tasks.rerank; `raw`: the model's own numbers). Vectors of an embedder that
    reads queries and texts alike are computed together with those of other requests.
    """
    if not texts:
        return []
    if model.task == "embed" and not is_late(model.loaded) and not reads_roles(model.loaded):
        asked, *others = await embedded(request, context, model, [query, *texts])
        return similarities(model.loaded.model.settings.similarity, asked, others)
    stream = partial(tasks.rerank, query, texts, raw_scores=raw)
    found = await by_task(request, context, model, len(texts), stream)
    return [values["score"] for values in found]


# -- OpenAI


async def embeddings(request: Request, context: Context, body: dict[str, Any] | None = None) -> Response:
    """`body`: what has been read."""
    fields = Fields(await context.json(request) if body is None else body)
    name = fields.text("model")
    given = fields.any("input")
    of_files = asks_for_files(context, name, given)
    if not of_files and isinstance(given, list):  # Jina's form of texts
        given = [row["text"] if isinstance(row, dict) and row.keys() == {"text"} else row for row in given]
        fields.put("input", given)
    tokens = given if isinstance(given, list) and given and all(type(entry) is int for entry in given) else None
    several = isinstance(given, list) and given and all(
        isinstance(row, list) and row and all(type(entry) is int for entry in row) for row in given
    )  # fmt: skip
    rows = [tokens] if tokens else given if several else None
    texts = [] if rows or of_files else fields.needed_texts("input", MOST_INPUTS)
    form = fields.text("encoding_format", "float", ("float", "base64"))
    for other in ("embedding_type", "output_dtype"):  # Jina's and Voyage's
        form = fields.text(other, form, tuple(FORMS))
    dimensions, role = fields.whole("dimensions", None, 1), role_of(fields)
    for other, wanted in (("late_chunking", False), ("normalized", True)):  # Jina's
        if fields.flag(other, wanted) is not wanted:
            raise fields.wrong(other, f"must be {str(wanted).lower()}: nothing else is here", "unsupported_parameter")
    cut = cut_of(fields)
    fields.end(("user",))
    if of_files:
        called, vectors, used = await vectors_of_files(request, context, fields, name, given, MOST_INPUTS)
        return _as_openai(fields, called, vectors, used, form, dimensions)
    model = await context.model(request, name, "embed")
    if rows is not None:
        if len(rows) > MOST_INPUTS:
            raise fields.wrong("input", f"has {len(rows):,} entries; {MOST_INPUTS:,} are allowed")
        size = model.loaded.tokenizer.vocab_size
        if not all(0 <= id < size for row in rows for id in row):
            raise fields.wrong("input", f"tokens are from 0 to {size - 1}")
        texts = [model.loaded.tokenizer.decode(row) for row in rows]
    if not texts:
        raise fields.wrong("input", "is empty")
    context.check_length(texts, "input")
    for index, text in enumerate(texts):
        if not text:
            raise fields.wrong(f"input[{index}]" if len(texts) > 1 else "input", "must not be empty")
    await refuse_cut(context, model, cut, texts)
    vectors = await embedded(request, context, model, texts, role)
    used = request.scope["pyapp.log"]["prompt_tokens"]
    return _as_openai(fields, model.name, vectors, used, form, dimensions)


def _as_openai(
    fields: Fields, name: str, vectors: list[list[float]], used: int, form: str, dimensions: int | None
) -> Response:
    """The answer of /v1/embeddings. `used`: tokens."""
    vectors = [shortened(vector, dimensions) for vector in fitting(vectors, fields, "dimensions", dimensions)]
    data = [
        {"object": "embedding", "index": index, "embedding": FORMS[form](vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": used, "total_tokens": used}
    return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})


async def embeddings_by_type(request: Request, context: Context) -> Response:
    """Cohere's /v2/embed: an array of vectors for each of `embedding_types`."""
    fields = Fields(await context.json(request))
    name = fields.text("model")
    for other in ("images", "inputs"):
        if fields.any(other):
            raise fields.wrong(other, "pictures are not read here: give texts", "unsupported_parameter")
    texts = fields.needed_texts("texts", MOST_INPUTS)
    types = fields.array("embedding_types", ["float"])
    for index, kind in enumerate(types):
        if not isinstance(kind, str) or kind not in FORMS:
            raise fields.wrong(f"embedding_types[{index}]", f"must be one of {', '.join(FORMS)}, not {kind!r:.40}")
    role, dimensions = role_of(fields), fields.whole("output_dimension", None, 1)
    cut = CUTS[fields.text("truncate", "END", tuple(CUTS))]
    fields.end(("max_tokens", "priority"))
    if not texts:
        raise fields.wrong("texts", "is empty")
    context.check_length(texts, "texts")
    model = await context.model(request, name, "embed")
    if cut is not None:
        await refuse_cut(context, model, fields.wrong("truncate", cut, "context_length_exceeded"), texts)
    vectors = await embedded(request, context, model, texts, role)
    vectors = [shortened(vector, dimensions) for vector in fitting(vectors, fields, "output_dimension", dimensions)]
    used = request.scope["pyapp.log"]["prompt_tokens"]
    return JSONResponse(
        {
            "id": request.scope["pyapp.id"], "response_type": "embeddings_by_type", "texts": texts,
            "embeddings": {kind: [FORMS[kind](vector) for vector in vectors] for kind in types},
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": used}},
        }
    )  # fmt: skip


def fitting(vectors: list[list[float]], fields: Fields, name: str, dimensions: int | None) -> list[list[float]]:
    """The vectors. Problem where they have fewer numbers than the field `name` asks for."""
    if dimensions is not None and vectors and dimensions > len(vectors[0]):
        raise fields.wrong(name, f"the model has {len(vectors[0])}")
    return vectors


def shortened(vector: list[float], dimensions: int | None) -> list[float]:
    """The first numbers of a vector, with length 1 (Kusupati et al., 2022); None: as it is."""
    if dimensions is None:
        return vector
    cut = vector[:dimensions]
    length = math.sqrt(sum(x * x for x in cut)) or 1.0
    return [x / length for x in cut]


def document_text(document: Any, ranked: list[str] | None) -> Any:
    """The text of a document: it may be an object with a `text`, or with the fields that rank it (Cohere)."""
    if not isinstance(document, dict):
        return document
    if not ranked:
        return document.get("text")
    found = [f"{name}: {document[name]}" for name in ranked if isinstance(document.get(name), str)]
    return "\n".join(found) or None


def pages_of(documents: list[Any], fields: Fields) -> list[bytes] | None:
    """The files of documents that are pictures, as Jina's multimodal reranker reads them; None where they are texts."""
    if not any(isinstance(entry, dict) and "image" in entry for entry in documents):
        return None
    if len(documents) > MOST_PAGES:
        raise fields.wrong("documents", f"has {len(documents):,} pictures; {MOST_PAGES} are allowed")
    found = []
    for index, entry in enumerate(documents):
        coded = entry.get("image") if isinstance(entry, dict) else None
        if not isinstance(coded, str):
            raise fields.wrong(f"documents[{index}].image", "must be a picture in base64", "invalid_type")
        found.append(decoded(coded, fields, f"documents[{index}].image"))
    return found


async def rerank(request: Request, context: Context, body: dict[str, Any] | None = None) -> Response:
    """`documents` are answered in the form of Cohere and Jina, `texts` in that of text-embeddings-inference, whatever
    the route: litellm sends `documents` to /rerank. Answers of /infinity/rerank have documents as strings, as those of
    the server Infinity. `body`: what has been read.
    """
    fields = Fields(await context.json(request) if body is None else body)
    name, query = fields.text("model"), fields.needed_text("query")
    given = {key: fields.array(key) for key in ("texts", "documents")}
    ours = given["texts"] is None
    key = "documents" if ours else "texts"
    documents = given[key]
    if documents is None:
        raise fields.missing("texts" if request.url.path == "/rerank" else key)
    ranking = fields.texts("rank_fields", MOST_INPUTS)
    pages = pages_of(documents, fields) if ours else None
    texts: list[Any] = [document_text(entry, ranking) if pages is None else "" for entry in documents]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise fields.wrong(f"{key}[{index}]", "must be a string, or an object with a text", "invalid_type")
    if len(texts) > MOST_INPUTS:
        raise fields.wrong(key, f"has {len(texts):,} entries; {MOST_INPUTS:,} are allowed")
    top = fields.whole("top_n", None, 1)
    with_texts = fields.flag("return_documents") or fields.flag("return_text")
    raw = fields.flag("raw_scores")
    cut = cut_of(fields)
    fields.end(("max_tokens_per_doc", "max_chunks_per_doc", "priority"))
    context.check_length([query, *texts], key)
    kinds = ("classify", "embed", "rerank") if pages is None else ("rank-pages",)
    model = await context.model(request, name, *kinds)
    if pages is not None:
        if not query.strip():
            raise fields.wrong("query", "is empty")
        files = [BytesSource(data, f"documents[{index}].image") for index, data in enumerate(pages)]
        rank = partial(tasks.rank_pages, query, files)
        scores = [values["score"] for values in await by_task(request, context, model, len(files), rank)]
        with_texts = False
    elif model.task == "embed":
        await refuse_cut(context, model, cut, [query, *texts])
    else:
        await refuse_cut(context, model, cut, [query] * len(texts), texts)
    if pages is None:
        scores = await ranked(request, context, model, query, texts, raw)
    order = sorted(range(len(texts)), key=lambda index: -scores[index])[:top]
    if not ours:
        return JSONResponse([{"index": index, "score": scores[index], **({"text": texts[index]} if with_texts else {})}
                             for index in order])  # fmt: skip
    plain = request.url.path.startswith("/infinity/")
    results = [
        {"index": index, "relevance_score": scores[index],
         **({"document": texts[index] if plain else {"text": texts[index]}} if with_texts else {})}
        for index in order
    ]  # fmt: skip
    return JSONResponse({"id": request.scope["pyapp.id"], "model": model.name, "results": results})


# -- text-embeddings-inference


def cut_of(fields: Fields) -> Problem | None:
    """The problem of a text that is longer than the model reads: None where its end may be cut off, as by default."""
    cut = fields.flag("truncate", True)
    side = fields.text("truncation_direction", "Right", ("Right", "right", "Left", "left"))
    if not cut:
        return fields.wrong("truncate", "a text is longer than the model reads", "context_length_exceeded")
    if side.lower() == "left":
        return fields.wrong("truncation_direction", "long texts lose their ends here", "unsupported_parameter")
    return None


async def refuse_cut(
    context: Context, model: ServedModel, problem: Problem | None, texts: list[str], pairs: list[str] | None = None
) -> None:
    """Raises the problem of `cut_of` if the model does not read all of each text, or pair of texts."""
    if problem is None:
        return
    tokenizer, network = model.loaded.tokenizer, model.loaded.model
    most = network.encoder.most if model.task == "classify" else network.most
    limit = min(most, tokenizer.max_length or most)
    if any(len(row) > limit for row in await context.aside(lambda: tokenizer.encode_batch(texts, pairs))):
        raise problem


# -- vLLM


async def score(request: Request, context: Context) -> Response:
    """/v1/score: how well texts answer texts: each of `text_2` one `text_1`, or the one in its place."""
    fields = Fields(await context.json(request))
    name, first, second = (
        fields.text("model"),
        fields.needed_texts("text_1", MOST_INPUTS),
        fields.needed_texts("text_2", MOST_INPUTS),
    )
    fields.end(("priority", "user"))
    if not first or len(first) not in (1, len(second)):
        raise fields.wrong("text_1", f"has {len(first)} texts: it must have one, or {len(second)} as text_2 has")
    context.check_length([*first, *second], "text_2")
    model = await context.model(request, name, "classify", "embed", "rerank")
    pairs = [(one, [other]) for one, other in zip(first, second, strict=True)] if len(first) > 1 else []
    groups = pairs or [(first[0], second)]
    scores = [found for one, others in groups for found in await ranked(request, context, model, one, others)]
    data = [{"index": index, "object": "score", "score": value} for index, value in enumerate(scores)]
    return JSONResponse({"id": request.scope["pyapp.id"], "object": "list", "model": model.name, "data": data})


async def classes(request: Request, context: Context) -> Response:
    """/classify: the likeliest label of each text, and the probabilities of all labels in the model's order."""
    fields = Fields(await context.json(request))
    name, texts = fields.text("model"), fields.needed_texts("input", MOST_INPUTS)
    fields.end(("priority", "user"))
    context.check_length(texts, "input")
    model = await context.model(request, name, "classify")
    names = model.loaded.model.config.labels
    data = []
    for index, values in enumerate(await by_task(request, context, model, len(texts), partial(tasks.classify, texts))):
        chances = {entry["label"]: entry["score"] for entry in values["labels"]}
        probabilities = [chances[label] for label in names]
        label = values["labels"][0]["label"]
        data.append({"index": index, "label": label, "probs": probabilities, "num_classes": len(names)})
    return JSONResponse({"id": request.scope["pyapp.id"], "object": "list", "model": model.name, "data": data})


def refuse_prompt(fields: Fields) -> None:
    if fields.text("prompt_name") is not None:
        raise fields.wrong("prompt_name", "is read by /embed only", "unsupported_parameter")


async def embed(request: Request, context: Context, given: dict[str, Any] | None = None) -> Response:
    """TEI's /embed: an array of vectors, of length 1 unless `normalize` is false. `given`: the body, if it has been
    read.
    """
    fields = Fields(await context.json(request) if given is None else given)
    texts = fields.needed_texts("inputs", MOST_INPUTS)
    of_length_1, dimensions = fields.flag("normalize", True), fields.whole("dimensions", None, 1)
    prompt, cut = fields.text("prompt_name"), cut_of(fields)
    fields.text("encoding_format", "float", ("float",))
    fields.end()
    context.check_length(texts, "inputs")
    model = await context.model(request, None, "embed")
    await refuse_cut(context, model, cut, texts)
    if prompt is None:
        vectors = await embedded(request, context, model, texts)
    else:  # its tokens may not count, so that texts with other prompts cannot share its batches
        stream = partial(tasks.embed, texts, prompt_name=prompt)
        vectors = [values["embedding"] for values in await by_task(request, context, model, len(texts), stream)]
    vectors = [vector[:dimensions] for vector in fitting(vectors, fields, "dimensions", dimensions)]
    return JSONResponse([shortened(vector, len(vector)) for vector in vectors] if of_length_1 else vectors)


async def embed_all(request: Request, context: Context) -> Response:
    """TEI's /embed_all: for each text an array with a vector for each token, before they are pooled. Many vectors are
    computed and sent piece by piece: a number takes 32 bytes here and about 20 in the answer.
    """
    fields = Fields(await context.json(request))
    texts, cut = fields.needed_texts("inputs", MOST_INPUTS), cut_of(fields)
    refuse_prompt(fields)
    fields.end()
    context.check_length(texts, "inputs")
    model = await context.model(request, None, "embed")
    await refuse_cut(context, model, cut, texts)
    encodings: Any
    if is_late(model.loaded):
        encodings = await context.aside(lambda: result_of(token_encodings(model.loaded, texts, "document")))
    else:
        encodings, _ = await context.aside(lambda: result_of(encoded_for_embedding(model.loaded, texts)))
    parts = pieces(texts, [len(encoding) for encoding in encodings])
    del encodings
    # The first part before the answer begins: what is wrong has a status then.
    found = await by_task(request, context, model, len(parts[0]), partial(embed_every_token, parts[0]))
    if len(parts) == 1:
        return JSONResponse([values["embeddings"] for values in found])
    request.scope["pyapp.log"]["texts"] = len(texts)
    context.in_flight += 1

    def end() -> None:
        context.in_flight -= 1

    async def rows() -> AsyncGenerator[str, None]:
        nonlocal found
        comma = "["
        for part in parts:
            if comma == ",":
                answer = Answer(context.deliveries)
                start_task(context, model, partial(embed_every_token, part), answer)
                found = await values_of(context, model, len(part), answer)
            while found:
                row = found.pop(0)["embeddings"]
                yield comma + await context.aside(partial(json.dumps, row))  # milliseconds, which others would wait
                comma = ","
        yield "]"

    seconds, ping = context.settings.seconds, context.settings.ping_seconds
    return ArrayStream(rows(), lambda error: json.dumps(of_exception(error).body()), end, seconds, ping)


def pieces(texts: list[str], lengths: list[int]) -> list[list[str]]:
    """The texts in order, in parts of at most PIECE_TOKENS tokens, or of one text. `lengths`: tokens of each text."""
    found: list[list[str]] = [[]]
    tokens = 0
    for text, length in zip(texts, lengths, strict=True):
        if found[-1] and tokens + length > PIECE_TOKENS:
            found.append([])
            tokens = 0
        found[-1].append(text)
        tokens += length
    return found


async def similarity(request: Request, context: Context, given: dict[str, Any] | None = None) -> Response:
    """TEI's /similarity: the cosine of a sentence and each of others. `given`: the body, if it has been read."""
    fields = Fields(await context.json(request) if given is None else given)
    inputs = fields.needed_object("inputs")
    source, others = inputs.needed_text("source_sentence"), inputs.needed_texts("sentences", MOST_INPUTS)
    inputs.end()
    fields.end(("parameters",))
    context.check_length([source, *others], "inputs")
    model = await context.model(request, None, "embed")
    asked, *rest = await embedded(request, context, model, [source, *others])
    return JSONResponse(similarities("cosine", asked, rest))


async def predict(request: Request, context: Context, given: dict[str, Any] | None = None) -> Response:
    """TEI's /predict: the labels of each text, or of each pair of texts, the likeliest first. huggingface_hub sends
    `parameters`. `given`: the body, if it has been read.
    """
    fields = Fields(await context.json(request) if given is None else given)
    inputs, pairs = fields.any("inputs"), None
    alone = isinstance(inputs, str)
    rows = inputs if isinstance(inputs, list) and inputs and all(isinstance(row, list) for row in inputs) else None
    if rows is None:
        texts = fields.needed_texts("inputs", MOST_INPUTS)
    elif len(rows) <= MOST_INPUTS and len({len(row) for row in rows}) == 1 and len(rows[0]) in (1, 2) and all(
        isinstance(text, str) for row in rows for text in row
    ):  # fmt: skip
        texts = [row[0] for row in rows]
        pairs = [row[1] for row in rows] if len(rows[0]) == 2 else None
    else:
        raise fields.wrong("inputs", "must be texts, or arrays of one text each, or of two", "invalid_type")
    raw, cut = fields.flag("raw_scores"), cut_of(fields)
    parameters, top = fields.object("parameters"), None
    if parameters is not None:
        top = parameters.whole("top_k", None, 1)
        raw = raw or parameters.text("function_to_apply", choices=("none",)) is not None
        parameters.end()
    fields.end()
    context.check_length([*texts, *(pairs or ())], "inputs")
    model = await context.model(request, None, "classify")
    await refuse_cut(context, model, cut, texts, pairs)
    stream = partial(tasks.classify, texts, pairs, raw_scores=raw, top=top)
    found = await by_task(request, context, model, len(texts), stream)
    labels = [values["labels"] for values in found]
    return JSONResponse(labels[0] if alone else labels)
