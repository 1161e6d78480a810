"""The folders of small chat models that see pictures, with the chat templates of published ones and random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pyapp.formats import write_safetensors
from tests.models.picture_text_configs import CONFIGS
from tests.models.seeded import picture_weights
from tests.text.chat_model import byte_letters
from tests.text.tokenizer_documents import BYTES, byte_pairs, document, template

SPECIAL = [
    "<s>", "</s>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<|im_start|>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)),
    "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>",
    "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<IMG_CONTEXT>", "<img>", "</img>", "<video>",
    "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *(f"<|img_row_1_col_{column}|>" for column in (1, 2)),
]  # fmt: skip
IDS = {name: 256 + i for i, name in enumerate(SPECIAL)}
SIZE = 256 + len(SPECIAL)
UNWRITTEN = "<|image|>"  # of Llama 3.2 Vision, which reads this token after all that it writes
GOLDEN = Path(__file__).parents[1] / "models" / "golden_picture_texts"
TEMPLATES = {
    "idefics3": (  # SmolVLM's, which reads contents that are lists
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    ),
    "llava": (
        "{% for message in messages %}"
        "{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
        "{# Render all images first #}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
        "{# Render all text next #}{% if message['role'] != 'assistant' %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
        "{{ content['text'] + ' '}}{% endfor %}{% else %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
        "{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
    ),
    "qwen2_vl": (
        "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
        "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
        "{% for content in message['content'] %}"
        "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
        "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "qwen3_vl": (
        "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' }}"
        "{%- if messages[0].content is string %}{{- messages[0].content }}{%- else %}"
        "{%- for content in messages[0].content %}{%- if 'text' in content %}{{- content.text }}{%- endif %}"
        "{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}"
        "{%- set image_count = namespace(value=0) %}{%- for message in messages %}"
        "{%- if message.role == 'user' %}{{- '<|im_start|>' + message.role + '\n' }}"
        "{%- if message.content is string %}{{- message.content }}{%- else %}{%- for content in message.content %}"
        "{%- if content.type == 'image' or 'image' in content or 'image_url' in content %}"
        "{%- set image_count.value = image_count.value + 1 %}"
        "{%- if add_vision_id %}Picture {{ image_count.value }}: {% endif -%}"
        "<|vision_start|><|image_pad|><|vision_end|>"
        "{%- elif 'text' in content %}{{- content.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}"
        "{%- elif message.role == 'assistant' %}{{- '<|im_start|>' + message.role + '\n' }}"
        "{%- if message.content is string %}{{- message.content }}{%- else %}{%- for content_item in message.content %}"
        "{%- if 'text' in content_item %}{{- content_item.text }}{%- endif %}{%- endfor %}{%- endif %}"
        "{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
    ),
    "gemma3": (
        "{{ bos_token }}{% for message in messages %}"
        "{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}"
        "{{ '<start_of_turn>' + role + '\n' }}{%- if message['content'] is string -%}{{ message['content'] | trim }}"
        "{%- elif message['content'] is iterable -%}{%- for item in message['content'] -%}"
        "{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}"
        "{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}{%- endif -%}"
        "{{ '<end_of_turn>\n' }}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
    ),
}
TEMPLATES["gemma3_crops"] = TEMPLATES["gemma3"]
# Those of models that differ from these in their prompts and pictures only.
MORE = {
    "paligemma": (  # published ones have none
        "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for item in message['content'] %}"
        "{% if item['type'] == 'image' %}{{ '<image>' }}{% else %}{{ item['text'] }}{% endif %}"
        "{% endfor %}{% endif %}{% endfor %}"
    ),
    "llava_next": (  # LLaVA 1.6's with Vicuna is that of LLaVA; this is of Mistral
        "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
        "{{ content['text'] }}{% endfor %}{{ ' [/INST]' }}{% else %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
        "{{ ' ' + content['text'] + '</s>' }}{% endfor %}{% endif %}{% endfor %}"
    ),
    "llava_onevision": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>' }}{% endfor %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
        "{{ '\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "internvl": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for content in message['content'] %}{% if content['type'] == 'image' %}{{ '<IMG_CONTEXT>\n' }}"
        "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}"
        "{{'<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
    ),
    "idefics2": (
        "{% for message in messages %}{{message['role'].capitalize()}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    ),
    "lfm2_vl": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for content in message['content'] %}{% if content['type'] == 'image' %}{{ '<image>' }}"
        "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}"
        "{{'<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
    ),
    "mllama": (
        "{{- bos_token }}{%- for message in messages %}"
        "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
        "{%- if message['content'] is string %}{{- message['content'] }}{%- else %}"
        "{%- for content in message['content'] %}{%- if content['type'] == 'image' %}{{- '<|image|>' }}"
        "{%- elif content['type'] == 'text' %}{{- content['text'] }}{%- endif %}{%- endfor %}{%- endif %}"
        "{{- '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
        "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
    ),
    "mistral3": (
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]' }}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for block in message['content'] %}{% if block['type'] == 'text' %}{{ block['text'] }}"
        "{% elif block['type'] in ['image', 'image_url'] %}{{ '[IMG]' }}{% endif %}{% endfor %}{% endif %}"
        "{{ '[/INST]' }}{% elif message['content'] is string %}{{ message['content'] + eos_token }}"
        "{% else %}{{ message['content'][0]['text'] + eos_token }}{% endif %}{% endfor %}"
    ),
}
PROCESSORS: dict[str, dict[str, Any]] = {
    "idefics3": {"image_processor_type": "Idefics3ImageProcessor", "size": {"longest_edge": 40},
                 "max_image_size": {"longest_edge": 16}},
    "llava": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16},
              "crop_size": {"height": 16, "width": 16}},
    "qwen2_vl": {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 256, "max_pixels": 2048,
                 "patch_size": 4},
    "qwen3_vl": {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 4, "merge_size": 2,
                 "size": {"shortest_edge": 256, "longest_edge": 2048}, "image_mean": [0.5, 0.5, 0.5],
                 "image_std": [0.5, 0.5, 0.5]},
    "gemma3": {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 24, "width": 24}},
    "paligemma": {"image_processor_type": "SiglipImageProcessor", "size": {"height": 16, "width": 16},
                  "image_seq_length": 16},
    "mistral3": {"image_processor_type": "PixtralImageProcessorFast", "patch_size": {"height": 4, "width": 4},
                 "size": {"longest_edge": 32}},
    "llava_next": {"image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": 16},
                   "crop_size": {"height": 16, "width": 16}, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]},
    "llava_onevision": {"image_processor_type": "LlavaOnevisionImageProcessor", "size": {"height": 16, "width": 16},
                        "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]},
    "idefics2": {"image_processor_type": "Idefics2ImageProcessor", "do_image_splitting": True,
                 "size": {"shortest_edge": 10, "longest_edge": 24}},
    "lfm2_vl": {"image_processor_type": "Lfm2VlImageProcessor", "encoder_patch_size": 4, "tile_size": 16,
                "max_tiles": 3, "min_image_tokens": 4, "max_image_tokens": 6},
    "mllama": {"image_processor_type": "MllamaImageProcessor", "size": {"height": 16, "width": 16},
               "max_image_tiles": 2},
    "internvl": {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 16, "width": 16},
                 "crop_to_patches": False, "max_patches": 6},
}  # fmt: skip
PROCESSORS["gemma3_crops"] = PROCESSORS["gemma3"] | {
    "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 8, "pan_and_scan_max_num_crops": 3,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}  # fmt: skip
MODELS = {"gemma3_crops": "gemma3"}  # which have the models of others
ALIKE = {
    "qwen2_5_vl": "qwen2_vl",
    "qwen3_vl_moe": "qwen3_vl",
    "qwen3_5": "qwen3_vl",
}  # whose templates and processors are those of another one


def config_of(kind: str, context: int = 1024) -> dict[str, Any]:
    """The config.json of a folder."""
    kind = MODELS.get(kind, kind)
    config = dict(CONFIGS[kind])
    config["text_config"] = config["text_config"] | {
        "vocab_size": SIZE, "max_position_embeddings": context, "bos_token_id": None, "eos_token_id": IDS["</s>"],
    }  # fmt: skip
    qwen = kind.startswith("qwen")
    if kind == "mllama":
        config["text_config"] |= {"bos_token_id": IDS["<s>"]}
        return config | {"image_token_index": SIZE}
    tokens = {"gemma3": "<image_soft_token>", "mistral3": "[IMG]", "internvl": "<IMG_CONTEXT>"}
    token = "<|image_pad|>" if qwen else tokens.get(kind, "<image>")
    config["image_token_id" if "image_token_id" in config else "image_token_index"] = IDS[token]
    if qwen:
        names = ("vision_start", "vision_end")
        config |= {f"{name}_token_id": IDS[f"<|{name}|>"] for name in names} | {"video_token_id": IDS["<|im_end|>"]}
    return config | ({"boi_token_index": IDS["<start_of_image>"]} if kind == "gemma3" else {})


def byte_tokenizer(begins: bool, more: dict[str, int] | None = None) -> dict[str, Any]:
    """A tokenizer.json of bytes and the special tokens, and `more` of them; `begins`: texts begin with <s>."""
    vocabulary = {letter: index for index, letter in enumerate(byte_letters())}
    known = IDS | (more or {})
    begin = template({"<s>": IDS["<s>"]}, "<s> $A", "$A $B:1") if begins else None
    parts = {"pre_tokenizer": BYTES, "post_processor": begin, "decoder": BYTES}
    return document(byte_pairs(vocabulary | known), known, **parts)


def write_picture_chat_model(folder: Path, kind: str, context: int = 1024) -> Path:
    """A folder with seeded random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    like = ALIKE.get(kind, kind)
    stored = json.loads((GOLDEN / f"{MODELS.get(kind, kind)}.json").read_text())["parameters"]
    own = kind == "mllama"
    words = {"embed_tokens.weight": SIZE + 8 if own else SIZE, "lm_head.weight": SIZE}
    tensors = {
        name: picture_weights(
            name, (words[end], shape[1]) if (end := ".".join(name.split(".")[-2:])) in words else tuple(shape)
        )
        for name, (shape, _) in stored.items()
    }
    write_safetensors(folder / "model.safetensors", {name: np.ascontiguousarray(x) for name, x in tensors.items()})
    tokenizer = byte_tokenizer(kind in ("llava", "paligemma", "llava_next"), {UNWRITTEN: SIZE} if own else None)
    settings = {"eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= (
        {"bos_token": "<bos>"}
        if "gemma" in kind
        else {"bos_token": "<s>"}
        if kind in ("llava", "mistral3", "llava_next", "mllama")
        else {}
    )
    for name, value in (
        ("config", config_of(kind, context)), ("tokenizer", tokenizer), ("tokenizer_config", settings),
        ("preprocessor_config", PROCESSORS[like]), ("chat_template", {"chat_template": (TEMPLATES | MORE)[like]}),
    ):  # fmt: skip
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """uint8 (height, width, 3)."""
    generator = np.random.Generator(np.random.Philox(key=height * 1000 + width + (seed << 32)))
    y, x = np.mgrid[:height, :width]
    waves = [120 + 100 * np.sin(x / (4 + i + seed)) * np.cos(y / (7 - i)) for i in range(3)]
    return np.clip(np.stack(waves, 2) + generator.normal(0, 20, (height, width, 3)), 0, 255).astype("uint8")


SIZES = ((30, 41), (12, 12))  # of the pictures of the conversation
TEXTS = ("What is <image> this,", "and this?", "It is a fox.", "Sure? <start_of_image>")


def conversation(pictures: Any) -> list[dict[str, Any]]:
    """A conversation with two pictures, of which the user's second message has none."""
    parts = [
        {"type": "image", "image": pictures[0]}, {"type": "text", "text": TEXTS[0]},
        {"type": "image", "image": pictures[1]}, {"type": "text", "text": TEXTS[1]},
    ]  # fmt: skip
    said = [{"type": "text", "text": TEXTS[2]}], [{"type": "text", "text": TEXTS[3]}]
    return [
        {"role": "user", "content": parts}, {"role": "assistant", "content": said[0]},
        {"role": "user", "content": said[1]},
    ]  # fmt: skip


FRAMES = (5, 16, 24)  # of a video: how many, rows and columns, which the processors leave as they are
VIDEOS = {"qwen2_vl": 2.0, "qwen2_5_vl": 8.0, "qwen3_vl": 2.0, "qwen3_5": 2.0}  # the frames of a second
WATCHES = {"video_processor_type": "Qwen3VLVideoProcessor", "patch_size": 4, "merge_size": 2,
           "size": {"shortest_edge": 512, "longest_edge": 8192}}  # fmt: skip
STAND_IN = "<|img_thumbnail|>"  # whose number the token of videos has


def write_video_chat_model(folder: Path, kind: str) -> Path:
    """As write_picture_chat_model, with a token and a place in the template for videos."""
    write_picture_chat_model(folder, kind)
    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    video = "{% elif content['type'] == 'video' %}" + picture.replace("image", "video")
    for name, old, new in (("tokenizer", STAND_IN, "<|video_pad|>"), ("chat_template", picture, picture + video)):
        path = folder / f"{name}.json"
        path.write_text(path.read_text().replace(old, new))
    config = config_of(kind) | {"video_token_id": IDS[STAND_IN]}
    (folder / "config.json").write_text(json.dumps(config))
    if ALIKE.get(kind, kind) == "qwen3_vl":
        (folder / "video_preprocessor_config.json").write_text(json.dumps(WATCHES))
    return folder


def video_conversation(frames: Any, fps: float) -> list[dict[str, Any]]:
    """A conversation about a video."""
    parts = [{"type": "video", "video": frames, "fps": fps}, {"type": "text", "text": "What happens?"}]
    return [{"role": "user", "content": parts}]
