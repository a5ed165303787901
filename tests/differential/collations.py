"""Ids of collations that a client can name in the commands that log in."""

COLLATIONS: tuple[int, ...] = (
    *range(1, 17),
    *range(18, 100),
    *range(101, 125),
    *range(128, 152),
    *range(159, 184),
    *range(192, 216),
    *range(223, 251),
    *range(255, 272),
    *(273, 274, 275, 277),
    *range(278, 295),
    *(296, 297, 298, 300),
    *range(303, 324),
)
"""All that MySQL 9.7.4 has (`information_schema.COLLATIONS`)."""

WIDE = tuple(collation for collation in COLLATIONS if collation > 0xFF)
"""Those that COM_CHANGE_USER can name, and the byte of a login can not."""

UNKNOWN = (0, 17, 100, 125, 254, 272, 299, 324, 400, 999, 2047, 2048, 0xFFFF)
"""Those that no server has."""
