"""Certificates and keys: read or made once, then the same in every worker.

The first process makes a `KeyRing` of PEM texts; each worker gets it through its own pipe and
builds its `Materials` from it. A key that was made at the start is never in a file, except for the
moment in which OpenSSL, which reads only files, loads it.
"""

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from protocol.authentication import RsaKey
from proxy.config import Config, ConfigError
from proxy.open_files import system_error
from proxy.tls.server_contexts import ServerContext, ServerContexts

_RSA_BITS: Final = 2048
_VALID_DAYS: Final = 3650


@dataclass(frozen=True, slots=True)
class KeyRing:
    """PEM texts, which go from the first process to its workers.

    Attributes:
        certificate: the chain that clients are shown; b"" where client TLS is disabled.
        certificate_key: its private key.
        rsa_key: private key that decrypts passwords which clients send without TLS.
        server_ca: the certificates of `server-tls-ca`; b"" where there is no such file.

    """

    certificate: bytes
    certificate_key: bytes = field(repr=False)
    rsa_key: bytes = field(repr=False)
    server_ca: bytes = b""


@dataclass(frozen=True, slots=True)
class Materials:
    """What a worker needs to be a TLS server and a TLS client, and to take passwords.

    Attributes:
        client_ssl: for connections from clients; None where client TLS is disabled.
        rsa_key: decrypts passwords that clients send without TLS.
        server_tls: for connections to servers; None where server TLS is disabled.

    """

    client_ssl: ssl.SSLContext | None
    rsa_key: RsaKey
    server_tls: ServerContexts | None


def make_key_ring(config: Config, before: tuple[Config, KeyRing] | None = None) -> KeyRing:
    """Read the configured keys and make the missing ones.

    Args:
        config: the configuration.
        before: that of before a reload, and its keys: those that were made then stay.

    Raises:
        ConfigError: a file cannot be read.

    """
    certificate, certificate_key, rsa_key, server_ca = b"", b"", b"", b""
    if before is not None:
        earlier, ring = before
        if earlier.client_tls_cert is None:
            certificate, certificate_key = ring.certificate, ring.certificate_key
        if earlier.rsa_key is None:
            rsa_key = ring.rsa_key
    if config.client_tls != "disabled":
        if config.client_tls_cert is not None and config.client_tls_key is not None:
            certificate = _read(config.client_tls_cert, "client-tls-cert")
            certificate_key = _read(config.client_tls_key, "client-tls-key")
        elif not certificate:
            certificate, certificate_key = self_signed(config.proxy_name, config.listen.host)
    if config.rsa_key is not None:
        rsa_key = _read(config.rsa_key, "rsa-key")
    elif not rsa_key:
        rsa_key = _pem(rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS))
    if config.server_tls_ca is not None:
        server_ca = _read(config.server_tls_ca, "server-tls-ca")
    return KeyRing(certificate, certificate_key, rsa_key, server_ca)


def build(config: Config, ring: KeyRing) -> Materials:
    """Build what a worker needs.

    Raises:
        ConfigError: a certificate or key is unusable; the message names its option.

    """
    try:
        rsa_key = RsaKey.from_pem(ring.rsa_key)
    except ValueError as error:
        raise ConfigError(f"rsa-key {config.rsa_key}: no usable RSA key: {error}") from error
    return Materials(_client_context(config, ring), rsa_key, _server_contexts(config, ring))


def renew(
    materials: Materials, before: tuple[Config, KeyRing], config: Config, ring: KeyRing
) -> Materials:
    """Build what a worker needs from now on; what is the same as before stays.

    So connections to servers resume the TLS sessions of those before.

    Args:
        materials: those of before.
        before: what they were built from.
        config: the configuration that counts now.
        ring: its keys.

    Raises:
        ConfigError: as `build`.
    """
    built = build(config, ring)
    earlier, earlier_ring = before
    if earlier.server_tls == config.server_tls and earlier_ring.server_ca == ring.server_ca:
        built = replace(built, server_tls=materials.server_tls)
    if earlier.client_tls == config.client_tls and earlier_ring.certificate == ring.certificate:
        built = replace(built, client_ssl=materials.client_ssl)
    return built


def self_signed(name: str, host: str) -> tuple[bytes, bytes]:
    """Make a certificate and its private key, both PEM.

    A P-256 key costs a fraction of an RSA key's time per handshake, and every TLS 1.2 client
    knows it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    except ValueError:
        names.append(x509.DNSName(host))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _client_context(config: Config, ring: KeyRing) -> ssl.SSLContext | None:
    if config.client_tls == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        with _file(ring.certificate) as certificate, _file(ring.certificate_key) as key:
            # An empty passphrase makes an encrypted key an error, not a question on the terminal.
            context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise ConfigError(
            f"client-tls-cert {config.client_tls_cert}, client-tls-key {config.client_tls_key}: "
            f"no usable PEM certificate and unencrypted private key: {_reason(error)}"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"client-tls: no temporary file can be written for the key: {system_error(error)}; name"
            " a directory in TMPDIR that Tidegate may write"
        ) from error
    return context


def _server_contexts(config: Config, ring: KeyRing) -> ServerContexts | None:
    if config.server_tls == "disabled":
        return None
    contexts = ServerContexts(partial(_server_context, config, ring.server_ca))
    for server in (config.primary, *config.replicas):
        contexts.to(str(server))
    return contexts


def _server_context(config: Config, ca: bytes) -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.server_tls == "verify_identity"
    if config.server_tls not in ("verify_ca", "verify_identity"):
        context.verify_mode = ssl.CERT_NONE
    elif config.server_tls_ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            with _file(ca) as path:
                context.load_verify_locations(path)
        except (ssl.SSLError, OSError) as error:  # it reads only files
            raise ConfigError(
                f"server-tls-ca {config.server_tls_ca}: no usable PEM certificates: "
                f"{_reason(error)}"
            ) from error
    return context


def _reason(error: OSError) -> str:
    return (isinstance(error, ssl.SSLError) and error.reason) or system_error(error)


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}: {path} cannot be read: {system_error(error)}") from error


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The path of a file that only this user can read, and that is deleted after the block."""
    fd, path = tempfile.mkstemp(prefix="tidegate-")  # mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        yield path
    finally:
        Path(path).unlink()
