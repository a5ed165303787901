"""Texts that hide what they do behind quotes, comments and numbers."""

import random

CALLS = (
    *("f(1)", "f (1)", "`f`(1)", "app.f(1)", "app . f (1)", "app.`f`(1)", "`app`.f(1)", '"f"(1)'),
    *("f\n(1)", "f/**/(1)", "f-- \n(1)", "f#\n(1)", "{x f(1)}", "(f(1))", "-f(1)", "f(1)f"),
    *("1f(1)", "app.1f(1)", "app.1e5(1)", "sum (1)", "sum/**/(1)", "`left`(1)", "app.abs(1)"),
    *("f/*!50000 */(1)", "/*!50000f*/(1)", "/*! f(1) */", "/*!99999 f(1) */", "f/*!99999 (2)*/(1)"),
    *("f 1.5e(1)", "f .5e(1)", "5 1.5e-- f(1)", "1e5.5e-- f(1)", "1.e,f(1)", "1,1.5e-- f(1)"),
    *("if(f(1), 1, 2)", "(select f(1))", "1 in(f(1))", "cast(f(1) as char)", "1,f(1)", "1,-f(1)"),
)
EFFECTS = (
    *("get_lock('k',0)", "get_lock ('k', 0)", "`get_lock`('k',0)", "@z:=1", "@z := f(1)"),
    *("(select a from t where a=1 for update)", "exists(select 1 from t for share)"),
)
LITERALS = (
    *(
        "1",
        "'a'",
        '"a"',
        "'a''b'",
        r"'a\'b'",
        r'"a\"b"',
        r"'\\'",
        r"'\'",
        r'"\"',
        "'it''s /* x */'",
    ),
    *("'-- '", '"\'"', "'\"'", "`a`", "'`'", '"`"', "'#'", "x'41'", "n'a'", "_utf8mb4'a'", "''"),
    *("'/*'", "'*/'", "'/*!50000'", "1.5", "1e5", "1e-5", ".5", "5.", "0x1F", "1,2", "1 , -2"),
    *("1),(2", "'é'", "a", "t.a", "@q", "@@version", "null", "1f", "a$b", "?", "abs (1)", "sum(1)"),
)
BLANKS = (
    *(" ", " ", " ", "\n", "\t", "", "/**/", "/* x */", "/* ' */", '/* " */', "/* ` */", "/*-- */"),
    *("-- x\n", "--\n", "#x\n", "# ' \n", "-- ' \n", '-- " \n', "-- */\n", "/*!50000 */", "/*! */"),
    *("/*!99999 x */", "/*!99999 ' */", "/*!99999 /* ' */ x */", "/*!80004 */", "/*/ x */", "--x"),
    *("/* /* */", "/***/", "/*+ x */", "/*+ ' */", "\x0b", "\r", "\x00", "\xa0", "é"),
)
HEADS = (
    *("select ", "SELECT ", "select", "select/**/", "select all ", "select distinct ", "(select "),
    *(
        "with c as (select 1) select ",
        "with f(a) as (select 1) select ",
        "do ",
        "explain ",
        "set @q=",
    ),
    *(
        "values row(",
        "select /*+ NO_ICP(t) */ ",
        "select /*+ QB_NAME(`'`) */ ",
        "/*!50000 select*/ ",
    ),
    *("-- x\nselect ", "explain analyze select ", "show tables where ", "insert into t select "),
)
TAILS = (
    *(
        "",
        "",
        "",
        " from t",
        " from t where a=1",
        " from t for update",
        " from t lock in share mode",
    ),
    *(" into @z", " limit 1", ";", "; ", "; -- x", "; select 1", " from (select 1) x(a)"),
    *(" from (select 1) as f (a)", " union (select f(1))", " from t use index (primary)"),
    *(" from t where a in (1,2) and b=(select f(1))", "for update", " from t/*!50000 for update*/"),
    *(" from t/*!99999 for update*/", " -- for update", " from t \n for\n update"),
)
SPLINTERS = (
    "'",
    '"',
    "`",
    "\\",
    "/*",
    "*/",
    "-- ",
    "#",
    "\n",
    "(",
    ")",
    ",",
    ";",
    "/*!",
    "@",
    "e",
    ".",
)


def hiding_text(chance: random.Random, literals: tuple[str, ...] = LITERALS) -> str:
    """A text, often one that the server refuses, in a third of the cases with a damage."""
    parts = [chance.choice(HEADS)]
    for index in range(chance.choice((1, 1, 2, 2, 3, 4))):
        if index:
            parts.append(chance.choice((",", ", ", " , ", "+", " or ", "")))
        parts.append(chance.choice(BLANKS) if chance.random() < 0.5 else "")
        kind = chance.random()
        parts.append(chance.choice(CALLS if kind < 0.4 else EFFECTS if kind < 0.5 else literals))
        parts.append(chance.choice(BLANKS) if chance.random() < 0.5 else "")
    if parts[0].startswith(("(", "values")):
        parts.append(")")
    text = "".join((*parts, chance.choice(TAILS)))
    return damaged(text, chance) if chance.random() < 0.3 else text


def damaged(text: str, chance: random.Random) -> str:
    """The text with a splinter in it, without a character, or with a piece in a second place."""
    first = chance.randrange(len(text) + 1)
    second = chance.randrange(len(text) + 1)
    match chance.randrange(3):
        case 0:
            return text[:first] + chance.choice(SPLINTERS) + text[first:]
        case 1:
            return text[:first] + text[first + 1 :]
        case _:
            return text[:second] + text[first : first + 6] + text[second:]
