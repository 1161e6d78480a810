"""python -m bench.peer_server sentences FOLDER | whisper NAME [--port 8001]

Plain servers around other projects, for bench.serving: sentence-transformers at /v1/embeddings, faster-whisper at
/v1/audio/transcriptions. Each request is computed by itself on one of a few threads, as their users do it. They need
the extra `server`, and sentence-transformers or faster-whisper. llama.cpp has its own: `python -m llama_cpp.server`.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def sentences_route(folder: str, threads: int) -> Route:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model = SentenceTransformer(folder, device="cpu")

    async def embeddings(request: Request) -> JSONResponse:
        texts = (await request.json())["input"]
        vectors = await run_in_threadpool(lambda: model.encode(texts).tolist())
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
        return JSONResponse({"object": "list", "data": data})

    return Route("/v1/embeddings", embeddings, methods=["POST"])


def whisper_route(name: str, threads: int) -> Route:
    from faster_whisper import WhisperModel

    model = WhisperModel(name, device="cpu", compute_type="int8", cpu_threads=threads)

    def heard(sound: bytes) -> dict[str, Any]:
        segments, info = model.transcribe(io.BytesIO(sound), beam_size=1)
        return {"text": "".join(segment.text for segment in segments), "duration": info.duration}

    async def transcriptions(request: Request) -> JSONResponse:
        async with request.form() as form:
            sound = await form["file"].read()  # type: ignore[union-attr]
        return JSONResponse(await run_in_threadpool(lambda: heard(sound)))

    return Route("/v1/audio/transcriptions", transcriptions, methods=["POST"])


ROUTES: dict[str, Callable[[str, int], Route]] = {"sentences": sentences_route, "whisper": whisper_route}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(ROUTES))
    parser.add_argument("model", help="a folder of sentence-transformers, or a name or folder of faster-whisper")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    app = Starlette(routes=[ROUTES[options.kind](options.model, options.threads)])
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
