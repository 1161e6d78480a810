"""The common parts of language models that see pictures (Liu et al. 2023, arXiv 2304.08485): a tower sees a picture, a
projector makes vectors of the size of embeddings of what it saw, and these stand in the text in place of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Device, Tensor, ops
from ...errors import ArgumentError
from ..decoders.caches import FixedCache, TextCache, last_tokens
from ..decoders.decoder import CachedText, CausalLanguageModel, RotaryTable, WholeText
from ..heads import Heads, split_heads
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..module import Module
from ..vision.vision import check_pictures, squares

Size = tuple[int, int]  # of a picture: height and width
ANY = (1, 1)  # the size of a picture, where it does not matter
# Of a picture that is one token: its place, its vectors, and how many of these, the first ones, later tokens see.
PlacedPicture = tuple[int, int, int]
RotaryPosition = tuple[int, int, int]  # the rotary positions of a token: of time, rows and columns
# Of a picture in a text: its first token, rows and columns; of a video also the times of its frames.
Placed = tuple[int, int, int] | tuple[int, int, int, Sequence[int]]


@dataclass(frozen=True)
class Seen:
    """What of pictures stands in a text, or in the part of it that a pass reads.

    features (N, D) stand at `places`, in its tokens (B, T) one row after another; None: none do. Where they are (N, D +
    L D), the further columns are added there to the outputs of the first L layers. `spans`: the first
    token of each picture's stretch, or of the prompt, and the one after it, at positions of the whole text.
    `rotary_positions`: those of each token (grid_positions), where the model has three. `counts`: where a picture is
    one token (nn.vision_language.cross_pictures), how many of the features are its own, and how many of these, the
    first, are seen.
    """

    features: Tensor | None
    places: Sequence[int] = ()
    spans: Sequence[tuple[int, int]] = ()
    rotary_positions: Sequence[RotaryPosition] = ()
    counts: Sequence[tuple[int, int]] = ()


def picture_mask(
    x: Any, spans: Sequence[tuple[int, int]], first: int, heads: Heads, whole_prompt: bool = False
) -> Tensor:
    """(1, 1, T, S) bool: which of the S keys each of the last T tokens attends to, from position `first` on: those
    before it and all of its picture; within the layer's window, unless the span is a whole prompt.
    """
    tokens, end = x.shape[1], first + x.shape[1]
    own = ops.arange(first, end, device=x.device).unsqueeze(1)  # (T, 1)
    keys = ops.arange(end, device=x.device)  # (S,)
    seen = own >= keys
    if heads.window is not None and whole_prompt:
        seen = seen & (own - keys < heads.window)
    for start, stop in spans:
        both = ((own >= start) & (own < stop)) & ((keys >= start) & (keys < stop))
        seen = seen | both
    if heads.window is not None and not whole_prompt:
        seen = seen & (own - keys < heads.window)
    return seen.reshape(1, 1, tokens, end)


class WholeTextOfPictures(WholeText):
    """As WholeText; the tokens of a picture, or of a whole prompt, attend to each other. `spans` are those of each
    text. in_windows: they do in layers with a window only.
    """

    def __init__(
        self, tokens: int, mask: Tensor | None, spans: Sequence[Sequence[tuple[int, int]]], whole_prompt: bool,
        in_windows: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(tokens, mask)
        self.spans, self.whole_prompt, self.in_windows = spans, whole_prompt, in_windows

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        q, k, v = split_heads(qkv, heads)  # (B, T, H, D), (B, T, KV, D)
        if rotary is not None:
            table = rotary.upto(self.length, qkv.device)
            q, k = (ops.rope(x, table, interleaved=heads.interleaved) for x in (q, k))
        both_ways = [[] for _ in self.spans] if self.in_windows and heads.window is None else self.spans
        seen = ops.cat([picture_mask(q, spans, 0, heads, self.whole_prompt) for spans in both_ways])  # (B, 1, T, T)
        seen = seen if self.mask is None else seen & self.mask
        y = ops.attention(q, k, v, False, heads.scale, softcap=heads.softcap, mask=seen)
        return y.reshape(*qkv.shape[:-1], heads.heads * heads.head_dim)


class CachedTextOfPictures(CachedText):
    """As CachedText, of one text from position `first` on; the tokens of a picture, or of the whole prompt, attend to
    each other; with `in_windows` in layers with a window only.
    """

    def __init__(
        self, position: Tensor, cache: TextCache, first: int, spans: Sequence[tuple[int, int]], whole_prompt: bool,
        in_windows: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(position, cache)
        self.first, self.spans, self.whole_prompt, self.in_windows = first, spans, whole_prompt, in_windows

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        q, k, v = (x.squeeze(0) for x in split_heads(qkv.unsqueeze(0), heads))  # (T, H, D), (T, KV, D)
        if rotary is not None:
            table = rotary.upto(self.length, qkv.device)
            q, k = (ops.rope(x, table, self.position, heads.interleaved) for x in (q, k))
        cache = self.layers[layer]
        assert isinstance(cache, FixedCache)
        cache.write(k, v, self.position)
        keys, values = cache.stored(self.first + qkv.shape[0])  # (1, S, KV, D)
        q = q.unsqueeze(0)
        both_ways = [] if self.in_windows and heads.window is None else self.spans
        seen = picture_mask(q, both_ways, self.first, heads, self.whole_prompt)
        y = ops.attention(q, keys, values, False, heads.scale, softcap=heads.softcap, mask=seen)
        return y.reshape(qkv.shape[0], heads.heads * heads.head_dim)


def grid_positions(count: int, pictures: Sequence[Placed]) -> list[RotaryPosition]:
    """The rotary positions of the first `count` tokens of a text, in which pictures (first token, rows, columns) of
    vectors are, and videos, which add the times of their frames in positions (Wang et al. 2024, arXiv 2409.12191): a
    picture's vectors have the positions of their rows and columns, and the text goes on after the largest of them.

    Attention knows only distances, so all are shifted until the text after the last picture has the positions that its
    tokens have in the cache. Those before slow videos may be below 0.
    """
    own = [(start, rows, columns, [*times[0]] if times else [0]) for start, rows, columns, *times in pictures]
    spared = [len(times) * rows * columns - max(times[-1] + 1, rows, columns) for _, rows, columns, times in own]
    shift = sum(spared)
    found: list[RotaryPosition] = []
    for (start, rows, columns, times), less in zip(own, spared, strict=True):
        found += [(place + shift,) * 3 for place in range(len(found), start)]
        first = start + shift
        found += [
            (first + time, first + row, first + column)
            for time in times for row in range(rows) for column in range(columns)
        ]  # fmt: skip
        shift -= less
    return [*found, *((place,) * 3 for place in range(len(found), count))][:count]


class GridRotation:
    """Rotates queries and keys by three positions each; `sections`: how many pairs of a head's columns turn by the
    first of them, the second, the third, the first … (0: none).
    """

    def __init__(self, rotary_positions: Sequence[RotaryPosition], sections: Sequence[int]) -> None:
        self.rotary_positions, self.sections = rotary_positions, sections
        self._tables: dict[int, Tensor] = {}

    def __call__(self, qkv: Tensor, heads: Heads, rotary: RotaryTable) -> Tensor:
        """[q, k, v] (..., (H + 2 KV) * D) of all tokens → with rotated q and k."""
        table = self._tables.get(id(rotary))
        if table is None:
            table = self._tables[id(rotary)] = self._table(rotary, qkv)
        count = heads.heads + heads.kv_heads
        x = qkv.reshape(-1, count + heads.kv_heads, heads.head_dim)  # (N, H + 2 KV, D)
        both = ops.rope(x.narrow(1, 0, count), table, interleaved=heads.interleaved)
        return ops.cat([both, x.narrow(1, count, heads.kv_heads)], 1).reshape(qkv.shape)

    def _table(self, rotary: RotaryTable, qkv: Tensor) -> Tensor:
        whole = rotary.upto(1 + max(max(map(abs, one)) for one in self.rotary_positions), qkv.device)  # (P, D / 2, 2)
        angles, parts, first = [], [], 0
        back = min(min(one) for one in self.rotary_positions) < 0
        for axis in range(3):
            own = [one[axis] for one in self.rotary_positions]
            rows = ops.tensor([*map(abs, own)], dtype="int64", device=qkv.device)
            found = whole.index_select(0, rows)  # (N, D / 2, 2)
            if back:
                ways = ops.tensor([[1.0, -1.0 if place < 0 else 1.0] for place in own], device=qkv.device)  # (N, 2)
                found = found * ways.unsqueeze(1)
            angles.append(found)
        for i, size in enumerate(self.sections):
            if size:
                parts.append(angles[i % 3].narrow(1, first, size))
            first += size
        return ops.cat(parts, 1)  # (N, D / 2, 2)


class TextOfGrids:
    """A text of a language model's own kind, as what its layers read, with three rotary positions of each token."""

    def __init__(self, text: Any, rotation: GridRotation) -> None:
        self.text, self.rotation = text, rotation

    def __getattr__(self, name: str) -> Any:
        return getattr(self.text, name)

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        """As WholeText.attention and CachedText.attention."""
        qkv = qkv if rotary is None else self.rotation(qkv, heads, rotary)
        found: Tensor = self.text.attention(layer, qkv, heads, None)
        return found


def ends_of(places: Sequence[int], length: int) -> list[int]:
    """Up to which token of a text of `length` tokens each picture is seen, by the places of their tokens."""
    found = [*places[1:], length][: len(places)]
    for i in reversed(range(len(places) - 1)):
        if places[i + 1] == places[i] + 1:
            found[i] = found[i + 1]
    return found


def last_seen(pictures: Sequence[PlacedPicture]) -> int:
    """How many vectors of a text's pictures its last token sees."""
    ends = ends_of([place for place, _, _ in pictures], -1)
    return sum(seen for (_, _, seen), end in zip(pictures, ends, strict=True) if end == -1)


class TwoLayers(Module):
    """A projector of two layers with an activation between them, by the values of a config.json; `usual`: its
    biases where that says nothing.
    """

    def __init__(self, width: int, made: int, values: Mapping[str, Any], usual: bool = True) -> None:
        super().__init__()
        bias = values.get("multimodal_projector_bias", usual) is not False
        self.linear_1 = Linear(width, made, bias=bias)
        self.linear_2 = Linear(made, made, bias=bias)
        self.activation = activation_named(values.get("projector_hidden_act", "gelu"))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, made)."""
        return self.linear_2(self.activation(self.linear_1(x)))


def states_of(tower: Any, pixel_values: Tensor, config: Any) -> Tensor:
    """The states (B, T, W) after those of a tower's layers that a LayeredConfig says."""
    found = [tower.states(pixel_values, count) for count in config.counts]
    x: Tensor = found[0] if len(found) == 1 else ops.cat(found, -1)
    return x.narrow(1, 1, x.shape[1] - 1) if config.without_first else x


class PictureTextModel(Module):
    """A language model that sees pictures, as text.generation.generate.LanguageModel. `vision_tower` and
    `multi_modal_projector` see, `language_model` writes.

    sees: what stands in its texts, "image" or "audio" (nn.audio.sound_text). placeholder: the name of the token that
    stands for a picture in a chat template; part: the one of each of a picture's vectors; around: the tokens before and
    after a picture that templates have; behind: what stands between a picture and a word right after it.
    whole_pictures: a picture's tokens attend to each other, so that a pass must not end within one; whole_in_windows:
    in layers with a window only; whole_beyond_windows: also where the window ends before. whole_prompt: those
    of a prompt with pictures do, which is read in one pass, and is one of the spans in Seen. pictures_ahead: tokens
    before the pictures see them too, so that a text's first pass has all of them (nn.vision_language.cross_pictures),
    and its prompt's first pictures stand before the token that begins texts. tiles_together: how many tiles of a
    picture the tower must see at once. prompt_form: what stands after the last picture of a prompt and at the prompt's
    end, where the tokenizer puts nothing before it. prompt_end: what stands at the end of a prompt with
    pictures. sections: those of GridRotation, where a picture's tokens have the positions of their rows and columns.
    """

    sees = "image"
    placeholder = part = "<image>"
    around = ("", "")
    behind = ""
    whole_pictures = whole_in_windows = whole_beyond_windows = whole_prompt = pictures_ahead = False
    tiles_together = 1
    prompt_form: tuple[str, str] | None = None
    prompt_end = ""
    sections: tuple[int, ...] = ()
    vision_tower: Any
    multi_modal_projector: Any

    def __init__(self, config: Any, language_model: CausalLanguageModel) -> None:
        super().__init__()
        self.config = config
        self.language_model = language_model

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.language_model.device

    @property
    def tower(self) -> Module:
        """What sees."""
        found: Module = self.vision_tower
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        """The only size (height, width) of pictures that the tower takes."""
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    @property
    def picture_tokens(self) -> int:
        """How many vectors a picture of the tower's size becomes; the fewest, where it takes any."""
        found: int = self.config.vision_config.patches
        return found

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        """How many vectors a picture of a size becomes, for what ImageProcessor.tiles says of it."""
        return self.picture_tokens * (rows * columns + 1)

    def vectors_in(self, rows: int, columns: int, size: Size = ANY) -> tuple[int, int]:
        """(how many vectors a picture of a size becomes, how many of these, the first, later tokens see). They are its
        tokens, unless `pictures_ahead`.
        """
        count = self.tokens_in(rows, columns, size)
        return count, count

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        """What stands in a text for a picture of `rows` x `columns` tiles and the whole; 0, 0: without tiles."""
        return self.part * self.picture_tokens

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors (B, picture_tokens, D) of pictures, as Seen's features."""
        found: Tensor = self.multi_modal_projector(self.vision_tower(pixel_values))
        return found

    def features_of(self, tiles: Tensor, rows: int, columns: int) -> Tensor:
        """As picture_features, of tiles (B, C, H, W) of a picture that has so many rows and columns of them."""
        return self.picture_features(tiles)

    def arranged(self, x: Tensor, rows: int, columns: int, size: Size) -> Tensor:
        """The vectors (N, D) of a picture of a size, of what features_of makes of its tiles x (B, T, D)."""
        return x.flatten(0, 1)

    def vectors_of(self, pixel_values: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        """The vectors (N, D) of pictures, one after another."""
        return self.picture_features(pixel_values).flatten(0, 1)

    def grid(self, pixel_values: Tensor) -> tuple[int, int]:
        """The rows and columns of the vectors of pictures (B, C, H, W), where their positions count."""
        raise NotImplementedError

    def prepared_by(self, processor: Any) -> Any:
        """The image processor with what the model's configuration says of pictures, not that of the processor."""
        return processor

    def prepared_for(self, processor: Any, count: int) -> Any:
        """The image processor for each of `count` pictures of a text."""
        return processor

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> Any:
        """As CausalLanguageModel.new_cache."""
        return self.language_model.new_cache(capacity, dtype, texts)

    def dequantize(self) -> None:
        """Converts block-quantised weights to float32."""
        CausalLanguageModel.dequantize(self)  # type: ignore[arg-type]

    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, pixel_values: Tensor | None = None,
        sizes: Sequence[Size] | None = None,
    ) -> Tensor:  # fmt: skip
        """tokens (B, T) integers, in which image_token_id stands for each vector of a picture, and the pictures
        pixel_values (N, C, H, W) in their order → logits (B, T, V). attention_mask as CausalLanguageModel's. With
        whole_prompt, all tokens are those of prompts. `sizes`: those of pictures before their preparation, where their
        tiles stand in an order that depends on it.
        """
        if pixel_values is None:
            return self.language_model(tokens, attention_mask)
        return self.language_model.head(self.states(tokens, attention_mask, pixel_values, sizes))

    def states(
        self, tokens: Tensor, attention_mask: Tensor | None = None, pixel_values: Tensor | None = None,
        sizes: Sequence[Size] | None = None,
    ) -> Tensor:  # fmt: skip
        """As forward → the states (B, T, D) after the last layer, before the last norm. With whole_prompt, all tokens
        are those of prompts, also without pictures.
        """
        language = self.language_model
        width, number = tokens.shape[1], self.config.image_token_id
        text: Any = language.whole_text(width, attention_mask)
        if self.whole_prompt:
            spans = [[(0, width)]] * tokens.shape[0]
            text = WholeTextOfPictures(width, attention_mask, spans, True)
        if pixel_values is None:
            return self._read(tokens, text, Seen(None))
        rows = tokens.tolist()
        places = [i * width + j for i, row in enumerate(rows) for j, token in enumerate(row) if token == number]
        features = self.vectors_of(pixel_values, sizes)  # (N, D)
        if len(places) != features.shape[0]:
            raise ArgumentError(f"the text has {len(places)} tokens for {features.shape[0]} vectors of pictures")
        if self.whole_pictures and not self.whole_prompt:
            spans = [stretches(row, number) for row in rows]
            text = WholeTextOfPictures(width, attention_mask, spans, self.whole_beyond_windows, self.whole_in_windows)
        elif self.sections:
            high, wide = self.grid(pixel_values)
            starts = [[i for i, _ in stretches(row, number)] for row in rows]
            texts = [grid_positions(width, [(i, high, wide) for i in found]) for found in starts]
            text = TextOfGrids(text, GridRotation(sum(texts, []), self.sections))
        return self._read(tokens, text, Seen(features, places))

    def forward_cached(
        self, tokens: Tensor, position: Tensor, cache: TextCache, last_only: bool = True, seen: Seen | None = None,
        first: int = 0,
    ) -> Tensor:  # fmt: skip
        """As CausalLanguageModel.forward_cached. `seen`: what stands in place of some tokens, whose ids do not count
        then; where whole_pictures is true, tokens are (T,), and `first` is position[0].
        """
        language = self.language_model
        if seen is None:
            return language.forward_cached(tokens, position, cache, last_only)
        text: Any = language.cached_text(position, cache)
        if self.whole_pictures:
            whole, in_windows = self.whole_prompt or self.whole_beyond_windows, self.whole_in_windows
            text = CachedTextOfPictures(position, cache, first, seen.spans, whole, in_windows)
        elif seen.rotary_positions:
            text = TextOfGrids(text, GridRotation(seen.rotary_positions, self.sections))
        x = self._read(tokens, text, seen)  # (T, dim)
        return language.head(last_tokens(x, cache) if last_only else x)

    def embedded(self, tokens: Tensor, text: Any) -> Tensor:
        """The vectors (..., T, D) of tokens (..., T) of a text."""
        found: Tensor = self.language_model.stack.embedded(tokens, text)
        return found

    def _read(self, tokens: Tensor, text: Any, seen: Seen) -> Tensor:
        """tokens (..., T) → the stack's output (..., T, D), with the vectors of pictures."""
        stack, known = self.language_model.stack, self.config.vocab_size
        inside = ops.where(tokens < known, tokens, ops.zeros_like(tokens))  # some files' image_token_id is none of them
        x = self.embedded(inside, text)
        if seen.features is None:
            return stack(tokens, text, x)
        places = ops.tensor(list(seen.places), dtype="int64", device=x.device)
        flat = x.reshape(-1, x.shape[-1])
        own, *deep = seen.features.to(x.dtype).split(flat.shape[1], 1)  # (N, D) each
        positions = stack.placed(inside, text)
        if positions is not None:
            positions = positions.expand(*x.shape).reshape(flat.shape)
            own = own + positions.index_select(0, places)
        x = flat.index_copy(0, places, own).reshape(x.shape)
        if not deep:
            return stack(tokens, text, x)
        none = ops.zeros_like(flat)
        return stack(tokens, text, x, [none.index_copy(0, places, one).reshape(x.shape) for one in deep])


class GridPictures(PictureTextModel):
    """A language model that sees pictures of any size, whose tokens have the rotary positions of rows and columns.
    name: what errors call it. tower_class: that of what sees them, which merges squares of patches.
    """

    name = ""
    tower_class: Callable[[Any], Module]
    picture_tokens = 1
    watcher: Any = None  # what sees videos (nn.vision_language.videos.Watching), if something does

    def __init__(self, config: Any) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = type(self).tower_class(config.vision_config)
        self.sections = config.sections

    @property
    def square(self) -> int:
        """The pixels of a side of what becomes one vector."""
        seen = self.config.vision_config
        side = seen.patch_size if isinstance(seen.patch_size, int) else seen.patch_size[0]
        return int(side * seen.spatial_merge_size)

    @property
    def pixels(self) -> Any:
        """Any size that is a multiple of a vector's patches."""
        return None

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        return rows * columns

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return self.part * (rows * columns)

    def grid(self, pixel_values: Tensor) -> tuple[int, int]:
        side = self.square
        pixel_values = pixel_values[:, 0] if pixel_values.ndim == 5 else pixel_values
        check_pictures(self.name, pixel_values, 3, least=side)
        high, wide = int(pixel_values.shape[2]), int(pixel_values.shape[3])
        if high % side or wide % side:
            raise ArgumentError(f"{self.name}: pictures have multiples of {side} pixels a side, not {high} x {wide}")
        return high // side, wide // side

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        """As of every PictureTextModel; also of the frames (B, F, C, H, W) of patches, where `watcher` is not None."""
        self.grid(pixel_values)
        found: Tensor = self.vision_tower(pixel_values)
        return found


class MergedTiles(PictureTextModel):
    """A language model that sees tiles of a picture and the whole, where squares of neighbouring patches, of as many
    rows and columns as its configuration's `merged` says, become one vector each.
    """

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.vision_config.patches // self.config.merged**2
        return found

    def prepared_by(self, processor: Any) -> Any:
        return processor.adapted(crop_to_patches=True)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        x = states_of(self.vision_tower, pixel_values, self.config)
        x = x.reshape(x.shape[0], *self.config.vision_config.grid, x.shape[2])
        found: Tensor = self.multi_modal_projector(squares(x, self.config.merged))
        return found


def stretches(tokens: Sequence[int], number: int) -> list[tuple[int, int]]:
    """Where the neighbouring tokens `number` are: the first of each stretch and the one after it."""
    ends = [i for i in range(len(tokens) + 1) if (tokens[i - 1 : i] == [number]) != (tokens[i : i + 1] == [number])]
    return list(zip(ends[::2], ends[1::2], strict=True))
