"""Errors in received bytes, and the server error codes that Tidegate sends or acts on.

Codes, SQLSTATEs and symbols are those of the MySQL Server Error Message Reference.
"""

from enum import Enum


class ServerErrorCode(Enum):
    """An error of the MySQL server: ``(code, sqlstate)``."""

    ER_CON_COUNT_ERROR = (1040, "08004")
    ER_HANDSHAKE_ERROR = (1043, "08S01")
    ER_DBACCESS_DENIED_ERROR = (1044, "42000")
    ER_ACCESS_DENIED_ERROR = (1045, "28000")
    ER_NO_DB_ERROR = (1046, "3D000")
    ER_UNKNOWN_COM_ERROR = (1047, "08S01")
    ER_BAD_DB_ERROR = (1049, "42000")
    ER_NON_UNIQ_ERROR = (1052, "23000")
    ER_SERVER_SHUTDOWN = (1053, "08S01")
    ER_BAD_FIELD_ERROR = (1054, "42S22")
    ER_PARSE_ERROR = (1064, "42000")
    ER_NO_SUCH_THREAD = (1094, "HY000")
    ER_EMPTY_QUERY = (1065, "42000")
    ER_UNKNOWN_ERROR = (1105, "HY000")
    ER_TABLEACCESS_DENIED_ERROR = (1142, "42000")
    ER_COLUMNACCESS_DENIED_ERROR = (1143, "42000")
    ER_NO_SUCH_TABLE = (1146, "42S02")
    ER_NET_PACKET_TOO_LARGE = (1153, "08S01")
    ER_NET_PACKETS_OUT_OF_ORDER = (1156, "08S01")
    ER_NET_UNCOMPRESS_ERROR = (1157, "08S01")
    ER_NET_READ_ERROR = (1158, "08S01")
    ER_NET_READ_INTERRUPTED = (1159, "08S01")
    ER_NEW_ABORTING_CONNECTION = (1184, "08S01")
    ER_UNKNOWN_SYSTEM_VARIABLE = (1193, "HY000")
    ER_TOO_MANY_USER_CONNECTIONS = (1203, "42000")
    ER_LOCK_WAIT_TIMEOUT = (1205, "HY000")
    ER_LOCK_DEADLOCK = (1213, "40001")
    ER_USER_LIMIT_REACHED = (1226, "42000")
    ER_SPECIFIC_ACCESS_DENIED_ERROR = (1227, "42000")
    ER_WRONG_VALUE_FOR_VAR = (1231, "42000")
    ER_NOT_SUPPORTED_YET = (1235, "42000")
    ER_INCORRECT_GLOBAL_LOCAL_VAR = (1238, "HY000")
    ER_UNKNOWN_STMT_HANDLER = (1243, "HY000")
    ER_NOT_SUPPORTED_AUTH_MODE = (1251, "08004")
    ER_OPTION_PREVENTS_STATEMENT = (1290, "HY000")
    ER_UNSUPPORTED_PS = (1295, "HY000")
    ER_QUERY_INTERRUPTED = (1317, "70100")
    ER_VIEW_INVALID = (1356, "HY000")
    ER_PROCACCESS_DENIED_ERROR = (1370, "42000")
    ER_TABLE_DEF_CHANGED = (1412, "HY000")
    ER_STMT_HAS_NO_OPEN_CURSOR = (1421, "HY000")
    ER_NO_SUCH_USER = (1449, "HY000")
    ER_MAX_PREPARED_STMT_COUNT_REACHED = (1461, "42000")
    ER_PLUGIN_IS_NOT_LOADED = (1524, "HY000")
    ER_CANT_CHANGE_TX_CHARACTERISTICS = (1568, "25001")
    ER_NEED_REPREPARE = (1615, "HY000")
    ER_VARIABLE_IS_READONLY = (1621, "HY000")
    ER_ACCESS_DENIED_NO_PASSWORD_ERROR = (1698, "28000")
    ER_MALFORMED_GTID_SET_SPECIFICATION = (1772, "HY000")
    ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION = (1792, "25006")
    ER_MUST_CHANGE_PASSWORD = (1820, "HY000")
    ER_MALFORMED_PACKET = (1835, "HY000")
    ER_READ_ONLY_MODE = (1836, "HY000")
    ER_MUST_CHANGE_PASSWORD_LOGIN = (1862, "HY000")
    ER_QUERY_TIMEOUT = (3024, "HY000")
    ER_SERVER_OFFLINE_MODE = (3032, "HY000")
    ER_ACCOUNT_HAS_BEEN_LOCKED = (3118, "HY000")
    ER_SECURE_TRANSPORT_REQUIRED = (3159, "HY000")
    ER_WRONG_COMPRESSION_ALGORITHM_CLIENT = (3922, "HY000")
    ER_WRONG_COMPRESSION_LEVEL_CLIENT = (3923, "HY000")
    ER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK = (3955, "HY000")
    """ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK in full."""
    ER_CLIENT_INTERACTION_TIMEOUT = (4031, "HY000")
    ER_DA_CONN_LIMIT = (4082, "HY000")
    CR_CONN_HOST_ERROR = (2003, "HY000")
    CR_SERVER_LOST = (2013, "HY000")

    @property
    def code(self) -> int:
        """The number that ERR packets carry."""
        return self.value[0]

    @property
    def sqlstate(self) -> str:
        """Five characters."""
        return self.value[1]


class ProtocolError(Exception):
    """The peer whose bytes were being read broke the protocol; the connection must be closed.

    Attributes:
        error: the code with which a server reports this fault.
    """

    error: ServerErrorCode = ServerErrorCode.ER_MALFORMED_PACKET


class MalformedPacketError(ProtocolError):
    """A packet contradicts itself: a length goes beyond its end, or a terminator is missing."""


class PacketOutOfOrderError(ProtocolError):
    """A sequence id is not the expected one (fact 7.1: the server answers 1156)."""

    error = ServerErrorCode.ER_NET_PACKETS_OUT_OF_ORDER


class PacketTooLargeError(ProtocolError):
    """A packet is longer than the reader allows (fact 7.7: the server answers 1153)."""

    error = ServerErrorCode.ER_NET_PACKET_TOO_LARGE


class UncompressError(ProtocolError):
    """A compressed packet's body does not match its header."""

    error = ServerErrorCode.ER_NET_UNCOMPRESS_ERROR


class MalformedGtidSetError(ProtocolError, ValueError):
    """Text or bytes that are not a GTID set, or that a server would take for an empty set."""

    error = ServerErrorCode.ER_MALFORMED_GTID_SET_SPECIFICATION


class MalformedBinlogError(ProtocolError):
    """A binary log is damaged, encrypted, or of a kind that cannot be read.

    Attributes:
        position: offset in the file, in bytes, of the event at fault.
    """

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"at {position}: {fault}")
        self.position = position


class AuthenticationUnsupportedError(ProtocolError):
    """The peer asks for a way to authenticate that is unknown, or unsafe on this connection."""

    error = ServerErrorCode.ER_NOT_SUPPORTED_AUTH_MODE


class AuthenticationFailedError(ProtocolError):
    """What a client sent cannot be read as a password (a server answers 1045)."""

    error = ServerErrorCode.ER_ACCESS_DENIED_ERROR
