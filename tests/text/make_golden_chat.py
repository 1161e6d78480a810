"""Writes golden_chat.json: the texts that transformers makes by the templates of chat_templates.py.

python -m tests.text.make_golden_chat      # needs transformers and jinja2
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from tests.text.chat_templates import CASES, SPECIAL, TEMPLATES

OUT = Path(__file__).with_name("golden_chat.json")


def rendered(template: str, case: dict[str, Any]) -> str | None:
    """None where the template refuses the messages."""
    case = dict(case)
    try:
        texts, _ = render_jinja_template([case.pop("messages")], chat_template=template, **SPECIAL, **case)
    except Exception as error:
        print(f"  refused: {error!s:.80}")
        return None
    return str(texts[0])


def main() -> None:
    golden: dict[str, Any] = {}
    for family, template in TEMPLATES.items():
        print(family)
        golden[family] = {name: rendered(template, case) for name, case in CASES.items()}
    OUT.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
