"""Suggests encodings for bytes that are not UTF-8, in the hints of errors.

Headrace never picks one itself: the hint shows how the bytes read in each, and the user chooses.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from headrace.errors import DataError
from headrace.io.cache.inflate import head_of, wrapper_of
from headrace.io.local.open import open_file

__all__ = ["encoding_hint", "encoding_hint_at", "likely_encodings"]


AROUND_BYTES = 4096
SHOWN = 16  # characters
MOST = 4
LEAST_SCORE = 0.5
CLOSE = 0.15  # encodings this close to the best score are suggested too
FIRST_NO_ASCII = 0x80
LONGEST_CHARACTER = 4  # bytes, in any of the encodings
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f")
RARE = 0.1
LIKELY = 0.6
COMMON = 0.8  # score of a common Chinese or Japanese character
OPENING = "“‘„‚•¿¡"
CLOSING = "”’“‘"
"""Typographic marks that text has before and after words. German closes with what English opens with."""
OLD = ("cp866", "cp850", "mac-roman")
"""Legacy encodings: suggested first only if no other fits equally well."""
OLD_SHARE = 0.85

SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"
)
TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作里用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉格望覺術領共確傳師觀清今切院讓識候帶導爭運臺灣號"
)


def _script(name: str) -> Callable[[str, str, str], float]:
    """Score letters of a script by plausibility: within words, and lower case except for the first letter."""

    def score(before: str, char: str, after: str) -> float:
        if not char.isalpha():
            return _symbol(before, char, after)
        if not unicodedata.name(char, "").startswith(name):
            return RARE
        if _is_beside_ascii(before, after) or (char.isupper() and before.islower()):
            return RARE  # typical of one Cyrillic encoding misread as another
        return 1.0 if before.isalpha() or after.isalpha() else LIKELY

    return score


def _latin(before: str, char: str, after: str) -> float:
    """Score a letter of a Latin alphabet: plausible beside an ASCII letter."""
    if not char.isalpha():
        return _symbol(before, char, after)
    if (char.isupper() and before.islower()) or (char.islower() and after.isupper()):
        return RARE
    if not (before.isalpha() or after.isalpha()):
        return LIKELY  # alone, as in a column of grades
    if not _is_beside_ascii(before, after):
        return 2 * RARE
    return 1.0 if before.isascii() and after.isascii() else LIKELY


def _is_beside_ascii(before: str, after: str) -> bool:
    return (before.isascii() and before.isalpha()) or (after.isascii() and after.isalpha())


def _symbol(before: str, char: str, after: str) -> float:
    """Score a symbol: plausible alone, not within a word, except for an apostrophe. Quotation marks stand at the ends of words."""
    is_within = before.isalpha() and after.isalpha()
    if is_within and char == "’":
        return 1.0
    begins, ends = not before.isalnum() and after.isalnum(), before.isalnum() and not after.isalnum()
    if (begins and char in OPENING) or (ends and char in CLOSING):
        return 1.0
    return RARE if is_within or not (before + after).isascii() else LIKELY


def _japanese(before: str, char: str, after: str) -> float:
    _ = before, after
    if "\u3040" <= char <= "\u30ff" or "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uff5e":
        return 1.0
    return COMMON if _is_common(char, "euc_jp", 0xB0, 0xCF) else RARE


def _hanzi(common: frozenset[str], encoding: str, first: int, last: int) -> Callable[[str, str, str], float]:
    def score(before: str, char: str, after: str) -> float:
        _ = before, after
        if char in common or "\u3000" <= char <= "\u3011" or "\uff00" <= char <= "\uff5e":
            return 1.0
        return LIKELY if _is_common(char, encoding, first, last) else RARE

    return score


def _korean(before: str, char: str, after: str) -> float:
    _ = before, after
    return 0.95 if "\uac00" <= char <= "\ud7a3" else RARE


def _is_common(char: str, encoding: str, first: int, last: int) -> bool:
    """Whether a character is in the range that an encoding reserves for the most common ones."""
    try:
        encoded = char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return len(encoded) == 2 and first <= encoded[0] <= last


CANDIDATES: dict[str, Callable[[str, str, str], float]] = {
    "cp1252": _latin,
    "cp932": _japanese,
    "euc_jp": _japanese,
    "gb18030": _hanzi(SIMPLIFIED, "gb2312", 0xB0, 0xD7),
    "big5": _hanzi(TRADITIONAL, "big5", 0xA4, 0xC6),
    "euc_kr": _korean,
    "cp1251": _script("CYRILLIC"),
    "koi8-r": _script("CYRILLIC"),
    "cp866": _script("CYRILLIC"),
    "cp1250": _latin,
    "cp1254": _latin,
    "cp1253": _script("GREEK"),
    "cp1255": _script("HEBREW"),
    "cp1256": _script("ARABIC"),
    "cp850": _latin,
    "mac-roman": _latin,
}
"""Candidate encodings, each with a score for a character between two others. On a tie, the first wins."""


def likely_encodings(sample: bytes) -> list[tuple[str, str]]:
    """The encodings that fit these bytes, best first, each with a decoded excerpt."""
    if CONTROLS.intersection(sample):
        return []
    scored = []
    for encoding, score in CANDIDATES.items():
        text = _decode(sample, encoding)
        likely = 0.0 if text is None else _score(text, score) * (OLD_SHARE if encoding in OLD else 1)
        if text is not None and likely >= LEAST_SCORE:
            scored.append((likely, encoding, _excerpt(text)))
    scored.sort(key=lambda each: -each[0])
    seen: dict[str, str] = {}
    for found, encoding, shown in scored[:MOST]:
        if found >= scored[0][0] - CLOSE and shown not in seen.values():
            seen[encoding] = shown
    return list(seen.items())


def _decode(sample: bytes, encoding: str) -> str | None:
    """The sample as text; ``None`` if it does not decode, or contains characters that text never has."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - LONGEST_CHARACTER:
            return None
        text = sample[: error.start].decode(encoding)  # cut inside a character
    beyond = [char for char in text if ord(char) >= FIRST_NO_ASCII]
    return None if not beyond or any(unicodedata.category(char)[0] == "C" for char in beyond) else text


def _score(text: str, score: Callable[[str, str, str], float]) -> float:
    """The mean score of the characters beyond ASCII."""
    padded = f" {text} "
    scores = [score(padded[at], char, padded[at + 2]) for at, char in enumerate(text) if ord(char) >= FIRST_NO_ASCII]
    return sum(scores) / len(scores)


def _excerpt(text: str) -> str:
    """An excerpt of a line around its first character beyond ASCII."""
    at = next(at for at, char in enumerate(text) if ord(char) >= FIRST_NO_ASCII)
    begin = max(text.rfind("\n", 0, at) + 1, at - SHOWN // 2)
    return text[begin : begin + SHOWN].split("\n", maxsplit=1)[0].strip()


def encoding_hint(sample: bytes) -> str:
    """The hint for bytes that are not UTF-8."""
    found = likely_encodings(sample)
    if not found:
        return "Name the encoding of the file: format=hr.CSV(encoding=...). Any text encoding of Python works."
    texts = ", ".join(f"{shown!r} in {encoding}" for encoding, shown in found)
    return f"The bytes read {texts}: open with format=hr.CSV(encoding={found[0][0]!r})" + (
        ", or another of these." if len(found) > 1 else "."
    )


@lru_cache(maxsize=16)  # called for every skipped row
def _hint_of(path: str, block: int) -> str:
    try:
        file = open_file(path)
        head = bytes(file.read(0, AROUND_BYTES))
        wrapper = wrapper_of(head)
        inner = b"" if wrapper == "none" else head_of(head, wrapper, AROUND_BYTES)
        sample = inner or bytes(file.read(block * AROUND_BYTES, 2 * AROUND_BYTES))
    except (DataError, OSError):
        return encoding_hint(b"")
    lines = sample.split(b"\n")
    whole = lines[1 if block and not inner else 0 : -1] or lines
    return encoding_hint(b"\n".join(line for line in whole if not line.isascii())[:AROUND_BYTES])


def encoding_hint_at(path: str | None, offset: int) -> str:
    """The hint for a byte of a file that is not UTF-8, judged by the lines around it (in a compressed file, by the first lines)."""
    return encoding_hint(b"") if path is None else _hint_of(path, offset // AROUND_BYTES)
