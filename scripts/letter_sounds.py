"""Learns how English letters sound from misaki's dictionary, and writes pyapp/text/english/{us,gb}_letters.txt, which
read words that no dictionary has: python -m scripts.letter_sounds (needs misaki).

The letters of each word are aligned with its phonemes by the most probable division (hard expectation maximisation).
Then each letter's sounds are told by its context, from the nearest letters to the farthest: a context is written only
where it tells something else than the next shorter one (IGTree, Daelemans and van den Bosch 1997, "Language-independent
data-oriented grapheme-to-phoneme conversion"). A twentieth of the words is held out, and its accuracy printed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from pyapp.text.english.letters import OFFSETS, LetterSounds, context

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "pyapp" / "text" / "english"
MOST = 3  # sounds of one letter
ROUNDS = 5
HELD_OUT = 20  # one word in so many
RARE = 2  # a longer context must have been seen so many times
SOUND = re.compile("[ˈˌ]?.ː?")  # a vowel has its stress

Pairs = list[tuple[str, tuple[str, ...]]]
Costs = Mapping[tuple[str, str], float]


def words(dialect: str) -> Pairs:
    """Words of plain letters with their sounds, in order."""
    folder = resources.files("misaki.data")
    found: dict[str, str] = {}
    for kind in ("silver", "gold"):
        for word, phonemes in json.loads((folder / f"{dialect}_{kind}.json").read_text("utf-8")).items():
            value = phonemes["DEFAULT"] if isinstance(phonemes, dict) else phonemes
            capitals = word.isupper() or not re.fullmatch("[A-Za-z][a-z]{2,19}", word)
            if not capitals and value and len(SOUND.findall(value)) <= MOST * len(word):
                found[word.lower()] = value
    return [(word, tuple(SOUND.findall(value))) for word, value in sorted(found.items())]


def divided(word: str, sounds: tuple[str, ...], cost: Costs, unseen: float) -> list[str] | None:
    """The sounds of each letter, by the least cost."""
    columns = len(sounds) + 1
    best = [math.inf] * columns
    best[0] = 0.0
    steps: list[list[int]] = []
    for letter in word:
        following, taken = [math.inf] * columns, [0] * columns
        for start, so_far in enumerate(best):
            if so_far == math.inf:
                continue
            for size in range(min(MOST, columns - 1 - start) + 1):
                total = so_far + cost.get((letter, "".join(sounds[start : start + size])), unseen * (1 + size))
                if total < following[start + size]:
                    following[start + size], taken[start + size] = total, size
        best = following
        steps.append(taken)
    if best[-1] == math.inf:
        return None
    chunks, end = [], columns - 1
    for taken in reversed(steps):
        chunks.append("".join(sounds[end - taken[end] : end]))
        end -= taken[end]
    return chunks[::-1]


def align(pairs: Pairs) -> list[tuple[str, list[str]]]:
    """Words with the sounds of each letter."""
    counts: Counter[tuple[str, str]] = Counter()
    for word, sounds in pairs:  # to begin with: what stands at about the same place
        for at, letter in enumerate(word):
            near = at * len(sounds) // len(word)
            for sound in sounds[max(near - 1, 0) : near + 2]:
                counts[letter, sound] += 1
            counts[letter, ""] += 1
    for _ in range(ROUNDS):
        totals: Counter[str] = Counter()
        for (letter, _), number in counts.items():
            totals[letter] += number
        cost = {key: math.log(totals[key[0]] / number) for key, number in counts.items()}
        found = [(word, divided(word, sounds, cost, 12.0)) for word, sounds in pairs]
        divided_words = ((word, chunks) for word, chunks in found if chunks)
        counts = Counter(one for word, chunks in divided_words for one in zip(word, chunks, strict=True))
    return [(word, chunks) for word, chunks in found if chunks]


def contexts(examples: list[tuple[str, str]], known: str, depth: int) -> Iterator[tuple[str, str]]:
    """Contexts whose sounds differ from those of shorter ones, which are `known`."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for example in examples:
        groups[example[0][:depth]].append(example)
    for key, group in sorted(groups.items()):
        counts = Counter(chunk for _, chunk in group)
        sounds, number = min(counts.items(), key=lambda item: (-item[1], item[0] != known, item[0]))
        if depth > 1 and len(group) < RARE:
            continue
        if sounds != known or depth == 1:
            yield key, sounds
        if number < len(group) and depth < len(OFFSETS):
            yield from contexts(group, sounds, depth + 1)


def learn(aligned: Iterable[tuple[str, list[str]]]) -> dict[str, str]:
    """The sounds of letters, by context."""
    examples = [(context(word, at), chunk) for word, chunks in aligned for at, chunk in enumerate(chunks)]
    return dict(contexts(examples, "", 1))


def accuracy(sounds: LetterSounds, pairs: Pairs) -> tuple[float, float]:
    """The shares of words read as the dictionary has them: with stress, and without."""
    plain = re.compile("[ˈˌ]")
    read = [(sounds.read(word), "".join(wanted)) for word, wanted in pairs]
    exact = sum(a == b for a, b in read)
    alike = sum(plain.sub("", a) == plain.sub("", b) for a, b in read)
    return exact / len(read), alike / len(read)


def main() -> None:
    for dialect in ("us", "gb"):
        pairs = words(dialect)
        held = pairs[::HELD_OUT]
        kept = {word for word, _ in held}
        aligned = align(pairs)
        tried = learn(entry for entry in aligned if entry[0] not in kept)
        exact, alike = accuracy(LetterSounds(tried), held)
        found = learn(aligned)
        (FOLDER / f"{dialect}_letters.txt").write_text("".join(f"{key}\t{value}\n" for key, value in found.items()))
        print(f"{dialect}: {len(pairs):,} words, {len(found):,} contexts; ", end="")
        print(f"held out {exact:.1%}, without stress {alike:.1%}")


if __name__ == "__main__":
    main()
