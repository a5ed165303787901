import pickle
import ssl
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from protocol.rsa import encrypt_password
from proxy.address import Address
from proxy.config import Config, ConfigError
from proxy.config.words import ServerTls
from proxy.tls import server_contexts as tls
from proxy.tls.materials import KeyRing, build, make_key_ring, self_signed
from proxy.tls.server_contexts import ServerContext

PRIMARY = Address("db1", 3306)
NONCE = bytes(range(1, 21))


def server_context(certificate: bytes, key: bytes, tmp_path: Path) -> ssl.SSLContext:
    (tmp_path / "pair.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str | None) -> ssl.SSLObject:
    """Let two contexts meet in memory; return the client's side."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    waiting: list[Callable[[], None]] = [near.do_handshake, far.do_handshake]
    for _ in range(10):
        for step in list(waiting):
            try:
                step()
                waiting.remove(step)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return near


def trusting(certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate.decode())
    return context


def test_made_material_serves_clients_and_takes_passwords() -> None:
    config = Config(PRIMARY, listen=Address("10.0.0.1", 6446), proxy_name="edge")
    ring = make_key_ring(config)
    materials = build(config, ring)
    assert materials.client_ssl is not None
    peer = shake_hands(trusting(ring.certificate), materials.client_ssl, "10.0.0.1")
    assert peer.version() == "TLSv1.3"
    sent = encrypt_password(b"secret", NONCE, materials.rsa_key.public_pem())
    assert materials.rsa_key.decrypt(sent, NONCE) == b"secret"


def test_the_self_signed_certificate() -> None:
    for host in ("127.0.0.1", "::1", "proxy.example"):
        certificate = x509.load_pem_x509_certificate(self_signed("edge", host)[0])
        assert certificate.subject.rfc4514_string() == "CN=edge"
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert host in {str(name.value) for name in names}
        assert (
            certificate.not_valid_before_utc < datetime.now(UTC) < certificate.not_valid_after_utc
        )


def test_all_workers_get_the_same_keys_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    def load(self: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
        modes.extend(stat.S_IMODE(Path(path).stat().st_mode) for path in (certificate, key))
        plain_load(self, certificate, key, password)

    plain_load = ssl.SSLContext.load_cert_chain
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = Config(PRIMARY)
    ring = make_key_ring(config)
    other: KeyRing = pickle.loads(pickle.dumps(ring))  # noqa: S301 - our own bytes
    first, second = build(config, ring), build(config, other)
    assert first.rsa_key.public_pem() == second.rsa_key.public_pem()
    assert modes == [0o600] * 4
    assert list(tmp_path.iterdir()) == []
    assert "PRIVATE" not in repr(ring)


def test_old_tls_is_refused() -> None:
    config = Config(PRIMARY)
    ring = make_key_ring(config)
    materials = build(config, ring)
    for context in (materials.client_ssl, server_side(config)):
        assert context is not None
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_disabled() -> None:
    config = Config(PRIMARY, client_tls="disabled", server_tls="disabled")
    ring = make_key_ring(config)
    assert (ring.certificate, ring.certificate_key) == (b"", b"")
    materials = build(config, ring)
    assert (materials.client_ssl, materials.server_tls) == (None, None)


def test_given_certificate_and_keys_are_used(tmp_path: Path) -> None:
    certificate, key = self_signed("mine", "proxy.example")
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "rsa.pem").write_bytes(pem(rsa_key))
    config = Config(
        PRIMARY,
        client_tls_cert=tmp_path / "cert.pem",
        client_tls_key=tmp_path / "key.pem",
        rsa_key=tmp_path / "rsa.pem",
    )
    materials = build(config, make_key_ring(config))
    assert materials.client_ssl is not None
    shake_hands(trusting(certificate), materials.client_ssl, "proxy.example")
    public = rsa_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert materials.rsa_key.public_pem() == public


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        protection = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
    )


def test_unusable_files_name_their_option(tmp_path: Path) -> None:
    certificate, key = self_signed("mine", "proxy.example")
    _, other_key = self_signed("other", "proxy.example")
    loaded = serialization.load_pem_private_key(key, None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    config = Config(PRIMARY, client_tls_cert=cert_file, client_tls_key=key_file)
    for certificate_text, key_text in (
        (b"nothing", key),
        (certificate, b"nothing"),
        (certificate, other_key),
        (certificate, pem(loaded, b"passphrase")),
    ):
        cert_file.write_bytes(certificate_text)
        key_file.write_bytes(key_text)
        with pytest.raises(
            ConfigError, match=r"client-tls-cert .*cert\.pem.*no usable PEM"
        ) as caught:
            build(config, make_key_ring(config))
        assert "PRIVATE" not in str(caught.value)
    for text in (b"nothing", key):
        key_file.write_bytes(text)
        config = Config(PRIMARY, rsa_key=key_file)
        with pytest.raises(ConfigError, match=r"rsa-key .*key\.pem: no usable RSA key"):
            build(config, make_key_ring(config))
    config = Config(PRIMARY, server_tls="verify_ca", server_tls_ca=key_file)
    with pytest.raises(ConfigError, match=r"server-tls-ca .*key\.pem: no usable PEM"):
        build(config, make_key_ring(config))
    with pytest.raises(ConfigError, match=r"rsa-key: .*none cannot be read: No such file"):
        make_key_ring(Config(PRIMARY, rsa_key=tmp_path / "none"))


def test_no_directory_for_temporary_files_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = make_key_ring(Config(PRIMARY))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"client-tls: .* No such file .* TMPDIR"):
        build(Config(PRIMARY), ring)


def server_side(config: Config) -> ServerContext:
    contexts = build(config, make_key_ring(config)).server_tls
    assert contexts is not None
    return contexts.to(str(PRIMARY))


def test_the_way_to_the_servers_is_verified_as_far_as_asked(tmp_path: Path) -> None:
    certificate, key = self_signed("db1", "db1.example")
    server = server_context(certificate, key, tmp_path)
    authority = tmp_path / "ca.pem"
    authority.write_bytes(certificate)
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(self_signed("db1", "db1.example")[0])

    unverified: tuple[ServerTls, ...] = ("preferred", "required")
    for mode in unverified:
        shake_hands(server_side(Config(PRIMARY, server_tls=mode)), server, "wrong.example")

    verify_ca = Config(PRIMARY, server_tls="verify_ca", server_tls_ca=authority)
    shake_hands(server_side(verify_ca), server, "wrong.example")
    verified: tuple[ServerTls, ...] = ("verify_ca", "verify_identity")
    for mode in verified:
        untrusting = server_side(Config(PRIMARY, server_tls=mode, server_tls_ca=foreign))
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(untrusting, server, "db1.example")

    identity = server_side(Config(PRIMARY, server_tls="verify_identity", server_tls_ca=authority))
    shake_hands(identity, server, "db1.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(identity, server, "wrong.example")

    system = server_side(Config(PRIMARY, server_tls="verify_identity"))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        shake_hands(system, server, "db1.example")


# Sessions.

MODES: tuple[ServerTls, ...] = ("preferred", "verify_ca", "verify_identity")
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def resumes(client: ServerContext, server: ssl.SSLContext, name: str = "db1.example") -> bool:
    """Connect, and log in; whether the session of an earlier connection was resumed."""
    end = shake_hands(client, server, name)
    with suppress(ssl.SSLWantReadError):
        end.read()  # the tickets, which come first
    client.on_login(end)
    return bool(end.session_reused)


class _Pki:
    """A server's certificate, which is its own authority, and who trusts it."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = self_signed("db1", "db1.example")
        folder.mkdir()
        self._folder = folder
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(self.certificate)

    def server(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        """One start of the server: the keys of its tickets are new each time."""
        context = server_context(self.certificate, self.key, self._folder)
        context.maximum_version = version
        return context

    def client(self, mode: ServerTls = "verify_identity") -> ServerContext:
        return server_side(Config(PRIMARY, server_tls=mode, server_tls_ca=self.authority))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_sessions_are_resumed(tmp_path: Path, mode: ServerTls, version: ssl.TLSVersion) -> None:
    pki = _Pki(tmp_path / "pki")
    server, client = pki.server(version), pki.client(mode)
    assert [resumes(client, server) for _ in range(4)] == [False, True, True, True]


def test_a_connection_that_ends_without_a_login_leaves_no_session(tmp_path: Path) -> None:
    pki = _Pki(tmp_path / "pki")
    server, client = pki.server(), pki.client()
    shake_hands(client, server, "db1.example")
    assert not resumes(client, server)
    client.forget()
    assert not resumes(client, server)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_started_anew_shows_its_certificate(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    pki = _Pki(tmp_path / "pki")
    client = pki.client()
    first, second = pki.server(version), pki.server(version)
    assert [resumes(client, first) for _ in range(2)] == [False, True]
    assert [resumes(client, second) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("mode", ["verify_ca", "verify_identity"])
def test_a_session_vouches_for_nobody_else(tmp_path: Path, mode: ServerTls) -> None:
    """Who answers in the server's place, with another certificate, is refused as at first."""
    pki, foreign = _Pki(tmp_path / "pki"), _Pki(tmp_path / "foreign")
    client = pki.client(mode)
    assert not resumes(client, pki.server())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, foreign.server(), "db1.example")


def test_each_server_has_a_session_of_its_own(tmp_path: Path) -> None:
    """That of one shows nothing of another, be they one process, with one certificate."""
    pki = _Pki(tmp_path / "pki")
    server = pki.server()
    config = Config(
        PRIMARY,
        replicas=(Address("db2", 3306),),
        server_tls="verify_identity",
        server_tls_ca=pki.authority,
    )
    contexts = build(config, make_key_ring(config)).server_tls
    assert contexts is not None
    assert contexts.to("db1:3306") is contexts.to("db1:3306")
    assert [resumes(contexts.to("db1:3306"), server) for _ in range(2)] == [False, True]
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(contexts.to("db2:3306"), server, "db2.example")
    assert not resumes(contexts.to("db2:3306"), server)


def test_a_session_is_used_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the whole handshake, however often it was resumed meanwhile."""
    pki = _Pki(tmp_path / "pki")
    server, client = pki.server(), pki.client()
    now = 1000.0
    monkeypatch.setattr(tls.time, "monotonic", lambda: now)
    assert not resumes(client, server)
    now += tls.MAX_AGE_S - 1
    assert resumes(client, server)
    now += 2
    assert not resumes(client, server)
    assert resumes(client, server)
