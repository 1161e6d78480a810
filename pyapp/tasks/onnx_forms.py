"""The ONNX files of models: what they compute, and the names of their inputs and outputs, as Optimum and
transformers.js know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops.random import Generator
from pyapp.errors import ModelError
from pyapp.models.sentences.embedding import SentenceEmbedder
from pyapp.models.whisper import Whisper
from pyapp.models.whisper.continued import continued_logits as continued_speech
from pyapp.nn.recurrent.continued import continued_logits, kept_parts
from pyapp.nn.sequence_to_sequence.continued import Past
from pyapp.nn.sequence_to_sequence.continued import continued_logits as continued_decoding
from pyapp.onnx import export, load
from pyapp.onnx.exporting.branches import export_either
from pyapp.onnx.exporting.calls import Call
from pyapp.onnx.verifying import check_outputs, has_blocks, removed_if_wrong

WRITING, ANSWERING, HEARING = "causal-lm", "seq2seq-lm", "speech-recognition"
OF_TEXTS: Mapping[str, tuple[str, ...]] = {  # the outputs of the tasks
    "features": ("last_hidden_state",), "masked-lm": ("logits",), "sequence-classification": ("logits",),
    "token-classification": ("logits",), "question-answering": ("start_logits", "end_logits"), WRITING: ("logits",),
}  # fmt: skip
OF_PICTURES: Mapping[str, tuple[str, ...]] = {"image-classification": ("logits",), "image-features": ("image_embeds",)}
TASKS = (*OF_TEXTS, *OF_PICTURES, ANSWERING, HEARING)
TOKENS = {0: "batch_size", 1: "sequence_length"}
PAST, SOURCE = "past_sequence_length", "encoder_sequence_length"
ENCODER, DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"  # as Optimum and transformers.js call them
ENCODED, CONDITION = "encoder_hidden_states", "use_cache_branch"
OF_LAYERS = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
EXAMPLE, EARLIER = 6, 5  # tokens of the example, and before it
FIRST_WORD, WORDS = 5, 3  # of the tokens


@dataclass
class Form:
    """A file: a function of the inputs, an example of these by name, the names of the outputs and of the sizes that
    differ. `first`: inputs of another call, with which the file is tried. `name`: the file's.
    """

    module: Any
    inputs: dict[str, Tensor]
    outputs: Sequence[str]
    axes: dict[str, dict[int, str]]
    first: dict[str, Tensor] = field(default_factory=dict)
    name: str = "model.onnx"

    def write(self, folder: Path, opset: int | None) -> list[Path]:
        file = folder / self.name
        export(
            self.module, list(self.inputs.values()), file, input_names=list(self.inputs), output_names=self.outputs,
            opset_version=opset, dynamic_axes=self.axes, verify=True, blocks=True,
        )  # fmt: skip
        if self.first:
            with removed_if_wrong(file), no_grad():
                in_blocks = has_blocks(dict(self.module.named_parameters()).values())
                check_outputs(load(file, device="cpu"), self.module, self.first, self.outputs, in_blocks=in_blocks)
        return [file]


@dataclass
class EncoderDecoder:
    """Two files. The decoder computes `logits(tokens, encoded, mask, past)`, with what is kept of earlier tokens and of
    the source, or without it at the beginning of texts. `encoded`: for (batch, source tokens), an encoder's output;
    `length`: the tokens of every source, if they are a fixed number.
    """

    model: Any
    encoder: Form
    logits: Callable[[Tensor, Tensor, Tensor | None, list[Past]], tuple[Tensor, list[list[Tensor]]]]
    encoded: Callable[[int, int], Tensor]
    length: int | None = None

    def write(self, folder: Path, opset: int | None) -> list[Path]:
        file = folder / DECODER
        given, kept = self._example(2, EXAMPLE, EARLIER, 7)
        names = [f"{layer}.{part}" for layer in range(len(kept) // 4) for part in OF_LAYERS]
        outputs = ["logits", *(f"present.{name}" for name in names)]
        past = dict(zip((f"past_key_values.{name}" for name in names), kept, strict=True))
        encoded = {0: TOKENS[0]} if self.length else {0: TOKENS[0], 1: SOURCE}
        axes: dict[str, dict[int, str]] = {"input_ids": TOKENS, ENCODED: encoded}
        axes["encoder_attention_mask"] = axes[ENCODED]
        for name, of_source in zip(past, (False, False, True, True) * (len(past) // 4), strict=True):
            axes[name] = {0: TOKENS[0], 2: SOURCE if of_source else PAST}
        calls = []
        for inputs in (given | past, given):
            call = Call(_Named(self.model, partial(self._call, list(inputs))), (*inputs.values(),), {})
            call.name(list(inputs))
            call.vary({name: axes[name] for name in inputs}, outputs)
            calls.append(call)
        export_either(CONDITION, calls, outputs, file, unlike={SOURCE: f"{SOURCE}_out"}, opset_version=opset)
        with removed_if_wrong(file):
            self._check(load(file, device="cpu"), list(past), outputs)
            return [*self.encoder.write(folder, opset), file]

    def _example(self, batch: int, tokens: int, earlier: int, source: int) -> tuple[dict[str, Tensor], list[Tensor]]:
        """The inputs without those that are kept, and those."""
        with no_grad():
            encoded = self.encoded(batch, self.length or source)  # (B, S, D)
            given = {"input_ids": _ids(batch, tokens)}
            if self.length is None:
                given["encoder_attention_mask"] = ops.ones(batch, source, dtype="int64")
            given[ENCODED] = encoded
            _, kept = self.logits(_ids(batch, earlier), encoded, given.get("encoder_attention_mask"), [])
        return given, [x for layer in kept for x in layer]

    def _call(self, names: Sequence[str], *inputs: Tensor) -> list[Tensor]:
        given = dict(zip(names, inputs, strict=True))
        kept = [x for name, x in given.items() if name.startswith("past_key_values.")]
        past: list[Past] = [kept[at : at + 4] for at in range(0, len(kept), 4)]
        mask = given.get("encoder_attention_mask")
        logits, present = self.logits(given["input_ids"], given[ENCODED], mask, past)
        return [logits, *(x for layer in present for x in layer)]

    def _check(self, file: Any, past: list[str], outputs: list[str]) -> None:
        """Runs both parts of the file with other sizes."""
        in_blocks = has_blocks(self.model.parameters())
        for sizes in ((2, EXAMPLE, EARLIER, 7), (1, 1, 1, 9), (3, 1, 9, 1)):
            given, values = self._example(*sizes)
            kept = dict(zip(past, values, strict=True))
            for goes_on in (False, True):
                inputs = given | kept if goes_on else given
                others = {CONDITION: ops.tensor([goes_on]), **({} if goes_on else kept)}
                with no_grad():
                    call = partial(self._call, list(inputs))
                    check_outputs(file, call, inputs, outputs, others, in_blocks=in_blocks)


def _ids(batch: int, tokens: int) -> Tensor:
    """Words (B, T), which are no special tokens of most models."""
    return (ops.arange(batch * tokens).remainder(WORDS) + FIRST_WORD).reshape(batch, tokens)


def of_pictures(image: Any, task: str) -> Form:
    pixels = image.processor([ops.zeros(48, 64, 3, dtype="uint8")] * 2).pixel_values  # (2, 3, H, W)
    return Form(image.model, {"pixel_values": pixels}, OF_PICTURES[task], {"pixel_values": {0: TOKENS[0]}})


def of_texts(model: Any, task: str) -> Form:
    outputs, ids = list(OF_TEXTS[task]), _ids(2, EXAMPLE)
    inputs = {"input_ids": ids, "attention_mask": ops.ones(2, EXAMPLE, dtype="int64")}
    if (getattr(model.config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = ids * 0
    module = model
    if isinstance(model, SentenceEmbedder):
        outputs.append("sentence_embedding")

        def embed(ids: Tensor, mask: Tensor, types: Tensor | None = None) -> list[Tensor]:
            states = model.encoder(ids, mask, types)  # (B, T, D)
            return [states, model.pooled(states, ids, mask)]

        module = _Named(model, embed)
    elif task == "question-answering":
        module = _Named(model, lambda *given: model(*given).unbind(-1))
    return Form(module, inputs, outputs, dict.fromkeys(inputs, TOKENS))


def of_writer(model: Any) -> Form:
    """A language model: with what it keeps of earlier tokens, where that is keys and values, and states."""
    kept, ids = kept_parts(model), _ids(2, EXAMPLE)
    if kept is None:
        return Form(model, {"input_ids": ids}, OF_TEXTS[WRITING], {"input_ids": TOKENS})
    attends = any(part.of_tokens for part in kept)
    axes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    if attends:
        axes["attention_mask"], axes["position_ids"] = {0: TOKENS[0], 1: f"{PAST} + {TOKENS[1]}"}, TOKENS
    axes |= {part.past: {0: TOKENS[0], 2: PAST} if part.of_tokens else {0: TOKENS[0]} for part in kept}
    drawn, kind = Generator().manual_seed(0), model.embedding(ids).dtype  # weights may have fewer bits

    def example(earlier: int) -> dict[str, Tensor]:
        given = [ids, ops.ones(2, EXAMPLE + (earlier if attends else 0), dtype="int64")]
        if attends:
            given.append(ops.arange(earlier, earlier + EXAMPLE).expand(2, EXAMPLE).contiguous())  # (2, T)
        for part in kept:
            sizes = (2, *(earlier if size is None else size for size in part.sizes))
            # States are those before a text: others are not what every layer can have made.
            new = ops.randn(*sizes, generator=drawn) if part.of_tokens else ops.zeros(*sizes)
            given.append(new.to(kind) if part.of_tokens else new)
        return dict(zip(axes, given, strict=True))

    def function(ids: Tensor, mask: Tensor, *given: Tensor) -> list[Tensor]:
        places, *past = given if attends else (ops.zeros_like(ids), *given)
        held = {part.place: x for part, x in zip(kept, past, strict=True)}
        logits, present = continued_logits(model, ids, mask, places, held)
        return [logits, *(present[part.place] for part in kept)]

    outputs = [*OF_TEXTS[WRITING], *(part.present for part in kept)]
    return Form(_Named(model, function), example(EARLIER), outputs, axes, example(0) if attends else {})


def of_translator(model: Any) -> EncoderDecoder:
    inputs = {"input_ids": _ids(2, EXAMPLE), "attention_mask": ops.ones(2, EXAMPLE, dtype="int64")}
    encoder = Form(
        _Named(model, model.encode), inputs, OF_TEXTS["features"], dict.fromkeys(inputs, TOKENS), name=ENCODER
    )  # fmt: skip
    return EncoderDecoder(
        model, encoder, partial(continued_decoding, model), lambda batch, source: model.encode(_ids(batch, source)),
    )  # fmt: skip


def of_speech(model: Any) -> EncoderDecoder:
    if not isinstance(model, Whisper):
        raise ModelError("ONNX files are written for Whisper, not for other models that hear")
    config, drawn = model.config, Generator().manual_seed(0)
    mel = ops.randn(2, config.n_mels, 2 * config.n_audio_ctx, generator=drawn)
    encoder = Form(
        _Named(model, model.encode), {"input_features": mel}, OF_TEXTS["features"], {"input_features": {0: TOKENS[0]}},
        name=ENCODER,
    )  # fmt: skip
    return EncoderDecoder(
        model, encoder, lambda tokens, audio, _, past: continued_speech(model.decoder, tokens, audio, past),
        lambda batch, source: ops.randn(batch, source, config.n_audio_state, generator=drawn), config.n_audio_ctx,
    )  # fmt: skip


class _Named:
    """A function, with the names of a model's parameters for the file."""

    def __init__(self, model: Any, function: Callable[..., Any]) -> None:
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers
        self._function = function

    def __call__(self, *inputs: Tensor) -> Any:
        return self._function(*inputs)
