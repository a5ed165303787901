"""Options of how clients connect."""

from typing import Final

from proxy.config import values
from proxy.config.option import Option
from proxy.config.words import ClientTls

_GROUP: Final = "clients"

OPTIONS: Final = (
    Option(
        "listen",
        values.address("0.0.0.0", 6446, 0),
        "[HOST]:PORT",
        "where clients connect; without HOST: every IPv4 interface (default 127.0.0.1:6446)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "socket",
        values.path,
        "FILE",
        "Unix socket where clients of this machine connect, too",
        _GROUP,
        at_start=True,
    ),
    Option(
        "socket-mode",
        values.file_mode,
        "MODE",
        "permissions of the Unix socket: who may write to it may connect (default 0777)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "client-tls",
        values.choice(values.words(ClientTls)),
        "MODE",
        "TLS between client and proxy (default preferred)",
        _GROUP,
        choices=values.words(ClientTls),
    ),
    Option(
        "client-tls-cert",
        values.path,
        "FILE",
        "PEM certificate chain shown to clients (default: self-signed, new at each start)",
        _GROUP,
    ),
    Option("client-tls-key", values.path, "FILE", "PEM private key of that certificate", _GROUP),
    Option(
        "rsa-key",
        values.path,
        "FILE",
        "PEM RSA private key for passwords sent without TLS (default: new at each start)",
        _GROUP,
    ),
    Option(
        "client-compression",
        values.algorithms,
        "ALGORITHM[,…]",
        "compression that clients may choose (default zlib,zstd,uncompressed)",
        _GROUP,
    ),
    Option(
        "proxy-protocol-networks",
        values.networks,
        "NETWORK[,…]",
        "load balancers whose PROXY headers are believed",
        _GROUP,
    ),
    Option(
        "max-connections",
        values.integer(1, 1_000_000),
        "N",
        "most clients, of all workers; further ones get error 1040 (default 10000)",
        _GROUP,
    ),
    Option(
        "admins",
        values.users,
        "NAME[,…]",
        "accounts that administer the proxy: no limit of clients locks them out",
        _GROUP,
    ),
    Option(
        "max-user-connections",
        values.integer(0, 1_000_000),
        "N",
        "most clients of one user; further ones get error 1203 (default 0: no limit)",
        _GROUP,
    ),
    Option(
        "max-client-connections",
        values.integer(0, 1_000_000),
        "N",
        "most clients from one address; further ones get error 1040 (default 0: no limit)",
        _GROUP,
    ),
    Option(
        "max-login-rate",
        values.number(0, 1_000_000),
        "N",
        "most connections per second from one address; further ones get error 1040 (default 0: no"
        " limit)",
        _GROUP,
    ),
    Option(
        "client-idle-timeout",
        values.duration_or_0(31_536_000),
        "TIME",
        "time after which a client that sends nothing is ended with error 4031 (default 0: never)",
        _GROUP,
    ),
    Option(
        "admin-listen",
        values.address("0.0.0.0", None, 0),
        "[HOST]:PORT",
        "where only admins log in, and only Tidegate's own statements are served",
        _GROUP,
        at_start=True,
    ),
    Option(
        "handshake-timeout",
        values.duration(600),
        "TIME",
        "time a client has to log in (default 10s)",
        _GROUP,
    ),
    Option(
        "max-allowed-packet",
        values.size(1024, 1 << 30),
        "SIZE",
        "largest packet taken from a client or a server, such as 64M (default 64M)",
        _GROUP,
    ),
    Option(
        "max-prepared-statements",
        values.integer(1, 1 << 20),
        "N",
        "most prepared statements of one client at a time (default 4096)",
        _GROUP,
    ),
    Option(
        "max-session-memory",
        values.size_or_0(1 << 20, 1 << 40),
        "SIZE",
        "most memory that one client's session may take for what it keeps; it is ended with error"
        " 4082 (default 64M; 0: no limit)",
        _GROUP,
    ),
)
