"""Writes the lists of docs/models.md, such as the table of architectures: python -m scripts.model_table.

From the modules of pyapp.models, and from the configurations with which the tests compare them with transformers
(tests/models/*_configs.py).
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyapp.engine.blocks.layout import READ_AS
from pyapp.models._index import MODEL_TYPES, SEEING, TASKS
from pyapp.models.loading.timm import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "models.md"
TESTS = ROOT / "tests" / "models"
TABLE = """| model_type | tasks | GGUF | parity | Pyodide | quantised | other device |
| --- | --- | --- | --- | --- | --- | --- |
"""


def configurations() -> Iterator[tuple[str, str, Any]]:
    """(model_type, name, module) of each configuration that has a golden file, and of the text decoder in it."""
    for file in sorted(TESTS.glob("*_configs.py")):
        module = importlib.import_module(f"tests.models.{file.stem}")
        folder = TESTS / f"golden_{file.stem.removesuffix('_configs')}s"
        for name, config in module.CONFIGS.items():
            if (folder / f"{name}.json").is_file():
                yield config["model_type"], name, module
                if isinstance(decoder := config.get("decoder"), dict) and decoder.get("model_type") in MODEL_TYPES:
                    yield decoder["model_type"], name, module


def runs_in_browser(module: Any) -> bool:
    """Whether the tests of these configurations run in Pyodide too."""
    tests = TESTS / f"test_{Path(module.__file__).stem.removesuffix('_configs')}s.py"
    return tests.is_file() and "pytestmark = pytest.mark.native_only" not in tests.read_text()


def render(page: str) -> str:
    """The page with its lists and its table as the code has them, each between `<!-- NAME -->` and `<!-- end -->`."""
    cases_of: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for kind, name, module in configurations():
        home = SEEING[kind] if "picture_text" in module.__name__ else MODEL_TYPES[kind]
        cases_of[home].append((name, module))
    lines = []
    places = {*MODEL_TYPES.items(), *SEEING.items()}
    for module_name in sorted({module for _, module in places}):
        kinds = sorted(kind for kind, module in places if module == module_name)
        form = getattr(importlib.import_module(f"pyapp.models.{module_name}"), "GGUF", None)
        cases = cases_of[module_name]
        lists = {
            key: any(name in getattr(module, key, ()) for name, module in cases)
            for key in ("IN_GGUF", "QUANTISED", "OTHER_DEVICE")
        }
        cells = (
            ", ".join(f"`{kind}`" for kind in kinds),
            ", ".join(TASKS[module_name]),
            ""
            if form is None or not lists["IN_GGUF"]
            else ", ".join(f"`{own.architecture}`" for own in (form, *form.others)),
            str(len(cases)) if cases else "",
            "yes" if cases and all(runs_in_browser(module) for _, module in cases) else "",
            *("yes" if lists[key] else "" for key in ("QUANTISED", "OTHER_DEVICE")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    read_as = defaultdict(list)
    for kind, other in READ_AS.items():
        read_as[other].append(kind)
    types = "; ".join(f"{', '.join(kinds)} as {other}" for other, kinds in read_as.items())
    known = ", ".join(family.title for family in FAMILIES)
    parts = {"converted": types + ".", "timm": known + ".", "architectures": TABLE + "\n".join(lines)}
    for name, text in parts.items():
        found = re.search(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", page, re.DOTALL)
        assert found is not None, f"{TARGET.name} needs the comments <!-- {name} --> and <!-- end -->"
        page = f"{page[: found.start()]}{text}\n{page[found.end() :]}"
    return page


if __name__ == "__main__":
    TARGET.write_text(render(TARGET.read_text()))
