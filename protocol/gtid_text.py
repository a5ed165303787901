"""Text of GTID sets: ``uuid:1-5:7:tag:1,uuid:3`` and the server's spellings of it (fact 3.1).

In memory a set is a dict from TSID (``uuid`` or ``uuid:tag``, lower case) to boundaries, its keys
in canonical order, which is plain string order.

MySQL 9.7 has two parsers: GTID_SUBSET and GTID_SUBTRACT use one, and WAIT_FOR_EXECUTED_GTID_SET,
gtid_purged and gtid_next the other. Only texts that both read alike are accepted here: no UUID
without dashes or in braces, no ``+1``, and no ``010``, which one of them reads as ten and the
other, in octal, as eight. Texts that a server takes for an empty set are refused, too, since a wait
for them would succeed at once: ``uuid``, ``uuid:tag``, ``uuid:5-3``, ``uuid:1-``.

Most texts are canonical, since servers print nothing else. So there are two readers: a fast one,
which gives up at the first thing that is not canonical, and a slow one, which reads every spelling
and alone reports errors.
"""

import re
from typing import Final

from protocol.errors import MalformedGtidSetError
from protocol.gtid_intervals import END_OF_NUMBERS, FIRST_NUMBER, Boundaries, normalise

UUID_LENGTH: Final = 36
LONGEST_GTID: Final = UUID_LENGTH + 1 + 18
"""The longest GTID that the fast paths read: no tag, and 18 digits, which are always in range."""

_NUMBERS: Final = b"0123456789:-"
_WHITE_SPACE: Final = " \t\n\v\f\r"
_DIGITS_OF_LAST_NUMBER: Final = 19
_MOST_UUIDS: Final = 1024
_COLON: Final = 0x3A
_ZERO: Final = 0x30
_SHOWN: Final = 60  # characters of a bad text that an error message repeats

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_match_uuid: Final = re.compile(_UUID).fullmatch
_match_any_uuid: Final = re.compile(_UUID, re.ASCII | re.IGNORECASE).fullmatch
_match_tag: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}").fullmatch
_match_interval: Final = re.compile(r"([0-9]+)(?:[ \t\n\v\f\r]*-[ \t\n\v\f\r]*([0-9]+))?").fullmatch
_uuids: Final[set[str]] = set()  # texts that were found to be UUIDs
_split_at_tags: Final = re.compile(r":([a-z_][a-z0-9_]{0,31}):").split


def parse(text: str) -> tuple[dict[str, Boundaries], str]:
    """Reads a set.

    Returns:
        The set, and its canonical text if `text` turned out to be canonical, else ``""``. Canonical
        text is on one line here: the server's line feeds after commas are left out.

    Raises:
        MalformedGtidSetError: not a set, or one that a server would take for an empty one.
    """
    if text[UUID_LENGTH : UUID_LENGTH + 1] == ":" and text.isascii():
        first, dash, last = text[UUID_LENGTH + 1 :].partition("-")
        start = _canonical_number(first)
        end = (_canonical_number(last) if dash else start) + 1
        if start > 0 and start + len(dash) < end <= END_OF_NUMBERS:
            uuid = text[:UUID_LENGTH]
            if uuid in _uuids or _is_new_uuid(uuid):
                return {uuid: (start, end)}, text
    line = one_line(text)
    quick = _read_canonical(line)
    if quick is not None:
        return quick, line
    return _read_any(text), ""


def one_gtid(data: bytes) -> tuple[str, int]:
    """The UUID and the number of one GTID in canonical text, without a tag; else number 0.

    Servers report most writes in this form.
    """
    size = len(data)
    if size <= UUID_LENGTH + 1 or size > LONGEST_GTID or data[UUID_LENGTH] != _COLON:
        return "", 0
    number = 0
    for place in range(UUID_LENGTH + 1, size):
        digit = data[place] - _ZERO
        if digit < 0 or digit > 9 or (number == 0 and digit == 0):
            return "", 0
        number = number * 10 + digit
    uuid = data[:UUID_LENGTH].decode("latin-1")  # which decodes any bytes
    return (uuid, number) if uuid in _uuids or _is_new_uuid(uuid) else ("", 0)


def parse_changed(
    text: str, near: dict[str, Boundaries], near_text: str
) -> dict[str, Boundaries] | None:
    """Reads a canonical text that differs from a known one in the intervals of one untagged TSID.

    The cost depends on the number of intervals from the first difference to the end of its UUID,
    not on the length of the set: a `gtid_executed` with thousands of gaps grows at one end.

    Args:
        text: on one line.
        near: a set.
        near_text: its canonical text on one line.

    Returns:
        The set, or None: the texts differ otherwise, or `text` is not canonical.
    """
    same = _shared_head(text, near_text)
    begin = text.rfind(":", 0, same) + 1
    item = text.rfind(",", 0, begin) + 1
    uuid = text[item : item + UUID_LENGTH]
    end, near_end = _find_or_end(text, ",", begin), _find_or_end(near_text, ",", begin)
    if text[end:] != near_text[near_end:] or begin <= item + UUID_LENGTH or uuid not in near:
        return None
    kept_text = text[item + UUID_LENGTH : begin]
    if not _only_numbers(kept_text) or not _only_numbers(near_text[begin:near_end]):
        return None  # there are tags
    kept = near[uuid][: 2 * (kept_text.count(":") - 1)]
    grown = _read_intervals(text[begin:end], kept[-1] if kept else 0)
    if grown is None:
        return None
    changed = dict(near)
    changed[uuid] = (*kept, *grown)
    return changed


def one_line(text: str) -> str:
    """The text without line feeds if they stand only where the server puts them, after commas."""
    lines = text.split("\n")
    for line in lines[:-1]:
        if line[-1:] != ",":
            return text
    return "".join(lines)


def format_set(boundaries: dict[str, Boundaries]) -> str:
    """Canonical text on one line."""
    parts: list[str] = []
    uuid = ""
    for tsid, numbers in boundaries.items():
        if tsid[:UUID_LENGTH] == uuid:
            parts.append(tsid[UUID_LENGTH:])
        else:
            uuid = tsid[:UUID_LENGTH]
            parts.append("," + tsid if parts else tsid)
        for k in range(0, len(numbers), 2):
            start, last = numbers[k], numbers[k + 1] - 1
            parts.append(f":{start}" if start == last else f":{start}-{last}")
    return "".join(parts)


def parse_tsid(text: str) -> str:
    """Reads ``uuid`` or ``uuid:tag`` in any letter case.

    Raises:
        MalformedGtidSetError: it is neither.
    """
    uuid, colon, tag = text.partition(":")
    if _match_any_uuid(uuid) is None or (colon and _match_tag(tag) is None):
        raise _malformed("no source UUID, or no tag after it", text)
    return text.lower()


def check_interval(start: int, end: int) -> tuple[int, int]:
    """Returns a half-open interval if a server would accept it.

    Raises:
        MalformedGtidSetError: empty, reversed, or out of range.
    """
    if not FIRST_NUMBER <= start < end <= END_OF_NUMBERS:
        raise MalformedGtidSetError(f"interval empty or out of range: from {start} to {end - 1}")
    return start, end


def _only_numbers(text: str) -> bool:
    # By far the fastest way to check a long text.
    return text.isascii() and not text.encode().translate(None, _NUMBERS)


def _find_or_end(text: str, character: str, begin: int) -> int:
    at = text.find(character, begin)
    return len(text) if at < 0 else at


def _shared_head(a: str, b: str) -> int:
    """The length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        half = (high - low + 1) // 2
        if a[low : low + half] == b[low : low + half]:
            low += half
        else:
            high = low + half - 1
    return low


def _read_canonical(text: str) -> dict[str, Boundaries] | None:
    boundaries: dict[str, Boundaries] = {}
    if not text:
        return boundaries
    last_uuid = ""
    for item in text.split(","):
        uuid, body = item[:UUID_LENGTH], item[UUID_LENGTH:]
        if uuid <= last_uuid or _match_uuid(uuid) is None or body[:1] != ":":
            return None
        last_uuid = uuid
        # Intervals at even indexes, the tags between them at odd ones.
        pieces = [body] if _only_numbers(body) else _split_at_tags(body)
        if pieces[0]:
            numbers = _read_intervals(pieces[0][1:], 0)
            if numbers is None:
                return None
            boundaries[uuid] = tuple(numbers)
        last_tag = ""
        for k in range(1, len(pieces), 2):
            tag = pieces[k]
            numbers = _read_intervals(pieces[k + 1], 0)
            if numbers is None or tag <= last_tag:
                return None
            boundaries[f"{uuid}:{tag}"] = tuple(numbers)
            last_tag = tag
    return boundaries


def _read_intervals(text: str, floor: int) -> list[int] | None:
    """Reads ``1-5:7`` if it is canonical and begins beyond `floor`."""
    if text[:1] == "0" or ":0" in text or "-0" in text or not _only_numbers(text):
        return None
    numbers: list[int] = []
    try:
        for part in text.split(":"):
            first, dash, last = part.partition("-")
            start = int(first)
            end = start + 1
            if dash:
                end = int(last) + 1
                if end <= start + 1:
                    return None
            if start <= floor:
                return None
            numbers.append(start)
            numbers.append(end)
            floor = end
    except ValueError:  # no digits, or more than Python converts: the slow reader reports that
        return None
    return numbers if floor <= END_OF_NUMBERS else None


def _canonical_number(text: str) -> int:
    """A number in canonical form; 0 for any other text. The text must be ASCII."""
    if not text.isdecimal() or text[0] == "0" or len(text) > _DIGITS_OF_LAST_NUMBER:
        return 0
    return int(text)


def _is_new_uuid(text: str) -> bool:
    """Whether a text is a UUID in canonical form; if so, it is remembered."""
    if _match_uuid(text) is None:
        return False
    if len(_uuids) >= _MOST_UUIDS:
        _uuids.clear()
    _uuids.add(text)
    return True


def _read_any(text: str) -> dict[str, Boundaries]:
    intervals: dict[str, list[tuple[int, int]]] = {}
    for item in text.split(","):
        if not item.strip(_WHITE_SPACE):
            continue
        parts = [part.strip(_WHITE_SPACE) for part in item.split(":")]
        if _match_any_uuid(parts[0]) is None:
            raise _malformed("no source UUID at", item)
        uuid = tsid = parts[0].lower()
        read = 0
        for part in parts[1:]:
            interval = _match_interval(part)
            if interval is not None:
                start = _number(interval[1])
                last = start if interval[2] is None else _number(interval[2])
                intervals.setdefault(tsid, []).append(check_interval(start, last + 1))
                read += 1
            elif _match_tag(part) is not None:
                if read == 0 and tsid != uuid:
                    raise _malformed("no interval after a tag in", item)
                tsid = f"{uuid}:{part.lower()}"
                read = 0
            else:
                raise _malformed("neither interval nor tag:", part)
        if read == 0:
            raise _malformed("no interval at the end of", item)
    return {tsid: normalise(intervals[tsid]) for tsid in sorted(intervals)}


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    if not significant or len(significant) > _DIGITS_OF_LAST_NUMBER:
        raise _malformed("number out of range:", digits)
    if significant != digits and (len(significant) > 1 or significant > "7"):
        raise _malformed("octal for one parser of the server, decimal for the other:", digits)
    return int(significant)


def _malformed(problem: str, text: str) -> MalformedGtidSetError:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return MalformedGtidSetError(f"{problem} {shown!r}")
