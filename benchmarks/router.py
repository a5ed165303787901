"""MySQL Router with read/write splitting, configured to do as little else as possible.

Router splits reads from writes only by the roles that InnoDB Cluster's metadata gives the servers,
so the metadata of an asynchronous ReplicaSet is written into the primary, as far as Router reads
it (``router_metadata.sql``). A lean Router has no TLS to the servers, and no
``router_require_enforce``. The variant ``router-bootstrapped`` has both, as
``mysqlrouter --bootstrap`` configures it.
"""

import json
import string
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from benchmarks.cluster import PASSWORD, USER, Cluster
from benchmarks.contender import Proxy
from benchmarks.program import Program, router_keyring

_CLUSTER_ID = "benchmark"

_CONFIGURATION = """\
[DEFAULT]
logging_folder=
runtime_folder=$directory
data_folder=$directory
plugin_folder=$plugins
keyring_path=$directory/keyring
master_key_path=$directory/master.key
dynamic_state=$directory/state.json
max_idle_server_connections=64

[logger]
level=WARNING

[metadata_cache:bench]
cluster_type=rs
router_id=1
user=$user
metadata_cluster=bench
ttl=5
ssl_mode=DISABLED

[routing:rw_split]
bind_address=127.0.0.1
bind_port=$port
destinations=metadata-cache://bench/?role=PRIMARY_AND_SECONDARY
routing_strategy=round-robin
protocol=classic
connection_sharing=1
access_mode=auto
# Router splits only connections that it can share, and shares only where it greets the client
# itself, for which it needs a certificate. Clients of this benchmark do not use TLS.
client_ssl_mode=PREFERRED
client_ssl_cert=$directory/certificate.pem
client_ssl_key=$directory/key.pem
$to_servers
"""
_LEAN = "server_ssl_mode=DISABLED"
_BOOTSTRAPPED = "server_ssl_mode=PREFERRED\nserver_ssl_verify=DISABLED\nrouter_require_enforce=1"


class Router(Proxy):
    """MySQL Router, ``access_mode=auto``; `wait_for_my_writes` is on by default."""

    def __init__(self, cluster: Cluster, *, lean: bool = True) -> None:
        super().__init__("router" if lean else "router-bootstrapped", cluster)
        self._to_servers = _LEAN if lean else _BOOTSTRAPPED

    def program(self) -> Program:
        """The mysqlrouter beside the cluster's mysqld."""
        return Program((str(self.cluster.programs / "mysqlrouter"),))

    def arguments(self) -> Sequence[str]:
        """Write metadata, keys and configuration; return the option that names the last."""
        self._write_metadata()
        self._write_keyring()
        self._write_certificate()
        servers = [f"mysql://127.0.0.1:{server.port}" for server in self.cluster.servers]
        (self.directory / "state.json").write_text(
            json.dumps(
                {
                    "version": "1.0.0",
                    "metadata-cache": {
                        "cluster-metadata-servers": servers,
                        "view-id": 1,
                        "group-replication-id": _CLUSTER_ID,
                    },
                }
            )
        )
        configuration = self.directory / "router.conf"
        configuration.write_text(
            string.Template(_CONFIGURATION).substitute(
                directory=self.directory,
                plugins=self._plugins(),
                user=USER,
                port=self.port,
                to_servers=self._to_servers,
            )
        )
        return ["-c", str(configuration)]

    def _plugins(self) -> Path:
        unpacked = self.cluster.programs.parent / "root" / "usr/lib/mysqlrouter/plugin"
        return unpacked if unpacked.is_dir() else Path("/usr/lib/mysqlrouter/plugin")

    def _write_metadata(self) -> None:
        if self.cluster.primary.query("SHOW DATABASES LIKE 'mysql_innodb_cluster_metadata'"):
            return  # another Router has written it
        facts = {"cluster_id": _CLUSTER_ID}
        for number, server in enumerate(self.cluster.servers, start=1):
            ((uuid,),) = server.query("SELECT @@server_uuid")
            facts |= {f"uuid_{number}": uuid, f"address_{number}": f"127.0.0.1:{server.port}"}
        script = (Path(__file__).parent / "router_metadata.sql").read_text()
        self.cluster.primary.query(string.Template(script).substitute(facts))
        self.cluster.settle()

    def _write_keyring(self) -> None:
        tool = router_keyring(self.cluster.programs)
        keyring, master = self.directory / "keyring", self.directory / "master.key"
        for words in (("init", str(keyring)), ("set", str(keyring), USER, "password", PASSWORD)):
            subprocess.run(
                [*tool.command, *words, f"--master-key-file={master}"],
                check=True,
                capture_output=True,
            )

    def _write_certificate(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "router")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        (self.directory / "certificate.pem").write_bytes(certificate.public_bytes(pem))
        (self.directory / "key.pem").write_bytes(
            key.private_bytes(
                pem,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
