"""Tables of counters that only grow, by many names, and how they are read.

Each table has a row for every client (`id`), which only that client writes, each time with a larger
value (`v`). A column says which table it is (`ident`), whatever it is called and through which view
it is read. So an answer shows by itself whether it lacks a write. What is made anew again and again
adds `GENERATION` to that each time.
"""

import random
from dataclasses import dataclass
from typing import Final

ROWS: Final = 400
GENERATION: Final = 1000
MADE_ANEW: Final = 22
"""The table `d`, of which each generation has data of its own."""

PLAIN: Final = {
    "c0": 1,
    "c1": 2,
    "c2": 3,
    "c3": 4,
    "k": 5,
    "K": 6,
    "part": 7,
    "gen": 8,
    "other.c0": 9,
    "other.c1": 10,
    "2b": 24,
}
"""Tables that keep their names, and can be written in any way."""
DEPENDENT: Final = {"tg": 11, "tlog": 12, "par": 13, "chi": 14}
"""Likewise, but a write to the first of each pair changes the second, too."""
CHANGING: Final = {"dtg": 15, "dtlog": 16, "dpar": 17, "dchi": 18}
"""Likewise, but only now and then."""
MOVING: Final = {"sw_a": 19, "sw_b": 20, "tr": 21, "d": MADE_ANEW, "tv": 23}
"""Tables whose names mean others later, or that lose their rows."""
TABLES: Final = PLAIN | DEPENDENT | CHANGING | MOVING
VIEWS: Final = {
    "v0": "SELECT id, ident, v FROM c0",
    "vj": "SELECT c0.id, c1.ident, c1.v FROM c0 JOIN c1 USING (id)",
    "vu": "SELECT id, ident, v FROM c0 UNION ALL SELECT id, ident, v FROM other.c0",
    "vs": "SELECT id, 3 AS ident, (SELECT x.v FROM c2 AS x WHERE x.id = c0.id) AS v FROM c0",
    "vc": "WITH w AS (SELECT * FROM c1) SELECT id, ident, v FROM w",
    "vg": "SELECT id, ident, g AS v FROM gen",
    "vd": "SELECT id, ident, MAX(v) AS v FROM (SELECT * FROM v0) AS c3 GROUP BY id, ident",
    "vf": "SELECT id, 3 AS ident, value_in_c2(id) AS v FROM c0",
    "vr": "SELECT id, ident + 1000 AS ident, v FROM c2",
    "vvr": "SELECT id, ident, v FROM vr",
    "vtv": "SELECT id, ident, v FROM tv",
    "other.vo": "SELECT id, ident, v FROM app.c1",
}
UNSTEADY: Final = frozenset({*MOVING, "vr", "vvr", "vtv"})
"""What may not be there for a moment."""
WHERE_VIEWS_LEAD: Final = ("c0", "c1", "c2", "c3", "k", "K", "part", "other.c0", "other.c1", "2b")
"""Between these the view `vr` is redefined."""


def schema() -> list[str]:
    """The statements that make everything, behind `CREATE DATABASE app`."""
    columns = "(id INT PRIMARY KEY, ident INT, v BIGINT{})"
    further = {
        "gen": ", g BIGINT AS (v) STORED, h BIGINT AS (v + 1) VIRTUAL, KEY (h)",
        "par": ", UNIQUE (v)",
        "dpar": ", UNIQUE (v)",
        "chi": ", FOREIGN KEY (v) REFERENCES par (v) ON UPDATE CASCADE ON DELETE CASCADE",
        "dchi": ", CONSTRAINT dfk FOREIGN KEY (v) REFERENCES dpar (v) ON UPDATE CASCADE",
    }
    made = ["CREATE DATABASE other", "SET cte_max_recursion_depth = 10000"]
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"  # noqa: S608 - of the test
    for name, ident in TABLES.items():
        quoted = quoted_name(name)
        partitions = " PARTITION BY HASH (id) PARTITIONS 4" if name == "part" else ""
        made.append(f"CREATE TABLE {quoted} {columns.format(further.get(name, ''))}{partitions}")
        made.append(
            f"INSERT INTO {quoted} (id, ident, v) {numbers} SELECT i, {ident}, -i - 1 FROM n"  # noqa: S608 - of the test
        )
    made += [
        "CREATE TABLE wide (id INT PRIMARY KEY AUTO_INCREMENT, text TEXT)",
        "CREATE FUNCTION value_in_c2(of_id INT) RETURNS BIGINT READS SQL DATA"
        " RETURN (SELECT v FROM c2 WHERE id = of_id)",
        "CREATE TRIGGER logs AFTER UPDATE ON tg FOR EACH ROW"
        " UPDATE tlog SET v = NEW.v WHERE id = NEW.id",
    ]
    return made + [f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()]


def quoted_name(name: str) -> str:
    """A name in backquotes, each of its parts."""
    return ".".join(f"`{part}`" for part in name.split("."))


def spelled(chance: random.Random, name: str, *, ansi: bool) -> str:
    """A name as somebody may write it."""
    quote = chance.choice('`"') if ansi else "`"
    parts = name.split(".")
    if len(parts) == 1 and chance.random() < 0.4:
        parts.insert(0, "app")
    spelt = [
        f"{quote}{part}{quote}" if chance.random() < 0.5 or part[0].isdigit() else part
        for part in parts
    ]
    return chance.choice([".", ".", ".", " . ", "./**/", "/* c3 */."]).join(spelt)


FORMS: Final = (
    "SELECT ident, v FROM {0} WHERE id = {2}",
    "SELECT ident, v FROM {0} WHERE id = {2}",
    "select `ident`, v from {0} where ID = {2}",
    "SELECT a.ident, a.v, b.ident, b.v FROM {0} AS a JOIN {1} AS b ON a.id = b.id WHERE a.id = {2}",
    "SELECT a.ident, a.v, c0.ident, c0.v FROM {0} a, {1} c0 WHERE a.id = {2} AND c0.id = {2}",
    "SELECT a.ident, a.v, b.ident, b.v FROM ({0} AS a, {1} AS b) WHERE a.id = {2} AND b.id = {2}",
    "SELECT a.ident, a.v, b.ident, b.v FROM {0} a LEFT JOIN {1} b USING (id) WHERE a.id = {2}",
    "SELECT a.ident, a.v, b.ident, b.v FROM {0} a STRAIGHT_JOIN ({1} b) USING (id) WHERE a.id={2}",
    "WITH w AS (SELECT * FROM {0}), c0 AS (SELECT ident, v FROM w WHERE id={2}) SELECT * FROM c0",
    "WITH w AS (TABLE {0}) SELECT ident, v FROM w WHERE id = {2}",
    "WITH c1 (a, b, c) AS (SELECT id, ident, v FROM {0}) SELECT b, c FROM c1 WHERE a = {2}",
    "WITH RECURSIVE r (n) AS (SELECT {2} UNION SELECT id FROM {1}, r WHERE id = n + 1 AND n < 0)"
    " SELECT ident, v FROM {0}, r WHERE id = n",
    "SELECT ident, v FROM {0} WHERE id = {2} UNION ALL SELECT ident, v FROM {1} WHERE id = {2}",
    "(SELECT ident, v FROM {0} WHERE id = {2}) UNION (SELECT ident, v FROM {1} WHERE id = {2})",
    "SELECT ident, v FROM (SELECT * FROM {0} WHERE id = {2}) AS c1",
    "SELECT ident, MAX(v) FROM {0} WHERE id = {2} GROUP BY ident",
    "SELECT b.ident, b.v FROM {0} AS a, LATERAL (SELECT * FROM {1} x WHERE x.id = a.id) AS b"
    " WHERE a.id = {2}",
    "SELECT ident, v FROM {0} WHERE id IN (SELECT id FROM {1} WHERE id = {2})",
    "SELECT ident, v FROM {0} s WHERE id = {2} AND EXISTS (SELECT 1 FROM {1} t WHERE t.id = s.id)",
    "SELECT ident, GREATEST(v, COALESCE(v, ABS(0))) FROM {0} WHERE id = {2} AND NOW() > 0",
    "SELECT ident, v /*! , ident, v */ FROM {0} WHERE id = {2} # {1}",
    "SELECT ident, v FROM {0} WHERE id = {2} HAVING v IS NOT NULL ORDER BY v LIMIT 5",
    "SELECT ident, SUM(v) OVER (ORDER BY id ROWS 0 PRECEDING) FROM {0} WHERE id = {2}",
    "SELECT ident, v FROM {0} WHERE id = {2} EXCEPT SELECT 0, 0 FROM {1} WHERE id = {2}",
)
"""Queries on two names and a row; they find pairs of `ident` and `v`."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and from which names it reads.

    Attributes:
        text: with a `?` in place of the row if it is to be prepared.
        names: of tables and views.
    """

    text: str
    names: tuple[str, ...]

    @property
    def unsteady(self) -> bool:
        """Whether it may fail, or find fewer rows, because of what happens to its names."""
        return not UNSTEADY.isdisjoint(self.names)


def any_query(
    chance: random.Random, row: str, name: str | None = None, *, ansi: bool = False
) -> Query:
    """Some query for a row, perhaps of a given table or view."""
    names = chance.choices([*TABLES, *VIEWS], k=2)
    if name is not None:
        names[0] = name
    form = chance.choice(FORMS)
    spelt = [spelled(chance, name, ansi=ansi) for name in names]
    text = form.format(*spelt, row)
    return Query(text, tuple(names if "{1}" in form else names[:1]))


def data_of(ident: int) -> int:
    """The same number for all that reads the same data."""
    return ident if ident % GENERATION == MADE_ANEW else ident % GENERATION
