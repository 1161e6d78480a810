"""Makes golden_encoders/NAME.json with transformers, one for each configuration of encoder_configs.py:

    PYTHONPATH=. python tests/models/make_golden_encoders.py [NAME …]

For each task a file has the names and shapes of the parameters, the outputs of a batch with padding (its first and last
tokens), and the product of each parameter's gradient with a fixed vector. The weights are not stored: seeded.py makes
them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from pyapp.models._index import MODEL_TYPES, TASKS
from tests.goldens import write_each
from tests.models import neobert_reference
from tests.models.encoder_configs import CONFIGS, LENGTH, MASKED, batch, page
from tests.models.seeded import direction, draw, rounded
from tests.models.seeded_folders import along

ENTITIES = ("luke", "luke_words")
CLASSES = {
    "features": "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "table-question-answering": "AutoModelForTableQuestionAnswering",
    "multiple-choice": "AutoModelForMultipleChoice",
    "replaced-tokens": "AutoModelForPreTraining",
}


class NoPositions(torch.nn.Module):
    def forward(self, places: torch.Tensor) -> torch.Tensor:
        return torch.zeros(())


class GatedPart(torch.nn.Module):
    """The feed-forward part of jina-bert, by its paper (arXiv 2310.19923) and the names of its files."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.gated_layers = torch.nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.wo = torch.nn.Linear(config.intermediate_size, config.hidden_size)
        self.layernorm = torch.nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, values = self.gated_layers(x).chunk(2, -1)
        return self.layernorm(x + self.wo(torch.nn.functional.gelu(gate) * values))


def become_jinas(model: Any) -> None:
    """Turns BERT into jina-bert; `outputs` adds the biases by distance to the mask."""
    encoder = getattr(model, "bert", model)
    encoder.embeddings.position_embeddings = NoPositions()
    for layer in encoder.encoder.layer:
        del layer.intermediate, layer.output
        layer.mlp = GatedPart(model.config)
        layer.feed_forward_chunk = layer.mlp.forward


class MixedPart(torch.nn.Module):
    """The experts of Nomic BERT 2 (arXiv 2502.07972): the sum of the chosen ones by their shares, and one bias."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        count, inner, width = config.num_experts, config.intermediate_size, config.hidden_size
        self.count = config.moe_top_k
        self.router = torch.nn.Linear(width, count, bias=False)
        self.experts = torch.nn.Module()
        self.experts.up_proj = torch.nn.Parameter(torch.zeros(count, inner, width))
        self.experts.down_proj = torch.nn.Parameter(torch.zeros(count, width, inner))
        self.experts.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.router(x).softmax(-1).topk(self.count, -1)
        found = torch.zeros_like(x)
        for expert, (up, down) in enumerate(zip(self.experts.up_proj, self.experts.down_proj, strict=True)):
            share = (shares * (chosen == expert)).sum(-1, True)
            found = found + share * (torch.nn.functional.gelu(x @ up.T) @ down.T)
        return found + self.experts.bias


class PlainPart(torch.nn.Module):
    """The feed-forward part of Nomic BERT 2 in other layers."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.up_proj = torch.nn.Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = torch.nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(torch.nn.functional.gelu(self.up_proj(x)))


def become_mixed(model: Any) -> None:
    """Turns Nomic BERT into its second version."""
    config, encoder = model.config, getattr(model, "nomic_bert", model)
    for number, layer in enumerate(encoder.layers):
        layer.mlp = (MixedPart if number % 2 else PlainPart)(config)
        for name, part in layer.self_attn.named_children():
            if isinstance(part, torch.nn.Linear):
                setattr(layer.self_attn, name, torch.nn.Linear(part.in_features, part.out_features))


def biases(mask: list[list[int]], heads: int) -> torch.Tensor:
    """ALiBi of both directions, and minus infinity for padding: (B, H, T, T)."""
    places = torch.arange(len(mask[0]))
    slopes = torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)])
    found = -slopes[None, :, None, None] * (places[:, None] - places).abs()
    return found.masked_fill(torch.tensor(mask)[:, None, None] == 0, torch.finfo(torch.float32).min)


# With pre_norm, FlauBERT of transformers 5.24 asks the cache for one of each layer, which it has not.
transformers.EncoderDecoderCache.__getitem__ = lambda self, layer: self  # type: ignore[attr-defined]


# Transformers 5.24 gives Nyströmformer the mask of each query, of which landmarks have another number; all are alike.
_masks = transformers.models.nystromformer.modeling_nystromformer.create_bidirectional_mask
transformers.models.nystromformer.modeling_nystromformer.create_bidirectional_mask = (
    lambda **given: _masks(**given)[:, :, :1]  # type: ignore[attr-defined]
)


# Transformers 5.24 gives YOSO's attention no padding: the masks that its authors' program makes are put in place.
class Cumulation:
    mask: list[list[int]]

    @classmethod
    def apply(cls, query_mask: Any, key_mask: Any, *more: Any) -> Any:
        own = torch.tensor(cls.mask).repeat_interleave(len(query_mask) // len(cls.mask), 0)
        return _cumulation.apply(own, own, *more)


_cumulation = transformers.models.yoso.modeling_yoso.YosoCumulation
transformers.models.yoso.modeling_yoso.YosoCumulation = Cumulation


# The network of pictures of LayoutLMv2, which detectron2 has, of torch's layers by the papers and its files' names.
class Norm(torch.nn.Module):
    """A norm of batches whose numbers are no parameters; here it changes nothing but the size of one in 10^5."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (1 + 1e-5) ** 0.5


def convolution(before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> torch.nn.Conv2d:
    made = torch.nn.Conv2d(before, width, kernel, stride, kernel // 2, groups=groups, bias=False)
    made.norm = Norm()
    made.register_forward_hook(lambda module, given, found: module.norm(found))
    return made


class Bottleneck(torch.nn.Module):
    def __init__(self, before: int, width: int, inner: int, stride: int, groups: int) -> None:
        super().__init__()
        self.shortcut = convolution(before, width, 1, stride) if before != width else torch.nn.Identity()
        self.conv1, self.conv3 = convolution(before, inner, 1), convolution(inner, width, 1)
        self.conv2 = convolution(inner, inner, 3, stride, groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.conv3(self.conv2(self.conv1(x).relu()).relu()) + self.shortcut(x)).relu()


class Visual(torch.nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        own = {key.rpartition(".")[2]: value for key, value in config.detectron2_config_args.items()}
        self.pool = torch.nn.AdaptiveAvgPool2d(config.image_feature_pool_shape[:2])
        self.deviation = torch.tensor(own["PIXEL_STD"]).view(3, 1, 1)
        before, width, outputs = own["STEM_OUT_CHANNELS"], own["RES2_OUT_CHANNELS"], config.image_feature_pool_shape[2]
        inner = own["NUM_GROUPS"] * own["WIDTH_PER_GROUP"]
        self.backbone = torch.nn.Module()
        self.backbone.bottom_up = torch.nn.Module()
        self.backbone.bottom_up.stem = torch.nn.Module()
        self.backbone.bottom_up.stem.conv1 = convolution(3, before, 7, 2)
        for stage, count in enumerate((3, 4, 6, 3)):
            blocks = torch.nn.Sequential()
            for block in range(count):
                stride = 2 if stage and not block else 1
                blocks.append(Bottleneck(before, width, inner, stride, own["NUM_GROUPS"]))
                before = width
            setattr(self.backbone.bottom_up, f"res{stage + 2}", blocks)
            setattr(self.backbone, f"fpn_lateral{stage + 2}", torch.nn.Conv2d(width, outputs, 1))
            width, inner = 2 * width, 2 * inner
        self.backbone.fpn_output2 = torch.nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = (images - torch.tensor([103.53, 116.28, 123.675]).view(3, 1, 1)) / self.deviation
        part = self.backbone.bottom_up
        x = torch.nn.functional.max_pool2d(part.stem.conv1(x).relu(), 3, 2, 1)
        stages = [x := getattr(part, f"res{number}")(x) for number in (2, 3, 4, 5)]
        found = self.backbone.fpn_lateral5(stages[3])
        for number in (4, 3, 2):
            own = getattr(self.backbone, f"fpn_lateral{number}")(stages[number - 2])
            found = own + found.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return self.pool(self.backbone.fpn_output2(found)).flatten(2).transpose(1, 2)


_pages = transformers.models.layoutlmv2.modeling_layoutlmv2
_pages.LayoutLMv2PreTrainedModel._init_weights = lambda self, module: None  # which asks for detectron2
_pages.LayoutLMv2VisualBackbone, _pages.requires_backends = Visual, lambda *given: None


def model_of(name: str, task: str) -> Any:
    config = dict(CONFIGS[name])
    if task == "question-answering":
        config |= {"id2label": {"0": "start", "1": "end"}}
    if name == "neobert":
        return drawn(neobert_reference.model_of(config, task).float().eval())
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    if made.model_type == "funnel":  # of which there are two with features
        made.architectures = ["FunnelModel"]
    auto = CLASSES[task]
    if name == "layoutlm" and task == "question-answering":
        auto = "AutoModelForDocumentQuestionAnswering"
    model = getattr(transformers, auto).from_config(made).float().eval()
    if name == "jina_bert":
        become_jinas(model)
    if name == "nomic_moe":
        become_mixed(model)
    for module in model.modules():
        if hasattr(module, "contact_head"):  # ESM's, which pyapp leaves out
            module.contact_head = None
    return drawn(model)


def drawn(model: Any) -> Any:
    """The model with seeded weights."""
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(key, tuple(parameter.shape))))
    return model


def outputs(model: Any, name: str, task: str) -> Any:
    ids, mask, types = batch(CONFIGS[name])
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    if name == "jina_bert":
        given["attention_mask"] = biases(mask, model.config.num_attention_heads)
    Cumulation.mask = mask
    if types is not None:
        given["token_type_ids"] = torch.tensor(types)
    more = page(CONFIGS[name])
    fields = ("entity_ids", "entity_position_ids") if name in ENTITIES else ("bbox", "pixel_values")
    fields = ("xpath_tags_seq", "xpath_subs_seq") if name == "markuplm" else fields
    for field, values in zip(fields, more, strict=False):
        given[field] = torch.from_numpy(values if field == "pixel_values" else values.astype(np.int64))
    if name == "layoutlmv2":
        given["image"] = given.pop("pixel_values")
    if name == "bros":  # whose pages are one wide and high
        given["bbox"] = given["bbox"] / 1000
    if name in ENTITIES:
        given["entity_attention_mask"] = (given["entity_ids"] != 0).long()
    if name == "dpr":  # which gives the first token alone
        return model.question_encoder.encode_proj(model(**given, output_hidden_states=True).hidden_states[-1])
    if task == "multiple-choice":  # of the two texts
        given = {key: value.unsqueeze(0) for key, value in given.items()}
    found = model(**given)
    if task == "features" and name in ENTITIES:
        return torch.cat([found[0], found.entity_last_hidden_state], 1)
    if task == "table-question-answering":
        return torch.cat([found.logits, found.logits_aggregation], 1)
    if task == "question-answering":
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found[0]


def shown(x: Any) -> Any:
    """The first and the last token of the first text, the last real token of the second; the first entity of each."""
    rows, places = ([0, 0, 1, 0, 1], [0, 6, 3, 7, 7]) if x.shape[1] == LENGTH + 2 else ([0, 0, 1], [0, 6, 3])
    return x if x.ndim == 2 else x[rows, places]


def golden(name: str) -> dict[str, Any]:
    tasks = [task for task in TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]] if task in CLASSES]
    return {task: of_task(name, task) for task in tasks if (name, task) not in MASKED}


def of_task(name: str, task: str) -> dict[str, Any]:
    model = model_of(name, task)
    found = outputs(model, name, task)
    picked = shown(found)
    along(picked, task).backward()
    parameters = {}
    for key, parameter in model.named_parameters():
        grad = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.double().numpy()
        parameters[key] = [list(parameter.shape), *rounded([(grad * direction(key, grad.shape)).sum()])]
    return {"outputs": rounded(picked.detach()), "parameters": parameters}


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
