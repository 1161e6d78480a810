"""Makes golden_pictures/NAME.json with transformers, one for each configuration of picture_configs.py:

    PYTHONPATH=. python tests/models/make_golden_pictures.py [NAME …]

For each task a file has the names and shapes of the parameters as files have them (transformers changes some while it
reads), some numbers of the outputs for two pictures, and the product of each parameter's gradient with a fixed vector.
The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from pyapp.models._index import MODEL_TYPES, TASKS
from tests.goldens import write_each
from tests.models.picture_configs import (
    BOXES,
    CLASSES,
    CONFIGS,
    DEPTHS,
    FOUND,
    PHRASES,
    POINT_LABELS,
    POINTS,
    PROMPT,
    QUESTION,
    SHOWN_BOXES,
    SHOWN_KINDS,
    TOKENS,
    sizes,
)
from tests.models.picture_folders import PROCESSORS, phrases_json
from tests.models.seeded import direction, picture, picture_weights, rounded, shown
from tests.models.seeded_folders import along, configuration
from tests.vision.processor_cases import pictures as processor_pictures

FROZEN = r"backbone\..*running_var"  # of norms that are frozen, where a model has such
CONDITIONER = "input_conditioner.norm_mean", "input_conditioner.norm_std", "summary_idxs"  # buffers of RADIO
CHANCES = "attn_mask_probs"  # a buffer of EoMT, which stays as training begins
# Ends of the names of buffers whose values never change.
COMPUTED = (CHANCES, "pos_idx_to_embed", "n_points_scale", "num_points_scale", *CONDITIONER)
ENDS = {
    "depth-estimation": "ForDepthEstimation",
    "pose-estimation": "ForPoseEstimation",
    "image-features": "Model",
    "image-classification": "ForImageClassification",
    "image-to-image": "ForImageSuperResolution",
    "image-to-text": "Model",
    "mask-generation": "Model",
    "keypoint-detection": "ForKeypointDetection",
    "keypoint-matching": "ForKeypointMatching",
    "object-detection": "ForObjectDetection",
    "semantic-segmentation": "ForSemanticSegmentation",
    "video-classification": "ForVideoClassification",
    "visual-question-answering": "ForQuestionAnswering",
    "zero-shot-image-classification": "Model",
    "zero-shot-object-detection": "ForObjectDetection",
    "zero-shot-semantic-segmentation": "ForImageSegmentation",
}


def read_file(name: str, folder: Path) -> dict[str, Any]:
    """The tensors of a file by name. transformers 5 leaves out the encoder's name of MSN with a head, which older files
    have.
    """
    stored = load_file(folder / "model.safetensors")
    headless = name != "vit_msn" or "classifier.weight" not in stored
    return {key if headless or not key.startswith("encoder.") else f"vit.{key}": value for key, value in stored.items()}


def model_of(name: str, task: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """(the model with its drawn weights, its stored tensors by name)."""
    made = configuration(CONFIGS[name])
    usual = type(made).__name__.removesuffix("Config") + ENDS[task]
    model = getattr(transformers, CLASSES.get((name, task), usual))(made).float()
    model.save_pretrained(folder)
    stored = read_file(name, folder)
    frozen = any(type(module).__name__.endswith("FrozenBatchNorm2d") for module in model.modules())
    norms = tuple(key.removesuffix("running_var") for key in stored if frozen and re.search(FROZEN, key))
    buffers = {
        key
        for key in stored
        if key.endswith(("running_mean", "running_var", "num_batches_tracked", CHANCES, *CONDITIONER))
    }
    buffers |= {key for key in stored if norms and key.startswith(norms)}
    for key, value in stored.items():
        if value.is_floating_point() and not key.endswith(COMPUTED):
            stored[key] = torch.from_numpy(picture_weights(key, tuple(value.shape)))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    # The masks of Grounding DINO's texts are wrong with transformers' eager attention, which is not the usual one.
    eager = {} if "grounding_dino" in name else {"attn_implementation": "eager"}
    model = type(model).from_pretrained(folder, **eager).float().eval()
    for module in model.modules():  # a parameter here
        if "positional_embedding" in module._buffers:
            module.positional_embedding = torch.nn.Parameter(module._buffers.pop("positional_embedding"))
    if type(model).__name__ == "SamHQModel":
        repair(model.mask_decoder.transformer)
    model.requires_grad_(True)
    for module in model.modules():  # transformers leaves this table without memory
        if type(module).__name__ == "TrOCRSinusoidalPositionalEmbedding":
            module.weights = module.get_embedding(*module.weights.shape, module.padding_idx)
    return model, {key: value for key, value in stored.items() if key not in buffers}


def repair(transformer: Any) -> None:
    """SAM-HQ of transformers 5.24 leaves out what its decoder makes of the map, and turns the map over. In the authors'
    program (mask_decoder_hq.py of SysCV/sam-hq) the masks are those of the decoder's map.
    """
    own = transformer.forward

    def forward(image_embeddings: torch.Tensor, **more: Any) -> Any:
        tokens, found = own(image_embeddings=image_embeddings.clone(), **more)
        shape = image_embeddings.shape
        image_embeddings.copy_(found.transpose(2, 3).reshape(shape).transpose(2, 3))
        return tokens, found

    transformer.forward = forward


def of_open_clip(name: str) -> tuple[Any, dict[str, Any]]:
    """As model_of, for a model of OpenCLIP (pip install open_clip_torch), with a small network of timm's."""
    import timm
    from open_clip.model import CustomTextCLIP

    own = CONFIGS[name]
    vision, text = own["vision_config"], own["text_config"]
    sizes = {"layers": vision["depths"], "embed_dims": vision["hidden_sizes"], "mlp_ratios": vision["mlp_ratios"]}
    create = timm.create_model
    timm.create_model = lambda *given, **more: create(*given, **more, **sizes)
    words = {"context_length": text["max_position_embeddings"], "vocab_size": text["vocab_size"], "layers": 2}
    words |= {"width": text["hidden_size"], "heads": text["num_attention_heads"], "no_causal_mask": True}
    words["mlp_ratio"] = text["intermediate_size"] / text["hidden_size"]
    seen = {"timm_model_name": "fastvit_mci0", "timm_pool": "avg", "timm_proj": None, "image_size": own["image_size"]}
    model = CustomTextCLIP(own["embed_dim"], seen, words).float().eval()
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                shape = tuple(value.shape[:1] if key.endswith(".gamma") else value.shape)
                value.copy_(torch.from_numpy(picture_weights(key, shape)).reshape(value.shape))
    return model, {key: flat(key, value) for key, value in model.named_parameters()}


def flat(key: str, value: torch.Tensor) -> torch.Tensor:
    """A parameter of OpenCLIP without the dimensions of 1 of factors of channels."""
    return value.reshape(-1) if key.endswith(".gamma") else value


def prompted(model: Any, size: tuple[int, int]) -> dict[str, Any]:
    """The prompts of two pictures, for models that read some: the tokens of a picture's vectors and those of words."""
    if type(model).__name__.startswith(("Blip2", "InstructBlip")):
        picture = [model.config.image_token_index] * model.config.num_query_tokens
        end = model.config.text_config.eos_token_id
        found = {"input_ids": torch.tensor([[*picture, *PROMPT[1:-1], end]] * 2)}
        more = {"qformer_input_ids": torch.tensor([QUESTION] * 2)} if hasattr(model.qformer, "embeddings") else {}
        return found | more
    if type(model).__name__.startswith("Git"):  # the token that begins a text
        return {"input_ids": torch.tensor([[2]] * 2)}
    if not type(model).__name__.startswith("Florence2"):
        return {}
    vectors = size[0] // 4 * (size[1] // 4) + 1
    return {"input_ids": torch.tensor([[model.config.image_token_id] * vectors + PROMPT] * 2)}


def joined(found: list[Any]) -> list[torch.Tensor]:
    """The places, the matches and their scores of pairs, with zeros, and -1, after the points of those with fewer."""
    shapes = [one.keypoints.shape[1:3] for one in found]
    most = max(shape[1] for shape in shapes)

    def filled(x: torch.Tensor, value: float = 0.0) -> torch.Tensor:
        more = torch.full((2, most - x.shape[1], *x.shape[2:]), value)
        return torch.cat([x, more], 1)

    return [
        torch.stack([filled(one.keypoints[0]) for one in found]),
        torch.stack(
            [filled(one.matches.reshape(shape).float(), -1.0) for one, shape in zip(found, shapes, strict=True)]
        ),
        torch.stack([filled(one.matching_scores.reshape(shape)) for one, shape in zip(found, shapes, strict=True)]),
    ]


def placed(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures as Pix2Struct reads them: patches after the numbers of their rows and columns, from 1."""
    x = pictures.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).float()  # (B, rows, columns, 4, 4, 3)
    rows, columns = x.shape[1:3]
    down, along = torch.meshgrid(torch.arange(1.0, rows + 1), torch.arange(1.0, columns + 1), indexing="ij")
    grid = torch.stack([down, along], -1).expand(2, rows, columns, 2)
    return torch.cat([grid, x.flatten(3)], 3).flatten(1, 2)


def of_any_shape(pictures: torch.Tensor) -> dict[str, torch.Tensor]:
    """Pictures as SigLIP 2 reads them: rows of patches."""
    x = pictures.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1)  # (B, rows, columns, 4, 4, 3)
    count = x.shape[1] * x.shape[2]
    return {
        "pixel_values": x.reshape(2, count, 48), "spatial_shapes": torch.tensor([x.shape[1:3]] * 2),
        "pixel_attention_mask": torch.ones(2, count, dtype=torch.int32),
    }  # fmt: skip


def outputs(model: Any, name: str, task: str, size: tuple[int, int]) -> list[Any]:
    if task == "video-classification":
        frames = CONFIGS[name].get("num_frames", CONFIGS[name].get("frames_per_clip"))
        return [model(torch.from_numpy(picture(2 * frames, *size).reshape(2, frames, 3, *size))).logits]
    if task == "keypoint-matching":
        pairs = torch.from_numpy(picture(4, *size).reshape(2, 1, 2, 3, *size))
        return joined([model(pair) for pair in pairs])  # LightGlue of 5.24 fails where pairs end at several layers
    pictures = torch.from_numpy(picture(2, *size))
    if task == "keypoint-detection":
        found = model(pictures)
        return [found.keypoints, found.scores, found.descriptors]
    if task == "image-to-text":
        if type(model).__name__.startswith("Git"):  # the patches stand before the text
            words = torch.tensor(TOKENS)
            return [model(pixel_values=pictures, input_ids=words).logits[:, -words.shape[1] :]]
        tokens = "input_ids" if type(model).__name__.startswith("BlipFor") else "decoder_input_ids"
        if type(model).__name__.startswith("Pix2Struct"):
            return [model(flattened_patches=placed(pictures), decoder_input_ids=torch.tensor(TOKENS)).logits]
        return [model(pixel_values=pictures, **prompted(model, size), **{tokens: torch.tensor(TOKENS)}).logits]
    if type(model).__name__ == "Siglip2ForImageClassification":
        return [model(**of_any_shape(pictures)).logits]
    if task == "zero-shot-image-classification":
        more = {"pixel_values": pictures}
        if type(model).__name__ == "Siglip2Model":
            more = of_any_shape(pictures)
        if type(model).__name__ == "CustomTextCLIP":
            pictured, read, scale = model(pictures, torch.tensor(TOKENS))[:3]
            return [scale * pictured @ read.T]
        if type(model).__name__ == "Aimv2Model":  # its texts see what is after them where no mask is given
            more["attention_mask"] = torch.ones_like(torch.tensor(TOKENS))
        return [model(**more, input_ids=torch.tensor(TOKENS)).logits_per_image]
    if task in ("visual-question-answering", "zero-shot-semantic-segmentation"):
        return [model(pixel_values=pictures, input_ids=torch.tensor(TOKENS)).logits]
    if "GroundingDino" in type(model).__name__:
        ids = torch.tensor(PHRASES)
        found = model(pixel_values=pictures, input_ids=ids, attention_mask=(ids != 0).long())
        return [found.logits[..., : ids.shape[1]].clamp(min=-50), found.pred_boxes]
    if type(model).__name__ == "Sam3Model":
        words = torch.tensor(TOKENS)
        shown = {"input_boxes": torch.tensor(SHOWN_BOXES), "input_boxes_labels": torch.tensor(SHOWN_KINDS)}
        both = [
            model(pixel_values=pictures, input_ids=words, attention_mask=torch.ones_like(words), **more)
            for more in ({}, shown)
        ]
        return [
            part
            for found in both
            for part in (found.pred_logits, found.pred_boxes, found.presence_logits, found.pred_masks)
        ]
    if task == "zero-shot-object-detection":
        found = model(pixel_values=pictures, input_ids=torch.tensor(TOKENS * 2))
        return [found.logits, found.pred_boxes]
    if task == "mask-generation":
        points = {"input_points": torch.tensor(POINTS), "input_labels": torch.tensor(POINT_LABELS)}
        boxes = {"input_boxes": torch.tensor(BOXES)}
        found = [
            model(pixel_values=pictures, multimask_output=several, **prompts)
            for several, prompts in ((True, points), (False, boxes), (True, points | boxes))
        ]
        return [part for result in found for part in (result.pred_masks, result.iou_scores)]
    if task == "pose-estimation":
        more = (
            {"dataset_index": torch.zeros(2, dtype=torch.long)} if model.config.backbone_config.num_experts > 1 else {}
        )
        return [model(pixel_values=pictures, **more).heatmaps]
    if type(model).__name__ == "ViTMAEModel":  # all patches, in their order
        return [model(pixel_values=pictures, noise=torch.arange(9.0).repeat(2, 1)).last_hidden_state]
    more = {}
    if type(model).__name__.startswith("OneFormer"):
        more["task_inputs"] = torch.tensor([PROMPT + [0] * (model.config.task_seq_len - len(PROMPT))] * 2)
    found = model(pixel_values=pictures, **more)
    if task == "object-detection":
        return [found.logits, found.pred_boxes]
    if task == "depth-estimation" and getattr(found, "field_of_view", None) is not None:
        angle = torch.deg2rad(found.field_of_view)  # as its image processor makes metres
        return [found.predicted_depth * 2 * torch.tan(angle / 2).reshape(-1, 1, 1)]
    if name == "prompt_depth_anything":
        measured = torch.tensor(DEPTHS)
        return [found.predicted_depth, model(pictures, prompt_depth=measured).predicted_depth]
    if task == "depth-estimation":
        return [found.predicted_depth]
    if task == "image-to-image":
        return [found.reconstruction]
    if hasattr(found, "masks_queries_logits"):  # before they are brought to the picture's size
        labels = found.class_queries_logits.softmax(-1)[..., :-1]
        return [torch.einsum("bqc, bqhw -> bchw", labels, found.masks_queries_logits.sigmoid())]
    if task == "image-features":
        return [found.last_hidden_state]
    return [found.logits]


def written(model: Any, size: tuple[int, int]) -> dict[str, Any]:
    """The texts of two pictures by greedy and by beam search, without the first token, up to their ends."""
    found = {}
    for beams in (1, 3):
        settings = transformers.GenerationConfig(
            num_beams=beams, do_sample=False, max_new_tokens=8, decoder_start_token_id=2, eos_token_id=5, pad_token_id=1
        )
        pictures = {"pixel_values": torch.from_numpy(picture(2, *size))} | prompted(model, size)
        if type(model).__name__.startswith("Pix2Struct"):
            pictures = {"flattened_patches": placed(pictures["pixel_values"])}
        rows = model.generate(**pictures, generation_config=settings)[:, 1:].tolist()
        found[str(beams)] = [row[: row.index(5) + 1] if 5 in row else row for row in rows]
    return found


def answered(model: Any, size: tuple[int, int]) -> dict[str, list[list[int]]]:
    """GIT's texts after PROMPT without its end, without it, by beams."""
    pictures, found = torch.from_numpy(picture(2, *size)).float(), {}
    words = torch.tensor([PROMPT[:-1]] * 2)
    for beams in (1, 3):
        rows = model.generate(
            pixel_values=pictures, input_ids=words, attention_mask=torch.ones_like(words), num_beams=beams,
            max_new_tokens=8, do_sample=False, eos_token_id=5, pad_token_id=1,
        )[:, words.shape[1] :].tolist()  # fmt: skip
        found[str(beams)] = [row[: row.index(5) + 1] if 5 in row else row for row in rows]
    return found


def found_objects(model: Any, folder: Path) -> list[dict[str, Any]]:
    """What Grounding DINO and its processor find of FOUND in the pictures of the tests of image processors."""
    (folder / "tokenizer.json").write_text(phrases_json())
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]")
    own = transformers.GroundingDinoImageProcessor(**PROCESSORS["mm_grounding_dino"])
    processor = transformers.GroundingDinoProcessor(own, tokenizer)
    labels, least, text_least = FOUND
    found = []
    for pixels in processor_pictures():
        inputs = processor(images=pixels, text=labels, return_tensors="pt")
        with torch.no_grad():
            [objects] = processor.post_process_grounded_object_detection(
                model(**inputs), threshold=least, text_threshold=text_least, target_sizes=[pixels.shape[:2]]
            )
        boxes, scores = (objects[key].tolist() for key in ("boxes", "scores"))
        rows = zip(objects["text_labels"], scores, boxes, strict=True)
        found.append([{"text": text, "score": score, "box": rounded(box)} for text, score, box in rows])
    return found


def golden(name: str) -> dict[str, Any]:
    tasks = [task for task in TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]] if task in ENDS]
    return {task: of_task(name, task) for task in tasks}


def of_task(name: str, task: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        free = name == "mobileclip"
        model, stored = of_open_clip(name) if free else model_of(name, task, folder)
        results, total = [], 0
        for size in sizes(name):
            for part in outputs(model, name, task, size):
                results.append(rounded(shown(part.detach().numpy())))
                total = total + along(part, task)
        texts = written(model, sizes(name)[0]) if task == "image-to-text" else None
        objects = {"objects": found_objects(model, folder)} if name == "mm_grounding_dino" else {}
        objects |= {"answers": answered(model, sizes(name)[0])} if name == "git" else {}
        total.backward()
        grads: Mapping[str, Any]
        with torch.no_grad():  # the gradients take the places of the weights, so that they are stored by the same names
            for parameter in model.parameters():
                parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
        if free:
            grads = {key: flat(key, parameter.detach()) for key, parameter in model.named_parameters()}
        else:
            model.save_pretrained(folder)
            grads = read_file(name, folder)
        parameters = {
            key: [list(value.shape), *rounded([(grads[key].double().numpy() * direction(key, value.shape)).sum()])]
            for key, value in stored.items()
        }
    return {"outputs": results, "parameters": parameters} | objects | ({} if texts is None else {"texts": texts})


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
