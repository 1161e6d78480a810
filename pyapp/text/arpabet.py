"""The sounds of English in the signs of CMU's dictionary (ARPAbet, http://www.speech.cs.cmu.edu/cgi-bin/cmudict), and
their numbers for models that read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyapp.dataclass import dataclass

from .phonemes import phonemes_of
from .tokenization.voice_tokenizer import ReadText

# Of misaki's signs (pyapp.text.phonemes). Vowels end with a number of their stress.
VOWELS = {
    "ɜɹ": "ER", "əɹ": "ER", "A": "EY", "I": "AY", "O": "OW", "W": "AW", "Y": "OY", "æ": "AE", "ɑ": "AA", "ɔ": "AO",
    "ə": "AH", "ɐ": "AH", "ʌ": "AH", "ᵊ": "AH", "ɛ": "EH", "ɜ": "ER", "ɪ": "IH", "ᵻ": "IH", "i": "IY", "ʊ": "UH",
    "u": "UW",
}  # fmt: skip
CONSONANTS = {
    "b": "B", "d": "D", "f": "F", "ɡ": "G", "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "ŋ": "NG",
    "p": "P", "ɹ": "R", "s": "S", "ʃ": "SH", "t": "T", "T": "T", "ɾ": "T", "v": "V", "w": "W", "z": "Z", "ʒ": "ZH",
    "ʤ": "JH", "ʧ": "CH", "ð": "DH", "θ": "TH",
}  # fmt: skip
STRESS = {"ˈ": "1", "ˌ": "2"}
MARKS = {";": ",", ":": ",", "—": ",", "…": "."}
SYLLABLE = re.compile(r"(?<=t)n(?=[^\w]|[tsz]|$)")  # an n that is a syllable, as in button
SIGN = re.compile(f"[ˈˌ]?(?:{'|'.join(VOWELS)})|.", re.DOTALL)


def sounds(phonemes: str) -> Iterator[str]:
    """The signs of phonemes in misaki's form, marks of punctuation among them; what is not known stays as it is."""
    for found in SIGN.findall(SYLLABLE.sub("ᵊn", phonemes)):
        stress, vowel = (STRESS[found[0]], found[1:]) if found[0] in STRESS and len(found) > 1 else ("0", found)
        if vowel in VOWELS:
            yield VOWELS[vowel] + stress
        elif not found.isspace() and found not in STRESS:
            yield CONSONANTS.get(found, MARKS.get(found, found))


@dataclass(frozen=True)
class SpokenSounds:
    """Reads English texts for a model whose `numbers` are those of sounds; `end`: the number of what stands behind
    them.
    """

    numbers: Mapping[str, int]
    end: int | None

    @property
    def vocab_size(self) -> int:
        """One more than the largest number."""
        return max(self.numbers.values(), default=0) + 1

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The numbers of a text's sounds; with `phonemes` the text has them, divided by spaces: HH AH0 L OW1.
        OptionError for a text where nothing makes them.
        """
        made = text.split() if phonemes else [*sounds(phonemes_of(text, "en-us"))]
        ids = tuple(self.numbers[sign] for sign in made if sign in self.numbers)
        unknown = dict.fromkeys(sign for sign in made if sign not in self.numbers and sign.isalnum())
        return ReadText((*ids, self.end) if ids and self.end is not None else ids, tuple(unknown))
