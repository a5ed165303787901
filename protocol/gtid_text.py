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

_NOTHING: Final[dict[str, Boundaries]] = {}  # never changed
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
    for position in range(UUID_LENGTH + 1, size):
        digit = data[position] - _ZERO
        if digit < 0 or digit > 9 or (number == 0 and digit == 0):
            return "", 0
        number = number * 10 + digit
    uuid = data[:UUID_LENGTH].decode("latin-1")  # which decodes any bytes
    return (uuid, number) if uuid in _uuids or _is_new_uuid(uuid) else ("", 0)


def parse_changed(
    text: str, near: dict[str, Boundaries], near_text: str
) -> dict[str, Boundaries] | None:
    """Reads a canonical text by comparing it with that of a known set.

    What both have in the same words is taken over from the known set, as the same objects: whole
    UUIDs, and the first and the last intervals of a TSID. So both the time and the memory that a
    state of a server takes beside the state before depend on what has changed.

    Args:
        text: on one line.
        near: a set.
        near_text: its canonical text on one line.

    Returns:
        The set, or None: `text` is not canonical.
    """
    known_items = {item[:UUID_LENGTH]: item for item in near_text.split(",")}
    known_tsids: dict[str, list[str]] = {}
    for tsid in near:
        known_tsids.setdefault(tsid[:UUID_LENGTH], []).append(tsid)
    boundaries: dict[str, Boundaries] = {}
    last_uuid = ""
    for item in text.split(","):
        uuid = item[:UUID_LENGTH]
        known_item = known_items.get(uuid, "")
        if uuid <= last_uuid or (not known_item and _match_uuid(uuid) is None):
            return None
        last_uuid = uuid
        if item == known_item:
            for tsid in known_tsids[uuid]:
                boundaries[tsid] = near[tsid]
            continue
        begin = UUID_LENGTH + 1
        if known_tsids.get(uuid) == [uuid] and item[:begin] == known_item[:begin]:
            # It had no tags: what changed is all that needs to be looked at.
            numbers = _read_near(item[begin:], near[uuid], known_item[begin:])
            if numbers is not None:
                boundaries[uuid] = numbers
                continue
        if not _read_changed_item(item, near, known_item, boundaries):
            return None
    return boundaries


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


def _shared_tail(a: str, b: str, most: int) -> int:
    """The length of the common suffix, of at most so many characters."""
    low, high = 0, most
    a_end, b_end = len(a), len(b)
    while low < high:
        half = (high - low + 1) // 2
        if a[a_end - low - half : a_end - low] == b[b_end - low - half : b_end - low]:
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
        uuid = item[:UUID_LENGTH]
        if uuid <= last_uuid or _match_uuid(uuid) is None:
            return None
        last_uuid = uuid
        if not _read_changed_item(item, _NOTHING, "", boundaries):
            return None
    return boundaries


def _read_changed_item(
    item: str, near: dict[str, Boundaries], near_item: str, boundaries: dict[str, Boundaries]
) -> bool:
    """Reads what stands under one UUID; returns whether it is canonical.

    Args:
        item: its text, which begins with a UUID.
        near: a set.
        near_item: the canonical text of what that has under this UUID; "" if it has nothing.
        boundaries: where it is entered.
    """
    uuid, body = item[:UUID_LENGTH], item[UUID_LENGTH:]
    if body[:1] != ":":
        return False
    near_texts: dict[str, str] = {}
    if near_item:
        near_pieces = _pieces(near_item[UUID_LENGTH:])
        near_texts[""] = near_pieces[0]
        for k in range(1, len(near_pieces), 2):
            near_texts[near_pieces[k]] = near_pieces[k + 1]
    # Intervals at even indexes, the tags between them at odd ones.
    pieces = _pieces(body)
    if pieces[0]:
        numbers = _read_near(pieces[0][1:], near.get(uuid, ()), near_texts.get("", "")[1:])
        if numbers is None:
            return False
        boundaries[uuid] = numbers
    last_tag = ""
    for k in range(1, len(pieces), 2):
        tag = pieces[k]
        tsid = f"{uuid}:{tag}"
        numbers = _read_near(pieces[k + 1], near.get(tsid, ()), near_texts.get(tag, ""))
        if numbers is None or tag <= last_tag:
            return False
        boundaries[tsid] = numbers
        last_tag = tag
    return True


def _pieces(body: str) -> list[str]:
    return [body] if _only_numbers(body) else _split_at_tags(body)


def _read_near(text: str, near: Boundaries, near_text: str) -> Boundaries | None:
    """Reads ``1-5:7``, with the first and the last intervals of `near` where the texts agree."""
    if not near:
        numbers = _read_intervals(text, 0)
        return None if numbers is None else tuple(numbers)
    if text == near_text:
        return near
    begin = text.rfind(":", 0, _shared_head(text, near_text)) + 1
    head = near[: 2 * text.count(":", 0, begin)]
    alike = _shared_tail(text, near_text, min(len(text), len(near_text)) - begin)
    end = _find_or_end(text, ":", len(text) - alike)
    tail = near[len(near) - 2 * text.count(":", end) :]
    numbers = _read_intervals(text[begin:end], head[-1] if head else 0)
    if numbers is None or (tail and tail[0] <= numbers[-1]):
        return None
    return (*head, *numbers, *tail)


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
