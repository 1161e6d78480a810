"""Tasks over pictures of pages, by a model such as ColPali: vectors of their parts and of queries, and the order of
pages by how well they answer a query.

A page is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3). It is read when its turn comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Item, Progress
from pyapp.models.sentences.late_interaction import max_similarity

from .given_files import check_files, listed
from .picture_batches import in_batches
from .text_batches import Work, checked_texts
from .texts import stream_of


def _named(loaded: Any, role: str) -> str:
    """The name of a special token of the tokenizer. ModelError where there is none."""
    tokenizer = loaded.tokenizer
    number = {"bos_token": tokenizer.bos_id, "pad_token": tokenizer.pad_id}[role]
    number = tokenizer.special_id(role) if number is None else number
    name = None if number is None else tokenizer.piece(number)
    if name is None:
        raise ModelError(
            f"its tokenizer has no {role}", where=loaded.name, hint="Put its tokenizer_config.json beside it"
        )
    return name


def _start(loaded: Any) -> str:
    """The token at the start of texts, where the model reads one."""
    return _named(loaded, "bos_token") if loaded.model.vlm.whole_prompt else ""


def _vectors(loaded: Any, ids: Sequence[int], pixel_values: Tensor | None = None) -> Tensor:
    """The vectors (T, D) of a text, in which the image token stands for each vector of a picture."""
    with no_grad():
        found: Tensor = loaded.model(int32_tensor(ids, loaded.model.device).unsqueeze(0), None, pixel_values)[0]
    return found.to("float32")


def vectors_of_query(loaded: Any, query: str) -> Tensor:
    """The vectors (T, D) of a query; of a long one, of as much as the model reads."""
    model, tokenizer = loaded.model, loaded.tokenizer
    text = model.query_text(tokenizer.guard(query), _start(loaded), _named(loaded, "pad_token"))
    return _vectors(loaded, tokenizer.encode_guarded(text)[: model.most])


def vectors_of_page(loaded: Any, prepared: Any) -> Tensor:
    """The vectors (T, D) of a page that the image processor has prepared. OptionError for one that is too large."""
    model, tokenizer = loaded.model, loaded.tokenizer
    rows, columns = loaded.processor.tiles(*prepared.sizes[0])
    ids = tokenizer.encode_guarded(model.page_text(rows, columns, _start(loaded)))
    if len(ids) > model.most:
        raise OptionError(
            f"a page of {rows} x {columns} parts has {len(ids):,} tokens, the model reads {model.most:,}",
            where="images", hint="Give a smaller picture",
        )  # fmt: skip
    [part] = tokenizer.encode_guarded(model.vlm.part)
    number = model.vlm.config.image_token_id
    return _vectors(loaded, [number if id == part else id for id in ids], prepared.pixel_values)


def page_vectors(loaded: Any, images: Sequence[Any], texts: Sequence[str] = ()) -> Work:
    """Items with `embeddings`, a list of vectors of length 1: one for each part of a page and each token around it;
    then those of the texts, which are read as queries. Done with `dimensions`.
    """
    images, texts, width = listed(images), checked_texts(texts), 0
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        found = vectors_of_page(loaded, prepared)
        width = found.shape[1]
        yield Item(chosen.start, {"embeddings": found.tolist()})
        yield Progress("pages", chosen.stop, len(images), "pages")
    for index, text in enumerate(texts):
        yield None
        found = vectors_of_query(loaded, text)
        width = found.shape[1]
        yield Item(len(images) + index, {"embeddings": found.tolist()})
    yield Done("complete", {"count": len(images) + len(texts), "dimensions": width})


def ranked_pages(loaded: Any, query: str, images: Sequence[Any], *, top: int | None = None) -> Work:
    """Items with `score`: how well each page answers the query, the sum over the query's vectors of the largest product
    with a vector of the page; Done with `order`, the indices of the `top` best pages (by default all), best first.
    """
    if not query.strip():
        raise OptionError("is empty", where="query", hint="Give the words to search for, or the question")
    images, scores = listed(images), []
    yield None
    asked = vectors_of_query(loaded, query)  # (Q, D)
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        found = vectors_of_page(loaded, prepared).unsqueeze(0)  # (1, T, D)
        counts = int32_tensor([1] * found.shape[1], found.device).unsqueeze(0)
        scores.append(max_similarity(asked, found, counts).item())
        yield Item(chosen.start, {"score": scores[-1]})
        yield Progress("pages", chosen.stop, len(images), "pages")
    order = sorted(range(len(images)), key=lambda index: -scores[index])[:top]
    yield Done("complete", {"count": len(images), "order": order})


embed_pages = stream_of("embed-pages", page_vectors, remote=False, check=check_files)
rank_pages = stream_of("rank-pages", ranked_pages, remote=False, check=lambda _, images, **more: check_files(images))
