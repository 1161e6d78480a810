"""Z-Image (Z-Image Team 2025, arXiv 2511.22699): a transformer that reads the places of a picture and the tokens of a
text as one sequence, after layers of each alone. The text is what a language model makes of it.

Parameters and fields have the names of diffusers' ZImageTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import LayerNorm, Linear, Module, ModuleDict, ModuleList, RMSNorm
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter

from ..loading.config import check_fields, read_config, require
from .joint import DEEPEST, EPSILON, JointAttention, JointNetwork, axes_table
from .texts import LanguageEncoder, Reader
from .unet import WIDEST, waves

CONDITION = 256  # numbers of the condition at most
HEAD_EPSILON = 1e-5  # of the norms of queries and keys
INNER = 1024  # features between the layers of the time
PATCH = 2  # latents of a place's side
MULTIPLE = 32  # the places and the tokens are filled up to a multiple of it
SIZES = f"{PATCH}-1"  # the sizes of patches, in names
UNITS = 1000  # times of the training
USUAL_SIDE = 128  # latents
WAVES = 256  # numbers of a time
WORDS = 512  # tokens of a prompt


@dataclass(frozen=True, kw_only=True)
class ZImageConfig:
    """The hyper-parameters."""

    in_channels: int = 16
    dim: int = 3840
    n_layers: int = 30
    n_refiner_layers: int = 2
    n_heads: int = 30
    norm_eps: float = 1e-5
    qk_norm: bool = True
    cap_feat_dim: int = 2560
    rope_theta: float = 256.0
    t_scale: float = 1000.0
    axes_dims: tuple[int, ...] = (32, 48, 48)
    axes_lens: tuple[int, ...] = (1024, 512, 512)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("dim", "cap_feat_dim", "in_channels"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}")
        for name in ("n_layers", "n_refiner_layers"):
            require(getattr(self, name) <= DEEPEST, f"{name} is {getattr(self, name):,}")
        require(self.dim % self.n_heads == 0, f"{self.n_heads} heads do not divide {self.dim} features")
        require(1 < self.rope_theta < 1e9, f"rope_theta is {self.rope_theta}")
        require(0 < self.t_scale < 1e6, f"t_scale is {self.t_scale}")
        for name, least in (("axes_dims", 0), ("axes_lens", 1)):
            axes = getattr(self, name)
            fits = len(axes) == 3 and all(type(n) is int and least <= n <= 1 << 16 for n in axes)
            require(fits, f"{name} is {axes!r:.60}, expected three numbers")
        require(self.axes_lens[0] > MULTIPLE + 1, f"axes_lens is {self.axes_lens}, too few for the tokens of a text")
        require(
            sum(self.axes_dims) == self.dim // self.n_heads and not any(n % 2 for n in self.axes_dims),
            f"axes_dims is {self.axes_dims}, expected even numbers that add up to {self.dim // self.n_heads}, the "
            "features of a head",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ZImageConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in (("all_patch_size", PATCH), ("all_f_patch_size", 1)):
            sizes = values.get(name, [known])
            plain = isinstance(sizes, list | tuple) and [*sizes] == [known]
            require(plain, f"{name} {sizes!r:.60} is not supported, only [{known}]")
        seen = values.get("siglip_feat_dim")
        require(seen is None, "a network that reads pictures with SigLIP, as Z-Image Omni, is not supported")
        axes = {name: values.get(name, getattr(cls, name)) for name in ("axes_dims", "axes_lens")}
        for name, value in axes.items():
            require(isinstance(value, list | tuple), f"{name} is {value!r:.60}, expected a list")
        return read_config(cls, {**values, **{name: tuple(value) for name, value in axes.items()}})


class Time(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = ModuleList([Linear(WAVES, INNER), Module(), Linear(INNER, width)])

    def forward(self, time: Tensor) -> Tensor:
        """time (B,) → (B, width)."""
        return self.mlp[2](ops.silu(self.mlp[0](waves(time, WAVES))))


class Block(Module):
    """Attention and a feed-forward part, each between two norms. moved: the condition chooses scales of what they read,
    and how much of what they find is added.
    """

    def __init__(self, config: ZImageConfig, moved: bool) -> None:
        super().__init__()
        width, epsilon = config.dim, config.norm_eps
        self.attention = JointAttention(
            width, config.n_heads, config.qk_norm, outputs=(True, False), bias=False, epsilon=HEAD_EPSILON
        )
        self.feed_forward = GatedFeedForward(width, int(width / 3 * 8), names=("w1", "w3", "w2"))
        self.attention_norm1, self.ffn_norm1, self.attention_norm2, self.ffn_norm2 = (
            RMSNorm(width, epsilon) for _ in range(4)
        )
        inputs = min(width, CONDITION)
        self.adaLN_modulation = ModuleList([Linear(inputs, 4 * width)]) if moved else None

    def forward(self, x: Tensor, table: Tensor, condition: Tensor) -> Tensor:
        """x (B, T, D), table (T, R / 2, 2), condition (B, C) → (B, T, D)."""
        y = self.attention_norm1(x)
        if self.adaLN_modulation is None:
            x = x + self.attention_norm2(self.attention(y, None, table)[0])
            return x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
        scale, gate, scale2, gate2 = ops.chunk(self.adaLN_modulation[0](condition).unsqueeze(1), 4, 2)  # (B, 1, D)
        x = x + gate.tanh() * self.attention_norm2(self.attention(y * (1 + scale), None, table)[0])
        return x + gate2.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale2)))


class Last(Module):
    """A norm with a scale, and a linear layer."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.norm_final = LayerNorm(width, EPSILON, elementwise_affine=False)
        self.linear = Linear(width, outputs)
        self.adaLN_modulation = ModuleList([Module(), Linear(min(width, CONDITION), width)])

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x (B, T, D), condition (B, C) → (B, T, outputs)."""
        scale = self.adaLN_modulation[1](ops.silu(condition)).unsqueeze(1)  # (B, 1, D)
        return self.linear(self.norm_final(x) * (1 + scale))


def _filled(x: Tensor, filler: Tensor) -> Tensor:
    """x (B, T, D), with rows of the filler (1, D) up to a multiple of MULTIPLE."""
    rest = -x.shape[1] % MULTIPLE
    return x if not rest else ops.cat([x, filler.unsqueeze(0).expand(x.shape[0], rest, x.shape[2])], 1)


class ZImage(JointNetwork):
    """The way from noise to the picture, of noisy latents."""

    multiple = PATCH
    even = True
    neutral = 0.0

    def __init__(self, config: ZImageConfig) -> None:
        super().__init__()
        self.config, self.channels = config, config.in_channels
        self.most = min(config.axes_lens[1:]) * PATCH
        self.words = (config.axes_lens[0] - 2) // MULTIPLE * MULTIPLE  # tokens at most
        width = config.dim
        self.all_x_embedder = ModuleDict({SIZES: Linear(PATCH**2 * config.in_channels, width)})
        self.all_final_layer = ModuleDict({SIZES: Last(width, PATCH**2 * config.in_channels)})
        self.noise_refiner = ModuleList(Block(config, True) for _ in range(config.n_refiner_layers))
        self.context_refiner = ModuleList(Block(config, False) for _ in range(config.n_refiner_layers))
        self.t_embedder = Time(min(width, CONDITION))
        self.cap_embedder = ModuleList(
            [RMSNorm(config.cap_feat_dim, config.norm_eps), Linear(config.cap_feat_dim, width)]
        )
        self.x_pad_token = new_parameter(ops.zeros, 1, width)
        self.cap_pad_token = new_parameter(ops.zeros, 1, width)
        self.layers = ModuleList(Block(config, True) for _ in range(config.n_layers))
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size, by the tokens of the text

    @property
    def side(self) -> int:
        return USUAL_SIDE

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return (8, 0.0) if schedule.get("shift", 1.0) == 3.0 else (50, 4.0)  # the shift of Z-Image-Turbo

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader(
            "Z-Image", readers, LanguageEncoder, self.config.cap_feat_dim, channels, self.config.in_channels
        )

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) of prompts, and how many are those of each one (N,)."""
        return readers[0].language(readers[0].turns(prompts, min(WORDS, self.words), thinking=True))

    def table(self, tokens: int, rows: int, columns: int) -> Tensor:
        """The rotations (T + S, R / 2, 2) of the places, of what fills them up, and of `tokens` tokens."""
        kind = rows, columns, self.device
        if any(key[1:] != kind for key in self._tables):
            self._tables = {}
        key = tokens, *kind
        if key not in self._tables:
            count = rows * columns
            places = np.zeros((count + -count % MULTIPLE + tokens, 3))
            places[:count, 0] = tokens + 1
            places[:count, 1] = np.repeat(np.arange(rows), columns)
            places[:count, 2] = np.tile(np.arange(columns), rows)
            places[len(places) - tokens :, 0] = np.arange(1, tokens + 1)
            table = axes_table(places, self.config.axes_dims, self.config.rope_theta)
            self._tables[key] = ops.from_numpy(table).to(self.device)
        return self._tables[key]

    def check(self, latents: Tensor, text: Tensor, pooled: Tensor) -> None:
        """ArgumentError for latents and texts of another form."""
        self.check_latents(latents)
        wide = self.config.cap_feat_dim
        if text.ndim != 3 or text.shape[2] != wide or not 0 < text.shape[1] <= self.words:
            raise ArgumentError(
                f"{type(self).__name__}: the text is (B, S, {wide}) with S at most {self.words}, not {describe(text)}"
            )
        if pooled.ndim != 1 or len({pooled.shape[0], text.shape[0], latents.shape[0]}) != 1:
            raise ArgumentError(f"{type(self).__name__}: the lengths of texts are (B,), not {describe(pooled)}")

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None
    ) -> Tensor:
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), pooled (B,) integers: how many
        tokens each text has → noise less picture (B, C, H, W). This network reads no guidance: what is given is
        ignored.
        """
        self.check(latents, text, pooled)
        batch, most = latents.shape[0], text.shape[1]
        lengths = [min(max(int(length), 1), most) for length in pooled.tolist()]
        time = time.expand(batch)
        parts: list[Tensor] = [latents] * batch
        for length in {*lengths}:  # texts of the same length together: what fills up others would be seen
            own = [i for i in range(batch) if lengths[i] == length]
            if len(own) == batch:
                return self._found(latents, time, text.narrow(1, 0, length))
            x, t, y = (ops.stack([given[i] for i in own]) for given in (latents, time, text))
            found = self._found(x, t, y.narrow(1, 0, length))
            for place, i in enumerate(own):
                parts[i] = found[place]
        return ops.stack(parts)

    def _found(self, latents: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """As `forward`, of texts (B, S, D) of the same length."""
        batch, channels, height, width = latents.shape
        rows, columns = height // PATCH, width // PATCH
        condition = self.t_embedder((UNITS - time) * (self.config.t_scale / UNITS))  # (B, C)
        x = latents.reshape(batch, channels, rows, PATCH, columns, PATCH).permute(0, 2, 4, 3, 5, 1)
        x = self.all_x_embedder[SIZES](x.reshape(batch, rows * columns, PATCH**2 * channels))  # (B, T, D)
        x = _filled(x, self.x_pad_token)
        y = _filled(self.cap_embedder[1](self.cap_embedder[0](text)), self.cap_pad_token)  # (B, S, D)
        places, tokens = x.shape[1], y.shape[1]
        table = self.table(tokens, rows, columns)
        for block in self.noise_refiner:
            x = block(x, table.narrow(0, 0, places), condition)
        for block in self.context_refiner:
            y = block(y, table.narrow(0, places, tokens), condition)
        x = ops.cat([x, y], 1)  # (B, T + S, D)
        for block in self.layers:
            x = block(x, table, condition)
        x = -self.all_final_layer[SIZES](x.narrow(1, 0, rows * columns), condition)  # (B, T, 4 * C)
        x = x.reshape(batch, rows, columns, PATCH, PATCH, channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(batch, channels, height, width)
