"""Some thousand queries and statements, made from shapes, expressions, tables and styles."""

import random
from collections.abc import Iterator

PURE = """
a | 1 | 'x' | NULL | -a | a + 1 | a * (b - 2) | a DIV 2 | a % b | a || b | NOT a | (a, b) = (1, 2)
a = 1 AND b <> 2 | a IS NOT NULL | a IN (1, 2, 3) | a NOT IN ('x') | a BETWEEN 1 AND 5
a LIKE 'x%' | a LIKE 'x' ESCAPE '!' | a REGEXP '^x' | a <=> b | a & 1 | ~a | a << 2 | a XOR b
CASE WHEN a THEN 1 ELSE 2 END | CASE a WHEN 1 THEN 'x' END | EXISTS(SELECT 1 FROM u)
a = ANY (SELECT b FROM u) | a > ALL (SELECT b FROM u) | (SELECT MAX(b) FROM u) | (SELECT 1)
COUNT(*) | COUNT(DISTINCT a) | SUM(a) | AVG(a + b) | MIN(a) | MAX(b) | STDDEV(a) | VAR_POP(a)
BIT_AND(a) | GROUP_CONCAT(a) | GROUP_CONCAT(DISTINCT a ORDER BY b SEPARATOR ',') | JSON_ARRAYAGG(a)
JSON_OBJECTAGG(a, b) | ROW_NUMBER() OVER (ORDER BY a) | SUM(a) OVER (PARTITION BY b)
RANK() OVER (PARTITION BY a ORDER BY b DESC) | LAG(a, 1) OVER (ORDER BY b) | FIRST_VALUE(a) OVER ()
ABS(a) | CEIL(a) | FLOOR(a) | ROUND(a, 2) | MOD(a, 2) | POW(a, 2) | SQRT(a) | GREATEST(a, b) | LN(a)
CONCAT(a, 'x') | CONCAT_WS(',', a, b) | LOWER(a) | UPPER(a) | TRIM(a) | TRIM(BOTH 'x' FROM a)
SUBSTRING(a, 1, 2) | SUBSTRING(a FROM 1 FOR 2) | LEFT(a, 1) | RIGHT(a, 1) | REPLACE(a, 'x', 'y')
LENGTH(a) | CHAR_LENGTH(a) | LPAD(a, 5, '0') | REVERSE(a) | LOCATE('x', a) | HEX(a) | UNHEX(a)
IF(a, 1, 2) | IFNULL(a, 0) | NULLIF(a, b) | COALESCE(a, b, 1) | ISNULL(a) | FIELD(a, 1, 2)
ELT(1, a) | CAST(a AS SIGNED) | CAST(a AS DECIMAL(10, 2)) | CAST(a AS CHAR(5))
CONVERT(a USING utf8mb4) | CONVERT(a, CHAR(10)) | CAST(a AS DATETIME(6)) | BINARY a
NOW() | NOW(6) | CURRENT_TIMESTAMP | CURDATE() | DATE(a) | YEAR(a) | DATE_FORMAT(a, '%Y')
DATE_ADD(a, INTERVAL 1 DAY) | a + INTERVAL 1 MONTH | EXTRACT(YEAR FROM a) | DATEDIFF(a, b) | DAY(a)
TIMESTAMPDIFF(HOUR, a, b) | UNIX_TIMESTAMP() | FROM_UNIXTIME(a) | STR_TO_DATE(a, '%Y') | LAST_DAY(a)
JSON_EXTRACT(a, '$.x') | a->'$.x' | a->>'$.x' | JSON_OBJECT('x', a) | JSON_ARRAY(a, b)
JSON_CONTAINS(a, '1') | JSON_SET(a, '$.x', 1) | JSON_LENGTH(a) | a MEMBER OF('[1]') | JSON_VALID(a)
MATCH(a) AGAINST('x') | MATCH(a, b) AGAINST('x' IN BOOLEAN MODE) | UUID() | RAND() | CRC32(a)
INET_ATON(a) | BIN_TO_UUID(a) | UUID_TO_BIN(a) | SHA2(a, 256) | ST_Distance(a, b) | ST_X(a)
REGEXP_LIKE(a, 'x') | REGEXP_REPLACE(a, 'x', 'y') | FIND_IN_SET(a, 'x,y') | FORMAT(a, 2)
BIT_COUNT(a) | 'f(1)' | `f(1)` | 'it''s' | 'a\\'b' | "d(q)" | 'for update' | 0x1F | x'41'
b'01' | _utf8mb4'x' | 1e5 | DATABASE() | t.a | `t`.`a` | d.t.a | t.`update` | ANY_VALUE(a)
a COLLATE utf8mb4_bin | ABS (a) | IF (a, 1, 2) | COALESCE (a, 1) | LOWER (a)
"""

IMPURE = """
f(1) | f() | f (a) | my_func(a, b) | d.f(a) | d.abs(a) | `f`(a) | `d`.`f`(a) | ABS(f(a)) | f(f(a))
a + f(b) | IF(f(a), 1, 2) | CASE WHEN f(a) THEN 1 END | a IN (f(1), 2) | (SELECT f(b) FROM u)
EXISTS(SELECT f(1)) | SUM(f(a)) | f(a) IS NULL | NOT f(a) | CONCAT('x', f(a)) | CAST(f(a) AS CHAR)
SUM (a) | COUNT (*) | NOW () | MAX (a) | `sum`(a) | next_id('x') | sys.format_bytes(a)
GET_LOCK('x', 1) | RELEASE_LOCK('x') | IS_FREE_LOCK('x') | RELEASE_ALL_LOCKS() | SLEEP(1)
LAST_INSERT_ID() | LAST_INSERT_ID(5) | CONNECTION_ID() | USER() | CURRENT_USER() | CURRENT_USER
VERSION() | UUID_SHORT() | BENCHMARK(1, 2) | LOAD_FILE('x') | MASTER_POS_WAIT('x', 1)
WAIT_FOR_EXECUTED_GTID_SET('x', 1) | @a | @@sql_mode | @@SESSION.time_zone | @a := 1 | a + @b
FOUND_ROWS() | ROW_COUNT() | @@warning_count | (SELECT a FROM u FOR UPDATE)
(SELECT a FROM u LOCK IN SHARE MODE) | EXISTS(SELECT 1 FROM u FOR SHARE)
"""

SHAPES = """
SELECT {e} FROM {t}
SELECT DISTINCT {e} AS x, b FROM {t} WHERE b
SELECT a, {e} FROM {t} WHERE a = 1 ORDER BY b LIMIT 10
SELECT * FROM {t} WHERE {e}
SELECT * FROM {t} WHERE a = 1 AND ({e} OR b = 2)
SELECT a FROM {t} GROUP BY a HAVING {e}
SELECT a FROM {t} ORDER BY {e} DESC LIMIT 5, 10
SELECT * FROM {t} JOIN u ON t.a = u.a AND {e}
SELECT * FROM {t} LEFT JOIN u USING (a) WHERE {e}
SELECT * FROM (SELECT {e} AS a FROM {t}) AS x
SELECT * FROM (SELECT {e}) x (a), {t}
WITH c AS (SELECT {e} AS a FROM {t}) SELECT * FROM c
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT {e} FROM c, {t}
SELECT a FROM {t} UNION ALL SELECT {e} FROM u
(SELECT {e} FROM {t}) UNION (SELECT 2) LIMIT 1
SELECT a FROM {t} WHERE b IN (SELECT b FROM u WHERE {e})
SELECT COALESCE({e}, 1), IFNULL({e}, 2) FROM {t}
SELECT {e} FROM {t} FOR UPDATE
SELECT {e} FROM {t} LOCK IN SHARE MODE
SELECT {e} INTO @x FROM {t}
EXPLAIN SELECT {e} FROM {t}
INSERT INTO {t} (a) VALUES ({e})
INSERT INTO {t} SELECT {e} FROM u
UPDATE {t} SET a = {e} WHERE b = 1
DELETE FROM {t} WHERE {e}
SET @x = {e}
VALUES ROW({e}, 1)
SELECT {e} FROM {t}; SELECT 1
"""

TABLES = (
    *(
        "t",
        "t",
        "t",
        "d.t",
        "`t`",
        "t USE INDEX (i)",
        "t PARTITION (p0)",
        "t, u",
        "(SELECT 1) z (a)",
    ),
    *("t CROSS JOIN u", "information_schema.TABLES", "performance_schema.threads", "mysql.user"),
)

BLANKS = (" ", " ", " ", "\n", "\t", "  ", " /* x */ ", " /* it's */ ", " -- x\n", ' # "\n')


def _choices(text: str) -> list[str]:
    return [choice.strip() for line in text.strip().splitlines() for choice in line.split(" | ")]


def corpus() -> Iterator[str]:
    """Make the texts: the same ones at each call."""
    chance = random.Random(20260417)
    expressions = _choices(PURE) + _choices(IMPURE)
    for shape in SHAPES.strip().splitlines():
        for expression in expressions:
            text = shape.format(e=expression, t=chance.choice(TABLES))
            yield _styled(text, chance)


def _styled(text: str, chance: random.Random) -> str:
    if chance.random() < 0.5:
        text = text.lower()
    if chance.random() < 0.6:
        blank = chance.choice(BLANKS)
        pieces = text.split("'")
        # Not before a parenthesis: a comment there can turn the text into another function's call.
        pieces[::2] = [_spread(piece, blank) for piece in pieces[::2]]
        text = "'".join(pieces)
    return text + chance.choice(("", "", "", " ", ";", "\n"))


def _spread(piece: str, blank: str) -> str:
    return blank.join(piece.split(" ")).replace(blank + "(", " (")
