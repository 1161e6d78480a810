"""Makes golden_codecs/NAME.json with transformers and the package snac, one for each configuration of codec_configs.py:

    PYTHONPATH=. python tests/models/make_golden_codecs.py [NAME …]

A file has the names and shapes of the parameters once the norms of weights are applied, and those of the file's own
names; the vectors of a batch; its codes and samples for two bandwidths, with padding and without; and of each
parameter's gradient of a sum over the vectors and over the samples of codes the sum and the product with a fixed
vector. The weights are not stored: seeded.py makes them here and in the tests. A file is refused with codes that are so
near to others that rounding decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from snac import SNAC
from torch.nn.utils import parametrize
from transformers import AutoConfig, AutoModel

from tests.goldens import write_each
from tests.models.codec_configs import CONFIGS, SAMPLES, mask, noise, sound
from tests.models.seeded import codec_weights, gradients_of, rounded, shown
from tests.models.seeded_folders import along

MARGIN = 1e-4  # between the distances of the two nearest entries


def model_of(name: str) -> tuple[Any, dict[str, list[int]]]:
    """The model with ordinary weights, and the shapes of its tensors by the names of files."""
    config = dict(CONFIGS[name])
    if config["model_type"] == "snac":
        del config["model_type"]
        return ordinary(SNAC(**config).float().eval())
    model = AutoModel.from_config(AutoConfig.for_model(config.pop("model_type"), **config)).float().eval()
    if name == "dac":  # its files have the norms only while it is trained
        model.apply_weight_norm()
    return ordinary(model)


def ordinary(model: Any) -> tuple[Any, dict[str, list[int]]]:
    """The same model without norms of weights, and the shapes of its tensors with them."""
    filed = {mimi_name(key): list(value.shape) for key, value in model.state_dict().items()}
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith(("cluster_usage", "initialized")):
                tensor.fill_(2)
            elif not key.endswith("inv_freq"):
                own = mimi_name(key)
                twice = 2 if own.endswith("embed_sum") else 1
                values = codec_weights(own.replace("embed_sum", "embed"), tuple(tensor.shape))
                tensor.copy_(torch.from_numpy(twice * np.asarray(values)))
    return model, filed


def mimi_name(key: str) -> str:
    """The name in files of Mimi's parameters: transformers has moved them."""
    for part in ("encoder", "decoder"):
        key = key.replace(f"{part}.{part}_seanet.", f"{part}.").replace(
            f"{part}.{part}_transformer", f"{part}_transformer"
        )
    return key.replace("encoder.downsample.", "downsample.").replace("decoder.upsample.", "upsample.")


def watched(model: Any) -> None:
    """Refuses codes that rounding decides."""
    for book in [module for module in model.quantizer.modules() if hasattr(module, "quantize")]:

        def quantize(states: Any, book: Any = book) -> Any:
            best = torch.cdist(states, book.embed).square().topk(2, largest=False)
            assert float((best.values[:, 1] - best.values[:, 0]).min()) > MARGIN, "choose other weights"
            return best.indices[:, 0]

        book.quantize = quantize


def watched_dac(model: Any) -> None:
    """The same of DAC and SNAC."""
    for quantizer in model.quantizer.quantizers:

        def decode(latents: Any, quantizer: Any = quantizer, known: Any = quantizer.decode_latents) -> Any:
            vectors = latents.transpose(1, 2).reshape(-1, latents.shape[1])
            book, vectors = (torch.nn.functional.normalize(x) for x in (quantizer.codebook.weight, vectors))
            best = (vectors @ book.T).topk(2).values
            assert float((best[:, 0] - best[:, 1]).min()) > MARGIN, "choose other weights"
            return known(latents)

        quantizer.decode_latents = decode


def golden(name: str) -> dict[str, Any]:
    model, filed = model_of(name)
    if isinstance(model, SNAC):
        return {"filed": filed, **of_snac(model)}
    watched(model)
    config = model.config
    if name == "dac":
        return {"filed": filed, **of_dac(model)}
    if config.model_type == "mimi":
        return {"filed": filed, **of_mimi(model)}
    samples, padding = (torch.from_numpy(make(config.audio_channels)) for make in (sound, mask))
    runs = {}
    with torch.no_grad():
        for run, bandwidth, given in (("small", None, None), ("large", config.target_bandwidths[-1], padding)):
            codes, scales, left = model.encode(samples, given, bandwidth, return_dict=False)
            found = model.decode(codes, scales, samples, last_frame_pad_length=left).audio_values
            chunks = [
                chunk[..., : chunk.shape[-1] - (left if i == len(codes) - 1 else 0)] for i, chunk in enumerate(codes)
            ]
            runs[run] = {
                "codes": [chunk.tolist() for chunk in chunks],
                "scales": [None if scale is None else rounded(scale) for scale in scales],
                "samples": rounded(shown(found.numpy(), 400)),
            }
    chunk = samples[..., : config.chunk_length or samples.shape[-1]]
    vectors = model.encoder(chunk)
    along(vectors, "vectors").backward()
    decoded = model._decode_frame(torch.tensor(runs["large"]["codes"][0]))
    along(decoded, "samples").backward()
    vectors = rounded(shown(vectors.detach().numpy(), 200))
    return {"parameters": parameters_of(model), "filed": filed, "vectors": vectors, **runs}


def of_dac(model: Any) -> dict[str, Any]:
    """The same of DAC, whose feature extractor makes whole moments of a sound."""
    samples = torch.from_numpy(sound(1))
    samples = torch.nn.functional.pad(samples, (0, -samples.shape[2] % model.config.hop_length))
    watched_dac(model)
    runs = {}
    for run, count in (("small", 1), ("large", None)):
        with torch.no_grad():
            codes = model.encode(samples, count).audio_codes
            found = model.decode(audio_codes=codes).audio_values[..., :SAMPLES]
        runs[run] = {"codes": [codes.tolist()], "scales": [None], "samples": rounded(shown(found.numpy(), 400))}
    vectors = model.encoder(samples)
    along(vectors, "vectors").backward()
    decoded = model.decoder(model.quantizer.from_codes(torch.tensor(runs["large"]["codes"][0]))[0])
    along(decoded, "samples").backward()
    return {"parameters": parameters_of(model), "vectors": rounded(shown(vectors.detach().numpy(), 200)), **runs}


def of_mimi(model: Any) -> dict[str, Any]:
    """The same of Mimi."""
    samples, runs = torch.from_numpy(sound(1)), {}
    for run, count in (("small", 1), ("large", model.config.num_quantizers)):
        with torch.no_grad():
            codes = model.encode(samples, num_quantizers=count).audio_codes
            found = model.decode(codes).audio_values[..., :SAMPLES]
        runs[run] = {"codes": [codes.tolist()], "scales": [None], "samples": rounded(shown(found.numpy(), 400))}
    vectors = model.encoder(samples).latents
    along(vectors, "vectors").backward()
    decoded = model.decode(torch.tensor(runs["large"]["codes"][0])).audio_values
    along(decoded, "samples").backward()
    return {"parameters": parameters_of(model), "vectors": rounded(shown(vectors.detach().numpy(), 200)), **runs}


def of_snac(model: Any) -> dict[str, Any]:
    """The same of SNAC, whose codebooks have unequal numbers of codes."""
    samples = model.preprocess(torch.from_numpy(sound(1)))
    watched_dac(model)
    torch.randn = lambda shape, **_: torch.from_numpy(noise(tuple(shape)))
    runs = {}
    for run, count in (("small", 1), ("large", len(model.vq_strides))):
        with torch.no_grad():
            codes = model.encode(samples)[:count]
            found = model.decoder(vectors_of(model, codes))[..., :SAMPLES]
        runs[run] = {
            "codes": [own.unsqueeze(1).tolist() for own in codes], "scales": [None] * count,
            "samples": rounded(shown(found.numpy(), 400)),
        }  # fmt: skip
    vectors = model.encoder(samples)
    along(vectors, "vectors").backward()
    decoded = model.decoder(vectors_of(model, [torch.tensor(own).squeeze(1) for own in runs["large"]["codes"]]))
    along(decoded, "samples").backward()
    return {"parameters": parameters_of(model), "vectors": rounded(shown(vectors.detach().numpy(), 200)), **runs}


def vectors_of(model: Any, codes: Any) -> torch.Tensor:
    """The vectors of the codes of the first codebooks."""
    if len(codes) == len(model.vq_strides):
        return model.quantizer.from_codes(codes)
    books = zip(model.quantizer.quantizers, codes, strict=False)
    return sum(book.out_proj(book.decode_code(own)).repeat_interleave(book.stride, dim=-1) for book, own in books)


def parameters_of(model: Any) -> dict[str, list[Any]]:
    """The shape of each parameter, and two numbers of its gradient."""
    return gradients_of(model, {key: mimi_name(key) for key, _ in model.named_parameters()})


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
