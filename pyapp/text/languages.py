"""The languages of Whisper: codes in the order of their tokens, and their English names.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision (2022), and the vocabulary of
https://github.com/openai/whisper (MIT). Cantonese came with large-v3.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyapp.errors import OptionError

# One "code name" after another, in the order of the token ids.
_NAMED = """
en english, zh chinese, de german, es spanish, ru russian, ko korean, fr french, ja japanese, pt portuguese, tr turkish,
pl polish, ca catalan, nl dutch, ar arabic, sv swedish, it italian, id indonesian, hi hindi, fi finnish, vi vietnamese,
he hebrew, uk ukrainian, el greek, ms malay, cs czech, ro romanian, da danish, hu hungarian, ta tamil, no norwegian,
th thai, ur urdu, hr croatian, bg bulgarian, lt lithuanian, la latin, mi maori, ml malayalam, cy welsh, sk slovak,
te telugu, fa persian, lv latvian, bn bengali, sr serbian, az azerbaijani, sl slovenian, kn kannada, et estonian,
mk macedonian, br breton, eu basque, is icelandic, hy armenian, ne nepali, mn mongolian, bs bosnian, kk kazakh,
sq albanian, sw swahili, gl galician, mr marathi, pa punjabi, si sinhala, km khmer, sn shona, yo yoruba, so somali,
af afrikaans, oc occitan, ka georgian, be belarusian, tg tajik, sd sindhi, gu gujarati, am amharic, yi yiddish, lo lao,
uz uzbek, fo faroese, ht haitian creole, ps pashto, tk turkmen, nn nynorsk, mt maltese, sa sanskrit, lb luxembourgish,
my myanmar, bo tibetan, tl tagalog, mg malagasy, as assamese, tt tatar, haw hawaiian, ln lingala, ha hausa, ba bashkir,
jw javanese, su sundanese, yue cantonese
"""
_ENTRIES = [entry.strip().partition(" ") for entry in _NAMED.replace("\n", " ").split(",")]
LANGUAGES: dict[str, str] = {code: name for code, _, name in _ENTRIES}
_OTHER_NAMES = {
    "burmese": "my", "castilian": "es", "flemish": "nl", "haitian": "ht", "letzeburgesch": "lb", "mandarin": "zh",
    "moldavian": "ro", "moldovan": "ro", "panjabi": "pa", "pushto": "ps", "sinhalese": "si", "valencian": "ca",
}  # fmt: skip
# Written without spaces between words.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


def language_code(language: str, known: Iterable[str] = LANGUAGES) -> str:
    """The code of a language, given by code or name in upper or lower case; OptionError unless it is in `known`."""
    wanted = language.strip().lower() if isinstance(language, str) else language
    codes = {name: code for code, name in LANGUAGES.items()} | _OTHER_NAMES
    code = wanted if wanted in LANGUAGES else codes.get(wanted)
    known = list(known)
    if code is None or code not in known:
        listed = ", ".join(known) if len(known) <= 10 else "a code like en or a name like English"
        what = "is not a language of Whisper" if code is None else "is not a language of this model"
        raise OptionError(f"{language!r:.40} {what}", where="language", hint=f"Choose {listed}")
    return code
