"""The texts that are printed for the training: words of eight languages, sentences of them, numbers, dates, prices,
addresses, codes, and characters in any order.

The words are those of Debian's word lists (the packages wamerican, wfrench, wngerman, wspanish, witalian, wportuguese,
wdanish, wswedish, wnorwegian), of which a reader learns the letters that often follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from pyapp.errors import PyappError
from pyapp.recipes.chooser import Chooser

ACCENTED = "àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿœšž"
SIGNS = "«»‹›„“”‚‘’–—…¿¡€£¥¢§°©®™•·†‡¼½¾¹²³×÷±µªº¶ßŸ"
ASCII = "".join(chr(code) for code in range(0x20, 0x7F))
ALPHABET = ASCII + ACCENTED + ACCENTED.replace("ÿ", "").upper() + SIGNS
"""The characters that the reader knows, the space first."""

WORD_LISTS = Path("/usr/share/dict")
WORDS = 40_000  # of a language

# A language's word list, its encoding, how often it is chosen, its quotation marks, and its most frequent words.
LANGUAGES: dict[str, tuple[str, str, int, str, str]] = {
    "en": (
        "american-english", "utf-8", 34, "“”",
        "the of and to in is that it was for on are as with they be at one have this from or had by "
        "but what some we can out other were all there when up use your how said an each she which "
        "their time if will way about many then them would write like so these her long make thing "
        "see him two has look more day could go come did number sound no most people my over know "
        "water than call first who may down side been now find",
    ),
    "fr": (
        "french", "utf-8", 14, "«»",
        "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il "
        "sont avec son été être à où très même déjà après ça français années état façon élève près "
        "première l'eau d'une qu'il n'est c'est aujourd'hui jusqu'à",
    ),
    "de": (
        "ngerman", "utf-8", 14, "„“",
        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an "
        "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum "
        "war haben nur oder aber vor zur bis mehr durch man sein wurde können müssen größer Straße "
        "schön möglich Österreich natürlich früher hören",
    ),
    "es": (
        "spanish", "utf-8", 10, "«»",
        "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le "
        "ha me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años "
        "hasta desde está mi porque qué sólo han yo hay vez puede todos así nos ni parte tiene él uno "
        "donde bien tiempo mismo día niño señor mañana",
    ),
    "it": (
        "italian", "utf-8", 8, "«»",
        "di e che la il un a per in una mi sono ho non ma lo ha le si ti i con cosa se io come da ci "
        "no questo qui hai sei del bene tu sì me più al mio c'è perché lei solo te era gli tutto "
        "della così mia ne questa fare quando ora fatto essere mai chi o alla tutti molto anche detto "
        "quello va niente grazie lui voglio abbiamo stato nel suo dove posso oh prima allora l'acqua "
        "è città",
    ),
    "pt": (
        "portuguese", "utf-8", 8, "“”",
        "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele "
        "das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela "
        "entre era depois sem mesmo aos ter seus quem nas me esse eles estão você tinha foram essa "
        "num nem suas meu às minha têm numa pelos elas havia seja qual será nós coração ações São",
    ),
    "da": (
        "danish", "utf-8", 4, "»«",
        "og i at det er en til af på som med de den for ikke der var jeg et har men han om vi sig fra "
        "kan hun så ved over være også efter blev når skal ind år før mange øre måske både når gøre "
        "første små",
    ),
    "sv": (
        "swedish", "latin-1", 5, "”“",
        "och i att det som en på är av för med till den har de inte om ett han men var jag sig från "
        "vi så kan när år under också efter eller nu sin där vid mot ska skulle kommer ut får finns "
        "vara hade alla andra mycket än då sedan över bara två även här före många människor första "
        "själv",
    ),
    "nb": (
        "bokmaal", "latin-1", 3, "«»",
        "og i det på som er en til å han av for med at var de ikke den har jeg om et men så seg hun "
        "hadde fra vi du kan da nå ble eller skal ved være opp kom etter år også bare når første "
        "mange både gjøre små følge",
    ),
}  # fmt: skip
MONTHS = (
    "January February March April May June July August September October November December",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "januar februar marts april maj juni juli august september oktober november december",
    "januari februari mars april maj juni juli augusti september oktober november december",
)  # fmt: skip
UNITS = (
    "kg", "g", "km", "cm", "mm", "m²", "m³", "°C", "°F", "%", "h", "min", "s", "kWh", "MB", "GB", "€", "$", "l",
    "ml", "Hz", "V", "W", "px", "pt", "in.", "µm", "Nm", "dB",
)  # fmt: skip
LABELS = (
    "Total", "Sum", "Tel.", "Fax", "No.", "Nr.", "Ref.", "Date", "Datum", "Page", "S.", "Seite", "Invoice", "Order",
    "Qty", "Price", "VAT", "TVA", "MwSt.", "IVA", "Subtotal", "Tax", "Due", "Balance", "Amount", "ID", "Art.",
    "Fig.", "Table", "Vol.", "Chapter", "Name", "Type", "Summe", "Montant", "Importe", "Totale", "Betrag",
)  # fmt: skip
ENDINGS = (",", ",", ",", ".", ".", ".", ";", ":", "!", "?", "…", "...", ")", " –", " —", " -", "/", " &", "*")
SHORT = (
    "1/2", "½", "¼", "¾", "1.", "2)", "a)", "(b)", "§ 4", "§12", "•", "#1", "No. 7", "n/a", "—", "-", "x", "<", "I",
    "II", "IV", "0", "1", "7", "A", "B",
)  # fmt: skip
DOMAINS = ("com", "org", "net", "de", "fr", "es", "it", "pt", "dk", "se", "no", "eu", "co.uk", "info", "io")


def _choose_language(chooser: Chooser) -> str:
    draw = chooser.random() * sum(entry[2] for entry in LANGUAGES.values())
    for name, entry in LANGUAGES.items():
        draw -= entry[2]
        if draw < 0:
            return name
    return "en"


@cache
def word_list(language: str) -> Sequence[str]:
    """Words of a language, evenly from its list. PyappError if the list is not installed."""
    name, encoding, *_ = LANGUAGES[language]
    path = WORD_LISTS / name
    try:
        words = path.read_text(encoding, "replace").split("\n")
    except OSError as error:
        hint = "Install Debian's packages wamerican wfrench wngerman wspanish witalian wportuguese wdanish wswedish "
        raise PyappError("a list of words is missing", where=str(path), hint=hint + "wnorwegian") from error
    known = set(ALPHABET)
    words = [word for word in words if 1 < len(word) <= 16 and known.issuperset(word)]
    return words[:: max(1, len(words) // WORDS)]


@cache
def _common(language: str) -> Sequence[str]:
    return LANGUAGES[language][4].split()


def digits(chooser: Chooser, count: int) -> str:
    return "".join(chooser.choose("0123456789") for _ in range(count))


def whole(chooser: Chooser, least: int = 1, most: int = 6) -> str:
    """A number without a leading zero."""
    count = int(chooser.between(least, most + 1))
    return chooser.choose("123456789") + digits(chooser, count - 1)


def word(chooser: Chooser, language: str) -> str:
    return chooser.choose(_common(language) if chooser.chance(0.45) else word_list(language))


def _accented(text: str, chooser: Chooser) -> str:
    """The text with a letter replaced by any letter with an accent."""
    at = int(chooser.random() * len(text))
    letter = chooser.choose(ACCENTED)
    return text[:at] + (letter.upper() if text[at].isupper() and letter != "ÿ" else letter) + text[at + 1 :]


def _cased(text: str, chooser: Chooser) -> str:
    draw = chooser.random()
    if draw < 0.72:
        return text
    return text[:1].upper() + text[1:] if draw < 0.9 or "ß" in text or "ÿ" in text else text.upper()


def words(chooser: Chooser, length: int) -> str:
    """Words of one language with punctuation between them, about `length` characters."""
    language = _choose_language(chooser)
    quotes = LANGUAGES[language][3] if chooser.chance(0.5) else '""'
    shout, title = chooser.chance(0.07), chooser.chance(0.08)
    parts: list[str] = []
    size, starts = 0, chooser.chance(0.45)
    while size < length:
        one = word(chooser, language)
        if chooser.chance(0.03):
            one = _accented(one, chooser)
        if chooser.chance(0.05):
            one = whole(chooser, 1, 4)
        one = _cased(one, chooser) if chooser.chance(0.25) else one
        if starts or title:
            one = one[:1].upper() + one[1:]
        starts = False
        if chooser.chance(0.16):
            ending = chooser.choose(ENDINGS)
            starts = ending in (".", "!", "?", "…")
            one = f"({one})" if ending == ")" else one + ending
            if ending == "/":
                one += word(chooser, language)
        elif chooser.chance(0.03):
            one = quotes[0] + one + quotes[1]
        elif chooser.chance(0.02):
            one = one + "-" + word(chooser, language)
        elif chooser.chance(0.012):
            one = f"‘{one}’" if chooser.chance(0.5) else f"'{one}'"
        elif chooser.chance(0.01) and language == "es":
            one = chooser.choose(("¿", "¡")) + one
        parts.append(one)
        size += len(one) + 1
    text = " ".join(parts)
    if chooser.chance(0.3):
        text += chooser.choose((".", ".", ".", ":", ",", "-", "?", "!", ";"))
    if chooser.chance(0.35):
        text = text.replace("'", "’")
    return text.upper() if shout and "ÿ" not in text and "ß" not in text else text


def price(chooser: Chooser, length: int = 0) -> str:
    sign, amount = chooser.choose("€€€$$£¥"), whole(chooser, 1, 4)
    cents, thousands, mark = digits(chooser, 2), whole(chooser, 1, 1), chooser.choose(",. ")
    rest = digits(chooser, 3)
    long = f"{sign}{thousands},{rest}.{cents}" if mark == "," else f"{thousands}{mark}{rest},{cents} {sign}"
    return chooser.choose((
        f"{sign}{amount}.{cents}", f"{amount},{cents} {sign}", f"{sign} {amount}.{cents}", long, f"{amount}.{cents}",
        f"{amount},{chooser.choose(('–', '--', '00', cents))}",
    ))  # fmt: skip


def date(chooser: Chooser, length: int = 0) -> str:
    day, month = 1 + int(chooser.random() * 31), int(chooser.random() * 12)
    year = 1900 + int(chooser.random() * 140)
    name = chooser.choose(MONTHS).split()[month]
    form = int(chooser.random() * 9)
    return (
        f"{year}-{month + 1:02}-{day:02}", f"{day:02}.{month + 1:02}.{year}", f"{day:02}/{month + 1:02}/{year}",
        f"{month + 1}/{day}/{year % 100:02}", f"{day}. {name} {year}", f"{name} {day}, {year}", f"{day} {name} {year}",
        f"{name[:3]} {day:02}", f"{name} {year}",
    )[form]  # fmt: skip


def number(chooser: Chooser, length: int = 0) -> str:
    form = int(chooser.random() * 12)
    if form == 0:
        return f"{whole(chooser, 1, 3)}{chooser.choose('.,')}{digits(chooser, int(chooser.between(1, 4)))}"
    if form == 1:
        return f"{whole(chooser, 1, 4)}{chooser.choose(('', ' '))}{chooser.choose(UNITS)}"
    if form == 2:
        return f"{whole(chooser, 1, 3)}{chooser.choose(',. ')}{digits(chooser, 3)}"
    if form == 3:
        return f"{chooser.choose('+-–±')}{whole(chooser, 1, 3)}{chooser.choose(('', '%', '.' + digits(chooser, 1)))}"
    if form == 4:
        hour = f"{int(chooser.random() * 24):02}:{int(chooser.random() * 60):02}"
        return hour + chooser.choose(("", "", ":" + digits(chooser, 2), " h", " pm", " am", " Uhr"))
    if form == 5:
        parts = (digits(chooser, int(chooser.between(2, 5))) for _ in range(3))
        return f"+{whole(chooser, 2, 2)} {' '.join(parts)}"
    if form == 6:
        return f"({digits(chooser, 3)}) {digits(chooser, 3)}-{digits(chooser, 4)}"
    if form == 7:
        return f"{whole(chooser, 1, 3)} {chooser.choose('x×/÷*=<>+')} {whole(chooser, 1, 3)}"
    if form == 8:
        return f"{whole(chooser, 1, 2)}–{whole(chooser, 2, 3)}"
    if form == 9:
        return chooser.choose(SHORT)
    return whole(chooser, 1, 8)


def address(chooser: Chooser, length: int = 0) -> str:
    """An address of the network, or of mail."""
    plain = [chooser.choose(word_list("en")).lower().replace("'", "") for _ in range(3)]
    name = chooser.choose((".", "_", "-", "")).join(plain[: 1 + int(chooser.random() * 2)])
    if chooser.chance(0.2):
        name += digits(chooser, 2)
    host = f"{plain[2]}.{chooser.choose(DOMAINS)}"
    if chooser.chance(0.55):
        return f"{name}@{host}"
    start = chooser.choose(("www.", "https://", "http://", "https://www.", ""))
    end = chooser.choose(("", "", "/", f"/{name}", f"/{name}.html", f"/?{plain[0]}={digits(chooser, 2)}"))
    return start + host + end


def code(chooser: Chooser, length: int = 0) -> str:
    """A code of letters and digits, or a path, or a line of a program."""
    form = int(chooser.random() * 5)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    pick = "".join(chooser.choose(letters + "0123456789" * 2) for _ in range(int(chooser.between(3, 12))))
    plain = chooser.choose(word_list("en")).lower().replace("'", "")
    if form == 0:
        return pick
    if form == 1:
        return f"{chooser.choose(letters)}{chooser.choose(letters)}-{digits(chooser, int(chooser.between(2, 7)))}"
    if form == 2:
        groups = " ".join(digits(chooser, 4) for _ in range(3))
        return f"{chooser.choose(letters)}{chooser.choose(letters)}{digits(chooser, 2)} {groups}"
    if form == 3:
        low = pick.lower()
        return chooser.choose((
            f"~/{plain}/{pick}.txt", f"C:\\{plain}\\{pick}", f"{plain}_{digits(chooser, 2)}.pdf", f"/{plain}/{low}",
            f"{plain}.{low}()",
        ))  # fmt: skip
    two, low = digits(chooser, 2), pick.lower()
    return chooser.choose((
        f"{plain}({low}) = {two};", f"{{{plain}: [{two}]}}", f"if {plain} > {two}:", f"<{plain}>", f"#{low}",
        f"{plain}[{two[0]}] | {pick}", f"^{plain}$ `{pick}`", f"@{plain} {{{pick}}}",
    ))  # fmt: skip


def labelled(chooser: Chooser, length: int = 0) -> str:
    value = chooser.choose((price, date, number, number, code, address))(chooser)
    return f"{chooser.choose(LABELS)}{chooser.choose((':', '', ' =', '.'))} {value}"


def several(chooser: Chooser, length: int) -> str:
    """Values beside one another, as in a row of a table."""
    parts, size = [], 0
    while size < length:
        parts.append(chooser.choose((price, date, number, number, number, code))(chooser))
        size += len(parts[-1]) + 1
    return " ".join(parts)


def noise(chooser: Chooser, length: int) -> str:
    """Characters in any order, in groups."""
    parts, size = [], 0
    pool = ALPHABET[1:] if chooser.chance(0.6) else ASCII[1:]
    while size < length:
        parts.append("".join(chooser.choose(pool) for _ in range(int(chooser.between(1, 8)))))
        size += len(parts[-1]) + 1
    return " ".join(parts)


KINDS: tuple[tuple[float, Callable[[Chooser, int], str]], ...] = (
    (0.58, words), (0.06, price), (0.05, date), (0.09, number), (0.05, address), (0.05, code), (0.04, labelled),
    (0.04, several), (0.04, noise),
)  # fmt: skip


READABLE = (words, price, date, number, address, labelled, several)
"""The kinds without codes and characters in any order, in which fonts make no difference between some characters."""


def line_text(chooser: Chooser, longest: int = 48, readable: bool = False) -> str:
    """The text of a line: characters of ALPHABET, without spaces around it or two of them together."""
    kinds = [(share, make) for share, make in KINDS if make in READABLE or not readable]
    draw, length = chooser.random() * sum(share for share, _ in kinds), int(chooser.between(2, longest))
    chosen: Callable[[Chooser, int], str] = words
    for share, make in kinds:
        draw -= share
        if draw < 0:
            chosen = make
            break
    return trimmed(chosen(chooser, length), longest)


def trimmed(text: str, longest: int) -> str:
    """The text up to a space before `longest` characters."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    return text[: text.rfind(" ", 1, longest + 1) if " " in text[1 : longest + 1] else longest].strip()
