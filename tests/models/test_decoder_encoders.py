"""Language models as encoders, classifiers and rankers; the scores of late interaction. (The values of these models are
compared with sentence-transformers in test_sentences.py, natively.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.models.sentences.late_interaction import max_similarity
from pyapp.nn.encoders.decoder_encoders import DecoderClassifier, DecoderEncoder, DecoderTokenClassifier, LogitRanker
from tests.models.test_decoders import make

IDS = [[3, 17, 5, 60, 8, 44, 2], [7, 90, 14, 2]]
PADDED = [IDS[0], IDS[1] + [0] * 3]
MASK = [[1] * 7, [1] * 4 + [0] * 3]


def ints(rows: Any) -> pyapp.Tensor:
    return pyapp.tensor(rows, dtype="int32")


@pytest.mark.parametrize("both_ways", [False, True])
def test_states_are_those_behind_the_last_norm(both_ways: bool) -> None:
    language_model = make("llama", 0)
    encoder = DecoderEncoder(language_model, both_ways)
    with pyapp.no_grad():
        together = encoder(ints(PADDED), ints(MASK)).numpy()
        alone = [encoder(ints([row])).numpy()[0] for row in IDS]
        logits = language_model(ints([IDS[0]])).numpy()[0]
        head = language_model.lm_head.weight.numpy()
    for row, found in zip(alone, together, strict=True):
        np.testing.assert_allclose(found[: len(row)], row, atol=2e-6)
    assert np.allclose(alone[0] @ head.T, logits, atol=1e-5) is not both_ways  # the language model sees no later token
    assert np.allclose(alone[0][-1] @ head.T, logits[-1], atol=1e-5) is not both_ways


def test_labels_and_scores_are_of_the_last_token() -> None:
    language_model = make("llama", 0)
    classifier = DecoderClassifier(language_model, ("no", "yes"))
    ranker = LogitRanker(language_model, 11, 12)
    with pyapp.no_grad():
        states = DecoderEncoder(language_model)(ints([IDS[1]]))[0, -1]
        expected = (classifier.score.weight @ states).numpy()
        logits = language_model(ints([IDS[1]]))[0, -1].numpy()
        np.testing.assert_allclose(classifier(ints(PADDED), ints(MASK)).numpy()[1], expected, atol=1e-5)
        score = ranker(ints(PADDED), ints(MASK))
    assert score.shape == (2, 1) and abs(score[1, 0].item() - (logits[11] - logits[12])) < 1e-5
    labels = DecoderTokenClassifier(language_model, ("no", "yes", "part"))
    with pyapp.no_grad():
        labels.score.bias.copy_(pyapp.tensor([0.5, -1.0, 2.0]))
        every = DecoderEncoder(language_model)(ints([IDS[1]]))[0] @ labels.score.weight.T + labels.score.bias  # (4, 3)
        found = labels(ints(PADDED), ints(MASK)).numpy()[1, :4]
    np.testing.assert_allclose(found, every.numpy(), atol=1e-5)
    assert classifier.config.labels == ("no", "yes") and classifier.config.vocab_size == 96
    with pytest.raises(ModelError, match="the model has 96 tokens"):
        LogitRanker(language_model, 96, None)


def test_the_largest_products_of_tokens() -> None:
    query = pyapp.tensor([[1.0, 0.0], [0.0, 2.0]])
    texts = pyapp.tensor(
        [[[3.0, 1.0], [1.0, 2.0], [9.0, 9.0]], [[-1.0, -1.0], [-2.0, 0.5], [0.0, 0.0]], [[1.0, 1.0]] * 3]
    )
    counts = ints([[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    assert max_similarity(query, texts, counts).tolist() == [3.0 + 4.0, -1.0 + 1.0, 0.0]
