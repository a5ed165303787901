"""Numbers of the protocol, under the names of the server's headers (mysql_com.h, my_command.h)."""

from enum import IntEnum, IntFlag
from typing import Final

MAX_PACKET_PAYLOAD: Final = 0xFFFFFF
"""A frame of this length is followed by another frame of the same packet (fact 7.7)."""


class Command(IntEnum):
    """First payload byte of a client's packet in the command phase."""

    COM_SLEEP = 0x00
    COM_QUIT = 0x01
    COM_INIT_DB = 0x02
    COM_QUERY = 0x03
    COM_FIELD_LIST = 0x04
    COM_CREATE_DB = 0x05
    COM_DROP_DB = 0x06
    COM_REFRESH = 0x07
    COM_SHUTDOWN = 0x08
    COM_STATISTICS = 0x09
    COM_PROCESS_INFO = 0x0A
    COM_CONNECT = 0x0B
    COM_PROCESS_KILL = 0x0C
    COM_DEBUG = 0x0D
    COM_PING = 0x0E
    COM_TIME = 0x0F
    COM_DELAYED_INSERT = 0x10
    COM_CHANGE_USER = 0x11
    COM_BINLOG_DUMP = 0x12
    COM_TABLE_DUMP = 0x13
    COM_CONNECT_OUT = 0x14
    COM_REGISTER_SLAVE = 0x15
    COM_STMT_PREPARE = 0x16
    COM_STMT_EXECUTE = 0x17
    COM_STMT_SEND_LONG_DATA = 0x18
    COM_STMT_CLOSE = 0x19
    COM_STMT_RESET = 0x1A
    COM_SET_OPTION = 0x1B
    COM_STMT_FETCH = 0x1C
    COM_DAEMON = 0x1D
    COM_BINLOG_DUMP_GTID = 0x1E
    COM_RESET_CONNECTION = 0x1F
    COM_CLONE = 0x20


class Capability(IntFlag):
    """Capability flags of the handshake (fact 6.2)."""

    CLIENT_LONG_PASSWORD = 1 << 0
    CLIENT_FOUND_ROWS = 1 << 1
    CLIENT_LONG_FLAG = 1 << 2
    CLIENT_CONNECT_WITH_DB = 1 << 3
    CLIENT_NO_SCHEMA = 1 << 4
    CLIENT_COMPRESS = 1 << 5
    CLIENT_ODBC = 1 << 6
    CLIENT_LOCAL_FILES = 1 << 7
    CLIENT_IGNORE_SPACE = 1 << 8
    CLIENT_PROTOCOL_41 = 1 << 9
    CLIENT_INTERACTIVE = 1 << 10
    CLIENT_SSL = 1 << 11
    CLIENT_IGNORE_SIGPIPE = 1 << 12
    CLIENT_TRANSACTIONS = 1 << 13
    CLIENT_RESERVED = 1 << 14
    CLIENT_SECURE_CONNECTION = 1 << 15
    CLIENT_MULTI_STATEMENTS = 1 << 16
    CLIENT_MULTI_RESULTS = 1 << 17
    CLIENT_PS_MULTI_RESULTS = 1 << 18
    CLIENT_PLUGIN_AUTH = 1 << 19
    CLIENT_CONNECT_ATTRS = 1 << 20
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21
    CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22
    CLIENT_SESSION_TRACK = 1 << 23
    CLIENT_DEPRECATE_EOF = 1 << 24
    CLIENT_OPTIONAL_RESULTSET_METADATA = 1 << 25
    CLIENT_ZSTD_COMPRESSION_ALGORITHM = 1 << 26
    CLIENT_QUERY_ATTRIBUTES = 1 << 27
    MULTI_FACTOR_AUTHENTICATION = 1 << 28
    CLIENT_CAPABILITY_EXTENSION = 1 << 29
    CLIENT_SSL_VERIFY_SERVER_CERT = 1 << 30
    CLIENT_REMEMBER_OPTIONS = 1 << 31


IN_TRANS: Final = 0x0001
IN_TRANS_READONLY: Final = 0x2000
AUTOCOMMIT: Final = 0x0002
MORE_RESULTS: Final = 0x0008
CURSOR_EXISTS: Final = 0x0040
LAST_ROW_SENT: Final = 0x0080
OUT_PARAMETERS: Final = 0x1000
NO_BACKSLASH_ESCAPES: Final = 0x0200
SESSION_STATE_CHANGED: Final = 0x4000
"""Status flags that are tested for every answer: plain numbers, which mypyc folds into the code."""


TEXT_ZERO: Final = b"\x010"
TEXT_ONE: Final = b"\x011"
"""The values 0 and 1 in a row of the text protocol: a length of one byte, and a digit."""


class ServerStatus(IntFlag):
    """Status flags of OK and EOF packets (fact 1.3)."""

    SERVER_STATUS_IN_TRANS = IN_TRANS
    SERVER_STATUS_AUTOCOMMIT = AUTOCOMMIT
    SERVER_MORE_RESULTS_EXISTS = MORE_RESULTS
    SERVER_QUERY_NO_GOOD_INDEX_USED = 0x0010
    SERVER_QUERY_NO_INDEX_USED = 0x0020
    SERVER_STATUS_CURSOR_EXISTS = CURSOR_EXISTS
    SERVER_STATUS_LAST_ROW_SENT = LAST_ROW_SENT
    SERVER_STATUS_DB_DROPPED = 0x0100
    SERVER_STATUS_NO_BACKSLASH_ESCAPES = NO_BACKSLASH_ESCAPES
    SERVER_STATUS_METADATA_CHANGED = 0x0400
    SERVER_QUERY_WAS_SLOW = 0x0800
    SERVER_PS_OUT_PARAMS = OUT_PARAMETERS
    SERVER_STATUS_IN_TRANS_READONLY = IN_TRANS_READONLY
    SERVER_SESSION_STATE_CHANGED = SESSION_STATE_CHANGED


class SessionTrackType(IntEnum):
    """Entry types of ``session_state_info`` (fact 1.4)."""

    SESSION_TRACK_SYSTEM_VARIABLES = 0
    SESSION_TRACK_SCHEMA = 1
    SESSION_TRACK_STATE_CHANGE = 2
    SESSION_TRACK_GTIDS = 3
    SESSION_TRACK_TRANSACTION_CHARACTERISTICS = 4
    SESSION_TRACK_TRANSACTION_STATE = 5


class FieldType(IntEnum):
    """Column and parameter types (field_types.h)."""

    MYSQL_TYPE_DECIMAL = 0
    MYSQL_TYPE_TINY = 1
    MYSQL_TYPE_SHORT = 2
    MYSQL_TYPE_LONG = 3
    MYSQL_TYPE_FLOAT = 4
    MYSQL_TYPE_DOUBLE = 5
    MYSQL_TYPE_NULL = 6
    MYSQL_TYPE_TIMESTAMP = 7
    MYSQL_TYPE_LONGLONG = 8
    MYSQL_TYPE_INT24 = 9
    MYSQL_TYPE_DATE = 10
    MYSQL_TYPE_TIME = 11
    MYSQL_TYPE_DATETIME = 12
    MYSQL_TYPE_YEAR = 13
    MYSQL_TYPE_VARCHAR = 15
    MYSQL_TYPE_BIT = 16
    MYSQL_TYPE_VECTOR = 242
    MYSQL_TYPE_JSON = 245
    MYSQL_TYPE_NEWDECIMAL = 246
    MYSQL_TYPE_ENUM = 247
    MYSQL_TYPE_SET = 248
    MYSQL_TYPE_TINY_BLOB = 249
    MYSQL_TYPE_MEDIUM_BLOB = 250
    MYSQL_TYPE_LONG_BLOB = 251
    MYSQL_TYPE_BLOB = 252
    MYSQL_TYPE_VAR_STRING = 253
    MYSQL_TYPE_STRING = 254
    MYSQL_TYPE_GEOMETRY = 255


CHARSET_UTF8MB4_0900_AI_CI: Final = 255
CHARSET_BINARY: Final = 63

CACHING_SHA2: Final = "caching_sha2_password"
SHA256: Final = "sha256_password"
NATIVE: Final = "mysql_native_password"
CLEAR: Final = "mysql_clear_password"
"""Names of authentication plugins (facts 6.4, 6.6)."""

REQUEST_PUBLIC_KEY: Final = {CACHING_SHA2: b"\x02", SHA256: b"\x01"}
"""What a client sends to ask for the server's RSA key, by plugin."""
FAST_AUTH_SUCCESS: Final = b"\x03"
PERFORM_FULL_AUTHENTICATION: Final = b"\x04"
"""How a server answers a scramble of caching_sha2_password (fact 6.4)."""
