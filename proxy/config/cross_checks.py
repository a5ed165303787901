"""Checks of options against each other."""

import os
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from typing import Final, NamedTuple

from proxy.address import Address
from proxy.config import toml_text
from proxy.config.config import Config
from proxy.unix_socket import LONGEST

Problem = tuple[str, str]
"""The name of an option, and what is wrong with it."""


class _Check(NamedTuple):
    """A check, and the options that it looks at."""

    options: frozenset[str]
    find: Callable[[Config], Iterator[Problem]]


def check(config: Config, unread: Collection[str]) -> Iterator[Problem]:
    """Yield what does not go together.

    Args:
        config: the configuration.
        unread: options whose values are wrong already: what they were to say is not known.
    """
    for each in _CHECKS:
        if each.options.isdisjoint(unread):
            yield from each.find(config)


def groups_with_problems(config: Config) -> Iterator[frozenset[str]]:
    """Yield the options of each check that finds something."""
    for each in _CHECKS:
        if next(each.find(config), None) is not None:
            yield each.options


def _check_monitor(config: Config) -> Iterator[Problem]:
    if config.monitor_user is None and config.monitor_password_file is not None:
        yield "monitor-password-file", "has no use without monitor-user"


def _check_traces(config: Config) -> Iterator[Problem]:
    if not config.traces:
        return
    try:
        missing = find_spec("opentelemetry.exporter.otlp.proto.http.trace_exporter") is None
    except ModuleNotFoundError:
        missing = True
    if missing:
        name = "trace-sample" if config.trace_endpoint is None else "trace-endpoint"
        yield name, "needs OpenTelemetry: pip install 'tidegate[traces]'"


def _check_admin_listen(config: Config) -> Iterator[Problem]:
    if config.admin_listen is not None:
        if not config.admins:
            yield "admin-listen", "needs admins, who alone may log in there"
        if config.admin_listen.port and config.admin_listen in config.addresses:
            yield "admin-listen", f"{config.admin_listen} is an address for clients, too"


def _check_servers(config: Config) -> Iterator[Problem]:
    seen: set[Address] = set()
    for replica in config.replicas:
        if replica == config.primary:
            yield "replicas", f"{replica} is the primary; name it once, as primary"
        elif replica in seen:
            yield "replicas", f"{replica} is named twice"
        seen.add(replica)


def _check_places(config: Config) -> Iterator[Problem]:
    if config.topology != "static":
        return  # others may be found
    for address in config.servers:
        if address not in (config.primary, *config.replicas):
            header = toml_text.header("servers", str(address))
            yield "servers", f"{header}: {address} is neither the primary nor a replica"


def _check_topology(config: Config) -> Iterator[Problem]:
    if config.topology != "static" and config.monitor_user is None:
        yield "topology", f"{config.topology} needs monitor-user, which asks the servers"


def _check_addresses(config: Config) -> Iterator[Problem]:
    for address in config.addresses:
        name = "listen" if address == config.listen else "listeners"
        where = "" if name == "listen" else f"{toml_text.header(name, str(address))}: "
        if address in (config.primary, *config.replicas):
            yield name, f"{where}{address} is one of the servers; the proxy needs its own port"
        if address == config.metrics and address.port:
            kind = "the listen address" if name == "listen" else "a listener's address"
            yield "metrics", f"{address} is {kind}; metrics need another port"


def _check_socket(config: Config) -> Iterator[Problem]:
    if config.socket is not None and len(os.fsencode(config.socket.absolute())) > LONGEST:
        yield "socket", f"the path is too long; at most {LONGEST} bytes are allowed"


def _check_guarantee(config: Config) -> Iterator[Problem]:
    if config.failover != "off" and config.monitor_user is None:
        yield (
            "failover",
            f"{config.failover} needs monitor-user, which sees which servers are read only",
        )


def _check_client_tls(config: Config) -> Iterator[Problem]:
    if (config.client_tls_cert is None) != (config.client_tls_key is None):
        option = "client-tls-key" if config.client_tls_cert is None else "client-tls-cert"
        yield option, "client-tls-cert and client-tls-key go together; give both or none"
    if config.client_tls == "disabled" and config.client_tls_cert is not None:
        yield "client-tls-cert", 'has no use with client-tls = "disabled"'


def _check_server_tls(config: Config) -> Iterator[Problem]:
    verifies = config.server_tls in ("verify_ca", "verify_identity")
    if config.server_tls_ca is not None and not verifies:
        yield (
            "server-tls-ca",
            f'is not used by server-tls = "{config.server_tls}"; '
            'want server-tls = "verify_ca" or "verify_identity"',
        )
    if config.server_tls == "verify_ca" and config.server_tls_ca is None:
        yield "server-tls", "verify_ca needs server-tls-ca, the file of the CA to trust"


_CHECKS: Final = (
    _Check(frozenset({"admin-listen", "admins", "listen", "listeners"}), _check_admin_listen),
    _Check(frozenset({"monitor-user", "monitor-password-file"}), _check_monitor),
    _Check(frozenset({"primary", "replicas"}), _check_servers),
    _Check(frozenset({"topology", "servers", "primary", "replicas"}), _check_places),
    _Check(frozenset({"topology", "monitor-user"}), _check_topology),
    _Check(frozenset({"listen", "listeners", "metrics", "primary", "replicas"}), _check_addresses),
    _Check(frozenset({"socket"}), _check_socket),
    _Check(frozenset({"failover", "monitor-user"}), _check_guarantee),
    _Check(frozenset({"client-tls", "client-tls-cert", "client-tls-key"}), _check_client_tls),
    _Check(frozenset({"server-tls", "server-tls-ca"}), _check_server_tls),
    _Check(frozenset({"trace-endpoint", "trace-sample"}), _check_traces),
)
