"""The shortest test: import, one operation, one gradient, one story, in less than five seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyapp
from pyapp.events import Cancel, Token
from pyapp.hub import models
from pyapp.models import load_model
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions

WEB = Path(__file__).resolve().parents[1] / "web"
EMBEDDED = {file.role: WEB / file.path for file in models("generate")[0].files}


def test_version() -> None:
    assert pyapp.__version__


def test_one_operation() -> None:
    product = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]]) @ pyapp.tensor([[1.0], [10.0]])
    assert product.tolist() == [[21.0], [43.0]]


def test_one_gradient() -> None:
    x = pyapp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.skipif(not EMBEDDED["model"].is_file(), reason="the embedded model is not there")
def test_one_story() -> None:
    """A few tokens of a story by the embedded model; the same ones again."""
    loaded = load_model(EMBEDDED["model"], tokenizer=EMBEDDED["tokenizer"])
    options = SamplingOptions(max_new_tokens=30, temperature=0)
    stories = []
    for _ in range(2):
        events = generate(Session(loaded.model), loaded.tokenizer, "Once upon a time", options, Cancel())
        stories.append("".join(event.text for event in events if isinstance(event, Token)))
    assert len(stories[0].split()) >= 15
    assert stories[0] == stories[1]
