"""Writes golden_markup.json: the texts of the page of tests/tasks/test_markup.py, their paths, units and tokens, with
transformers and beautifulsoup4. Texts of comments, scripts and styles are left out.

    PYTHONPATH=. python tests/tasks/make_golden_markup.py
"""

from __future__ import annotations

from pathlib import Path

import transformers
from bs4 import BeautifulSoup
from bs4.element import PreformattedString, Script, Stylesheet

from tests.goldens import write_json
from tests.tasks.test_markup import DEPTH, MERGES, PAGE, QUESTION, TAGS, VOCABULARY

OUT = Path(__file__).with_name("golden_markup.json")

if __name__ == "__main__":
    soup = BeautifulSoup(PAGE, "html.parser")
    for unseen in soup.find_all(string=lambda text: isinstance(text, PreformattedString | Script | Stylesheet)):
        unseen.extract()
    found = transformers.MarkupLMFeatureExtractor()(str(soup))
    texts, paths = found["nodes"][0], found["xpaths"][0]
    merges = [tuple(line.split(" ")) for line in MERGES.splitlines()[1:]]
    tokenizer = transformers.MarkupLMTokenizer(TAGS, vocab=VOCABULARY, merges=merges, max_depth=DEPTH)
    units = [list(tokenizer.get_xpath_seq(path)) for path in paths]
    units.append([tokenizer.pad_xpath_tags_seq, tokenizer.pad_xpath_subs_seq])
    encoded = tokenizer(QUESTION, text_pair=texts, xpaths=paths)
    ids = encoded["input_ids"][len(QUESTION) + 2 : -1]  # a token for each letter of the question
    print(write_json(OUT, {"texts": texts, "paths": paths, "units": units, "ids": ids}, separators=(",", ":")))
