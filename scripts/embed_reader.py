"""Puts a trained reader of printed lines into the site, and its sizes and hashes into pyapp/registry.json.

pyapp train reader --out-dir runs/reader
python -m scripts.embed_reader runs/reader
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.embedded_files import MODELS, embed

FILES = ("model.safetensors", "config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained reader of printed lines into the site.")
    parser.add_argument("folder", type=Path, help="what `pyapp train reader` wrote")
    embed(parser.parse_args().folder, MODELS / "reader", FILES)


if __name__ == "__main__":
    main()
