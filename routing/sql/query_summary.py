"""What a statement does to what, in a few words: `SELECT orders customers`.

The form is that of OpenTelemetry's `db.query.summary`
(https://opentelemetry.io/docs/specs/semconv/database/database-spans/#generating-a-summary-of-the-query):
operations and their targets in the order in which they stand, without literals, in at most 255
characters, and cut between words.
"""

import re
from typing import Final

LONGEST: Final = 255
"""Characters of a summary."""

_QUERIES: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "CALL", "TABLE"})
_BEFORE_TARGETS: Final = frozenset({"FROM", "INTO", "JOIN", "STRAIGHT_JOIN", "UPDATE", "CALL"})
_BETWEEN: Final = frozenset({"LOW_PRIORITY", "IGNORE", "LATERAL", "ONLY"})
"""Words that may stand between such a word and the name."""
_NO_VERB_BEHIND: Final = frozenset({"FOR", "ON", "KEY"})
"""FOR UPDATE, ON DELETE, ON DUPLICATE KEY UPDATE."""
_DEFINES: Final = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME"})
_DEFINED: Final = frozenset(
    {
        *("DATABASE", "SCHEMA", "TABLE", "VIEW", "INDEX", "TRIGGER", "EVENT", "PROCEDURE"),
        *("FUNCTION", "USER", "ROLE", "SERVER", "TABLESPACE", "INSTANCE"),
    }
)
_NAMED: Final = frozenset({"DATABASE", "SCHEMA", "TABLE", "VIEW"})
"""Of these the name follows, behind IF EXISTS or IF NOT EXISTS."""
_NO_ALIAS: Final = frozenset(
    {
        *("SET", "WHERE", "ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "CROSS", "NATURAL"),
        *("STRAIGHT_JOIN", "ORDER", "GROUP", "HAVING", "LIMIT", "UNION", "VALUES", "VALUE"),
        *("SELECT", "PARTITION", "USE", "FORCE", "IGNORE", "FOR", "WINDOW", "EXCEPT", "INTERSECT"),
    }
)
_WORD: Final = re.compile("[A-Z]+")
_NAME: Final = re.compile(r"[\w$\x80-\U0010ffff]+|`[^`]+`")


def query_summary(text: str) -> str:
    """The summary of a text as `routing.sql.digest_text` makes it: one blank between tokens."""
    tokens = text.split()
    words = [token.upper() for token in tokens]
    if not words or (words[0] != "(" and _WORD.fullmatch(words[0]) is None):
        return ""
    found = _of_definition(tokens, words) if words[0] in _DEFINES else _of_query(tokens, words)
    length = 0
    for count, part in enumerate(found):
        length += len(part) + bool(count)
        if length > LONGEST:
            return " ".join(found[:count])
    return " ".join(found)


def _of_definition(tokens: list[str], words: list[str]) -> list[str]:
    for index, word in enumerate(words[1:8], 1):
        if word in _DEFINED:
            at = index + 1
            while words[at : at + 1] and words[at] in ("IF", "NOT", "EXISTS"):
                at += 1
            name, _ = _name_at(tokens, at)
            return [words[0], word, *([name] if name and word in _NAMED else [])]
    return words[:1]


def _of_query(tokens: list[str], words: list[str]) -> list[str]:
    found = [] if words[0] in (*_QUERIES, "WITH", "(") else [words[0]]
    queries = [False]  # for each parenthesis that is open, whether a query begins in it
    index = 0
    while index < len(words):
        word, before = words[index], words[index - 1] if index else ""
        index += 1
        behind = words[index] if index < len(words) else ""
        if word == "(":
            queries.append(False)
        elif word == ")":
            queries = queries[:-1] or [False]
        elif (
            word in _QUERIES
            and before not in (*_NO_VERB_BEHIND, ".")
            and not behind.startswith("(")
        ):
            if not queries[-1] or word == "SELECT":
                found.append(word)
                queries[-1] = True
        elif word not in _BEFORE_TARGETS or before in _NO_VERB_BEHIND:
            continue
        if word in (*_BEFORE_TARGETS, "TABLE") and queries[-1]:
            index = _targets(tokens, words, index, found)
    return found


def _targets(tokens: list[str], words: list[str], index: int, found: list[str]) -> int:
    """Add the names in a list of tables; the position behind it."""
    while True:
        while index < len(words) and words[index] in _BETWEEN:
            index += 1
        if index < len(words) and words[index] in ("OUTFILE", "DUMPFILE", *_QUERIES):
            return index
        name, index = _name_at(tokens, index)
        if not name:
            return index
        found.append(name)
        if index < len(words) and words[index] == "AS":
            index += 2
        elif index < len(words) and _NAME.fullmatch(tokens[index]) and not _ends(words[index]):
            index += 1
        if index >= len(words) or words[index] != ",":
            return index
        index += 1


def _ends(word: str) -> bool:
    return word in _NO_ALIAS


def _name_at(tokens: list[str], index: int) -> tuple[str, int]:
    """The name that begins there, with its schema, and the position behind it; empty if none."""
    if index >= len(tokens) or _NAME.fullmatch(tokens[index]) is None:
        return "", index
    name = tokens[index]
    index += 1
    while index + 1 < len(tokens) and tokens[index] == "." and _NAME.fullmatch(tokens[index + 1]):
        name += f".{tokens[index + 1]}"
        index += 2
    return name, index
