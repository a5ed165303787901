"""A certificate authority for one test cluster, and a server certificate for 127.0.0.1."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)


def write_certificates(folder: Path) -> None:
    """Write ca.pem, server-cert.pem and server-key.pem: the names that mysqld looks for.

    The server's certificate is good for 127.0.0.1 and localhost.
    """
    now = datetime.now(UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tidegate test authority")])
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]

    def signed(
        subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(extension, critical=False)
        )
        certificate = builder.sign(authority_key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    basic = x509.BasicConstraints(ca=True, path_length=0)
    (folder / "ca.pem").write_bytes(signed(authority, authority_key, basic))
    alternative = x509.SubjectAlternativeName(names)
    (folder / "server-cert.pem").write_bytes(signed(server, server_key, alternative))
    _write_key(folder / "server-key.pem", server_key)
