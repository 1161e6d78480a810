"""Makes golden_dialogue_voices/NAME.json with transformers, one for each configuration of dialogue_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_dialogue_voices.py [NAME …]

A file has the names and shapes of the tensors, logits of one text and of two with padding, gradients, the tokens of a
text by transformers' tokenizer, and the codes that are written greedily after it, and after a recording. The weights
are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
import transformers

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.dialogue_voice_configs import CODEC, CODES, CONFIGS, GENERATION, HEARD, SAMPLES, SHOWN, TEXT, TEXTS
from tests.models.seeded import codec_weights, draw, gradients_of, rounded, shown


def seed(model: Any, weights: Any) -> Any:
    state = model.state_dict()
    for key, value in state.items():
        if value.is_floating_point():
            state[key] = torch.from_numpy(weights(key, tuple(value.shape)))
    model.load_state_dict(state)
    return model.float().eval()


def golden(name: str) -> dict[str, Any]:
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    made = transformers.DiaConfig(**config)
    made._attn_implementation = "eager"
    model = seed(transformers.DiaForConditionalGeneration(made), draw)
    codec = seed(transformers.DacModel(transformers.DacConfig(**CODEC)), codec_weights)
    books, own = made.decoder_config.num_channels, made.decoder_config
    codes = torch.tensor(CODES).transpose(0, 1).unsqueeze(0).contiguous()  # (1, T, codebooks)
    logits = model(torch.tensor(TEXTS[:1]), decoder_input_ids=codes).logits
    wanted = torch.arange(logits.shape[0] * logits.shape[1]) % own.vocab_size
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted, reduction="sum")
    loss.backward()
    with torch.no_grad():
        both = model(
            torch.tensor(TEXTS), attention_mask=torch.tensor(SHOWN), decoder_input_ids=codes.repeat(2, 1, 1),
        ).logits  # fmt: skip
    tokenizer = transformers.DiaTokenizer()
    processor = transformers.DiaProcessor(
        transformers.DiaFeatureExtractor(sampling_rate=CODEC["sampling_rate"], hop_length=codec.config.hop_length),
        tokenizer, codec,
    )  # fmt: skip
    tokens = {
        "bos_token_id": own.bos_token_id, "eos_token_id": own.eos_token_id, "pad_token_id": own.pad_token_id,
        "delay_pattern": made.delay_pattern,
    }  # fmt: skip
    model.generation_config = transformers.GenerationConfig(
        **GENERATION | {"do_sample": False}, bos_token_id=own.bos_token_id, eos_token_id=own.eos_token_id,
        pad_token_id=own.pad_token_id, decoder_start_token_id=own.bos_token_id,
    )  # fmt: skip
    written = {}
    for what, text, audio in (("written", TEXT, None), ("written on", HEARD + TEXT, sound(1, SAMPLES)[0, 0])):
        more = {} if audio is None else {"audio": audio, "sampling_rate": CODEC["sampling_rate"]}
        inputs = processor(text=[text], padding=True, return_tensors="pt", **more, **tokens)
        found = model.generate(**inputs)
        length = None if audio is None else processor.get_audio_prompt_len(inputs["decoder_attention_mask"], **tokens)
        with patch.object(codec, "decode", wraps=codec.decode) as watched:
            samples = processor.batch_decode(found, audio_prompt_len=length, **tokens)
        written[what] = watched.call_args.kwargs["audio_codes"].reshape(books, -1).tolist()
        written[f"sound of {what}"] = rounded(shown(samples[0].numpy(), 60))
    return {
        "parameters": gradients_of(model), "loss": float(loss.detach()),
        "logits": rounded(shown(logits.detach().numpy(), 100)), "logits of two": rounded(shown(both.numpy(), 100)),
        "tokens": tokenizer(TEXT, add_special_tokens=False).input_ids, **written,
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
