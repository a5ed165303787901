"""Checks of options against each other."""

from collections.abc import Callable

from proxy.address import Address
from proxy.config import toml_text
from proxy.config.config import Config

Fail = Callable[[str, str], Exception]
"""Makes an error of an option's name and what is wrong; its message says where it was given."""


def check(config: Config, fail: Fail) -> None:
    """Raise the error that `fail` makes of the first options that do not go together."""
    _check_servers(config, fail)
    _check_addresses(config, fail)
    _check_guarantee(config, fail)
    _check_tls(config, fail)
    _check_sharing(config, fail)


def _check_sharing(config: Config, fail: Fail) -> None:
    if config.connection_sharing == "off":
        return
    if not config.login_age or not config.kept_connections:
        raise fail(
            "connection-sharing",
            "on needs login-age and kept-connections above 0: only with them the proxy knows which"
            " accounts may log in without limits",
        )


def _check_servers(config: Config, fail: Fail) -> None:
    seen: set[Address] = set()
    for replica in config.replicas:
        if replica == config.primary:
            raise fail("replicas", f"{replica} is the primary; name it once, as primary")
        if replica in seen:
            raise fail("replicas", f"{replica} is named twice")
        seen.add(replica)


def _check_addresses(config: Config, fail: Fail) -> None:
    for address in config.addresses:
        name = "listen" if address == config.listen else "listeners"
        where = "" if name == "listen" else f"{toml_text.header(name, str(address))}: "
        if address in (config.primary, *config.replicas):
            raise fail(
                name, f"{where}{address} is one of the servers; the proxy needs its own port"
            )
        if address == config.metrics and address.port:
            kind = "the listen address" if name == "listen" else "a listener's address"
            raise fail("metrics", f"{address} is {kind}; metrics need another port")


def _check_guarantee(config: Config, fail: Fail) -> None:
    if config.failover != "off" and config.monitor_user is None:
        raise fail(
            "failover",
            f"{config.failover} needs monitor-user, which sees which servers are read only",
        )


def _check_tls(config: Config, fail: Fail) -> None:
    if (config.client_tls_cert is None) != (config.client_tls_key is None):
        option = "client-tls-key" if config.client_tls_cert is None else "client-tls-cert"
        raise fail(option, "client-tls-cert and client-tls-key go together; give both or none")
    if config.client_tls == "disabled" and config.client_tls_cert is not None:
        raise fail("client-tls-cert", 'has no use with client-tls = "disabled"')
    verifies = config.server_tls in ("verify_ca", "verify_identity")
    if config.server_tls_ca is not None and not verifies:
        raise fail(
            "server-tls-ca",
            f'is not used by server-tls = "{config.server_tls}"; '
            'want server-tls = "verify_ca" or "verify_identity"',
        )
    if config.server_tls == "verify_ca" and config.server_tls_ca is None:
        raise fail("server-tls", "verify_ca needs server-tls-ca, the file of the CA to trust")
