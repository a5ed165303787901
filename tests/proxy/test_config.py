import dataclasses
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import cli
from proxy.address import Address
from proxy.config import Config, ConfigError, load, tables
from proxy.config.log_keep import LogKeep
from proxy.config.options import OPTIONS
from proxy.config.reading import variable_of
from proxy.config.values import consistency
from routing.consistency.adjustment import MAX_STALENESS, written_level
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy
from routing.consistency.rules import Rules

PRIMARY = {"primary": ["db1"]}
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def from_text(tmp_path: Path, text: str, arguments: dict[str, list[str]] | None = None) -> Config:
    path = tmp_path / "tidegate.toml"
    path.write_text(text)
    return load(path, arguments or {})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("db1.example:3307", Address("db1.example", 3307)),
        ("DB1", Address("db1", 3306)),
        (":3307", Address("h", 3307)),
        ("[::1]:3306", Address("::1", 3306)),
        ("[fe80::1%eth0]", Address("fe80::1%eth0", 3306)),
        ("my_db-1:1", Address("my_db-1", 1)),
    ],
)
def test_address_is_parsed(text: str, address: Address) -> None:
    assert Address.parse(text, default_host="h", default_port=3306) == address
    assert Address.parse(str(address), default_host="x", default_port=None) == address


@pytest.mark.parametrize(
    "text",
    [
        *(
            "::1",
            "::1:3306",
            "db1:65536",
            "db1:port",
            "db1:-1",
            "a b:1",
            "[db1]:1",
            'a":1',
            "d\n:1",
        ),
        *("db1..example:1", ".db1", "x" * 64 + ".example"),
    ],
)
def test_bad_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="want"):
        Address.parse(text, default_host="h", default_port=3306)


def test_file_gives_every_value(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem", "rsa.pem", "ca.pem"):
        (tmp_path / name).write_text("x")
    (tmp_path / "pw").write_bytes(b"s3cret \n")
    (tmp_path / "keys").write_bytes(b"a s3cret of our own\n" + b"ab" * 16)
    config = from_text(
        tmp_path,
        """
        primary = "db1"
        replicas = ["db2:3307", "[::1]"]
        listen = ":6000"
        consistency = "bounded-staleness( 1.5s )"
        scope = "connection"
        wait-budget = "1.5s"
        on_timeout = "stale"
        scope-limit = 5
        scope-age = "2h"
        view-age = 0
        token-key-file = "keys"
        token-lifetime = "5m"
        primary-fallback-rate = 0.5
        on-lost-writes = "continue"
        failover = "read-only"
        proof-max-age = 0
        metadata-reads = "replica"
        explain = "primary"
        self-audit = 1
        metrics = "127.0.0.1:9000"
        routing-log = "log"
        routing-log-keep = "30d,100G"
        routing-log-compression = "off"
        routing-log-sync = 0
        state-dir = "state"
        monitor-user = "watch"
        monitor-password-file = "pw"
        monitor-interval = 2
        heartbeat-table = "percona.heart-beat"
        binlog-lag = "on"
        workers = 4
        proxy-name = "edge-1"
        client-tls = "required"
        client-tls-cert = "cert.pem"
        client-tls-key = "key.pem"
        rsa-key = "rsa.pem"
        server-tls = "verify_identity"
        server-tls-ca = "ca.pem"
        max-connections = 7
        handshake-timeout = "3s"
        connect-timeout = "500ms"
        max-allowed-packet = "16M"
        log-level = "warning"
        """,
    )
    assert config == Config(
        primary=Address("db1", 3306),
        replicas=(Address("db2", 3307), Address("::1", 3306)),
        listen=Address("0.0.0.0", 6000),
        consistency=Level.BOUNDED_STALENESS,
        staleness=1.5,
        scope=Scope.CONNECTION,
        wait_budget=1.5,
        on_timeout=TimeoutPolicy.STALE,
        scope_limit=5,
        scope_age=7200.0,
        view_age=0.0,
        token_key_file=tmp_path / "keys",
        token_keys=(b"a s3cret of our own", b"\xab" * 16),
        token_lifetime=300.0,
        primary_fallback_rate=0.5,
        on_lost_writes=LostPolicy.CONTINUE,
        failover="read_only",
        proof_max_age=0.0,
        metadata_reads="replica",
        explain="primary",
        self_audit=1.0,
        metrics=Address("127.0.0.1", 9000),
        routing_log=tmp_path / "log",
        routing_log_keep=LogKeep(30 * 86_400.0, 100 << 30),
        routing_log_compression="off",
        routing_log_sync=0.0,
        state_dir=tmp_path / "state",
        monitor_user="watch",
        monitor_password_file=tmp_path / "pw",
        monitor_password=b"s3cret ",
        monitor_interval=2.0,
        heartbeat_table="`percona`.`heart-beat`",
        binlog_lag="on",
        workers=4,
        proxy_name="edge-1",
        client_tls="required",
        client_tls_cert=tmp_path / "cert.pem",
        client_tls_key=tmp_path / "key.pem",
        rsa_key=tmp_path / "rsa.pem",
        server_tls="verify_identity",
        server_tls_ca=tmp_path / "ca.pem",
        max_connections=7,
        handshake_timeout=3.0,
        connect_timeout=0.5,
        max_allowed_packet=16 << 20,
        log_level="warning",
    )
    # What `check` prints gives the same configuration again, and tells no secret.
    assert from_text(tmp_path, config.to_toml()) == config
    assert "s3cret" not in config.to_toml()
    assert "s3cret" not in repr(config)


def test_defaults_are_the_documented_ones() -> None:
    config = load(None, PRIMARY)
    assert config == Config(primary=Address("db1", 3306))
    documented = 0
    for option in OPTIONS:
        match = re.search(r"default ([^ )]+)\)", option.help)
        if match and option.name != "primary":
            documented += 1
            value = getattr(config, option.attribute)
            read = (value, config.staleness) if option.name == "consistency" else value
            assert option.read(match[1]) == read, option.name
    assert documented >= 21


def test_effective_defaults_are_toml() -> None:
    config = load(None, {**PRIMARY, "replicas": ["db2,db3", "db4"]})
    values = tomllib.loads(config.to_toml())
    assert values["replicas"] == ["db2:3306", "db3:3306", "db4:3306"]
    assert values["wait-budget"] == 0.25
    assert "metrics" not in values


def test_every_field_is_an_option_and_documented() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    derived = {"monitor_password", "admin_token", "token_keys", "staleness"}
    derived |= {"user_limits", "servers"}
    assert {option.attribute for option in OPTIONS} == fields - derived - set(tables.KINDS)
    documented = set(re.findall(r"^### `([a-z-]+)`", DOCS.read_text(), re.MULTILINE))
    assert documented == {option.name for option in OPTIONS}


def test_documented_defaults_are_those_of_the_help() -> None:
    sections = re.split(r"^### `([a-z-]+)`$", DOCS.read_text(), flags=re.MULTILINE)
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    for option in OPTIONS:
        match = re.search(r"default ([^ )]+)\)", option.help)
        if match and option.name != "primary":
            value = re.escape(match[1])
            pattern = rf"Default\s`?{value}\b|\b{value}`?\s\(default"
            assert re.search(pattern, bodies[option.name]), option.name


def test_the_documented_files_are_valid(tmp_path: Path) -> None:
    (tmp_path / "monitor.password").write_text("x")
    (tmp_path / "token.keys").write_text("ab" * 32)
    files = re.findall(r"^```toml\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(files) >= 2
    for text in files:
        from_text(tmp_path, text if "primary =" in text else f'primary = "db1"\n{text}')


def test_arguments_override_the_file(tmp_path: Path) -> None:
    text = 'primary = "db1"\nreplicas = ["db2"]\nwait-budget = "1s"\n'
    config = from_text(tmp_path, text, {"replicas": ["db3", "db4"], "wait-budget": ["5ms"]})
    assert config.replicas == (Address("db3", 3306), Address("db4", 3306))
    assert config.wait_budget == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("1s", 1.0),
        ("1.5s", 1.5),
        ("60s", 60.0),
        ("1m", 60.0),
        ("2", 2.0),
        ("100us", 1e-4),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert load(None, {**PRIMARY, "wait-budget": [text]}).wait_budget == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["auto", " AUTO "])
def test_a_budget_that_is_measured(text: str) -> None:
    config = load(None, {**PRIMARY, "wait-budget": [text]})
    assert (config.wait_budget, config.longest_wait) == ("auto", 0.25)
    assert config.rules.is_auto
    fixed = load(None, {**PRIMARY, "wait-budget": ["2s"]})
    assert (fixed.longest_wait, fixed.rules.is_auto) == (2.0, False)


@pytest.mark.parametrize(
    "value", ['"0ms"', "0", '"61s"', '"-1s"', '"1h"', '""', "true", "nan", "inf", "[1]"]
)
def test_bad_duration_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(
        ConfigError, match=r"tidegate\.toml: wait-budget = .*: want a duration such as"
    ):
        from_text(tmp_path, f'primary = "db1"\nwait-budget = {value}\n')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('wait-bugdet = "1s"', r"wait-bugdet: unknown key; did you mean wait-budget\?"),
        ("zzzzzz = 1", r"zzzzzz: unknown key; known are primary, replicas,"),
        ('user = "x"', r"user: unknown key; did you mean users\?"),
        ('consistency = "STRICT"', r'"STRICT": want one of BEST_EFFORT, READ_OWN_WRITES'),
        ("consistency = 2", r"consistency = 2: want one of BEST_EFFORT, READ_OWN_WRITES"),
        ('consistency = "STRONG(1s)"', r"STRONG takes no bound"),
        ('consistency = "BOUNDED_STALENESS"', r"such as BOUNDED_STALENESS\(500ms\)"),
        ('consistency = "BOUNDED_STALENESS(2d)"', r"want a duration such as 250ms"),
        ('consistency = "BOUNDED_STALENESS(.1us)"', r"want a bound of at least 1us"),
        ('scope = "session"', r"want one of connection, user, application, proxy"),
        ('on-lost-writes = "stale"', r"want one of error, continue"),
        ('failover = "on"', r"want one of off, read_only"),
        ('failover = "read_only"', r"failover: read_only needs monitor-user"),
        ("self-audit = 1.1", r"self-audit = 1.1: want a number from 0 to 1"),
        ("self-audit = true", r"want a number from 0 to 1"),
        ("self-audit = nan", r"want a number from 0 to 1"),
        ('self-audit = "x"', r"want a number from 0 to 1"),
        ("primary-fallback-rate = 0", r"want a number from 0.001 to 1000000"),
        ("scope-limit = 0", r"want a whole number from 1 to 10000000"),
        ('scope-age = "169h"', r"at most 604800s"),
        ('token-key-file = "none"', r"none cannot be read: No such file"),
        ('token-key-file = "tidegate.toml"', r"token-key-file: .*line 1: a key of 15 bytes is too"),
        ('on-timeout = "fail"', r"want one of primary, error, stale"),
        ("workers = 0", r"workers = 0: want a whole number from 1 to 256"),
        ("workers = true", r"workers = true: want a whole number"),
        ("workers = 1.5", r"workers = 1.5: want a whole number"),
        ('connection-sharing = "yes"', r"want one of off, on"),
        ('max-allowed-packet = "2T"', r"want a size in bytes"),
        ('max-allowed-packet = "2G"', r"to 1073741824"),
        ('replicas = ["db1:3306"]', r"replicas: db1:3306 is the primary"),
        ('replicas = ["db2", "DB2:3306"]', r"replicas: db2:3306 is named twice"),
        ('replicas = ["db2:0"]', r"want a port from 1 to 65535"),
        ('replicas = [""]', r"want HOST:PORT"),
        ('listen = "db..example:1"', r'listen = "db\.\.example:1": .* 1 to 63 characters'),
        ('listen = "db1:3306"', r"listen: db1:3306 is one of the servers"),
        ('metrics = "127.0.0.1"', r"the port is missing"),
        ('metrics = "127.0.0.1:6446"', r"metrics: 127.0.0.1:6446 is the listen address"),
        ('proxy-name = "a/b"', r"want at most 64 letters"),
        (
            'client-tls-cert = "none.pem"',
            r"client-tls-cert: .*none.pem cannot be read: No such file",
        ),
        ('client-tls-cert = "tidegate.toml"', r"client-tls-cert and client-tls-key go together"),
        ('server-tls-ca = "tidegate.toml"', r"is not used by server-tls = \"preferred\""),
        ('server-tls = "verify_ca"', r"verify_ca needs server-tls-ca"),
        ('monitor-password-file = "tidegate.toml"', r"monitor-password-file"),
        ('monitor-password-file = "none"', r"none cannot be read: No such file"),
        (r'monitor-password-file = "a\u0000b"', r"want a path"),
        (r'routing-log = "a\u0000b"', r"want a path"),
        (r'monitor-user = "a\u0000b"', r"want a user name"),
        ('state-dir = "~no-such-user/x"', r'state-dir = "~no-such-user/x": .*home directory'),
        ('on-timeout = "stale"\non_timeout = "stale"', r"on_timeout: given twice"),
        ("x = ", r"is not TOML"),
    ],
)
def test_errors_name_place_value_and_what_is_allowed(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        from_text(tmp_path, f'primary = "db1"\n{line}\n')
    assert str(tmp_path / "tidegate.toml") in str(caught.value)


@given(st.floats(1e-6, MAX_STALENESS))
def test_a_bound_is_written_as_it_is_read(seconds: float) -> None:
    level, bound = consistency(f"BOUNDED_STALENESS({seconds:.9f}s)")
    assert abs(bound - seconds) <= 0.51e-6
    assert consistency(written_level(level, bound)) == (level, bound)


@pytest.mark.parametrize("level", [level for level in Level if level != "BOUNDED_STALENESS"])
def test_other_levels_have_no_bound(level: Level) -> None:
    assert consistency(written_level(level, 3.0)) == (level, 0.0)
    assert load(None, {**PRIMARY, "consistency": [level]}).rules.consistency == level


def test_default_rules() -> None:
    arguments = {
        "consistency": ["BOUNDED_STALENESS(500)"],
        "scope": ["proxy"],
        "wait-budget": ["1s"],
        "on-timeout": ["error"],
    }
    assert load(None, {**PRIMARY, **arguments}).rules == Rules(
        Level.BOUNDED_STALENESS, Scope.PROXY, 1.0, TimeoutPolicy.ERROR, 0.5, ""
    )
    assert load(None, PRIMARY).rules == Rules(
        Level.READ_OWN_WRITES, Scope.USER, 0.25, TimeoutPolicy.PRIMARY
    )


def test_argument_errors_name_the_argument() -> None:
    with pytest.raises(ConfigError, match=r"^--wait-budget abc: want a duration"):
        load(None, {**PRIMARY, "wait-budget": ["abc"]})
    with pytest.raises(ConfigError, match=r"^--replicas: db1:3306 is the primary"):
        load(None, {**PRIMARY, "replicas": ["db1"]})


def test_missing_primary() -> None:
    with pytest.raises(ConfigError, match="primary is missing"):
        load(None, {})


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load(tmp_path / "none.toml", PRIMARY)


def test_password_without_user_and_of_many_lines(tmp_path: Path) -> None:
    password = tmp_path / "pw"
    password.write_text("one\r\n")
    arguments = {**PRIMARY, "monitor-password-file": [str(password)]}
    with pytest.raises(ConfigError, match="has no use without monitor-user"):
        load(None, arguments)
    arguments["monitor-user"] = ["watch"]
    assert load(None, arguments).monitor_password == b"one"
    password.write_text("one\ntwo\n")
    with pytest.raises(ConfigError, match="must hold one line"):
        load(None, arguments)


def test_warnings(tmp_path: Path) -> None:
    secrets = ("monitor-password-file", "token-key-file")
    arguments = {**PRIMARY, "monitor-user": ["w"]}
    for name in secrets:
        (tmp_path / name).write_text("one of 16 letters")
        (tmp_path / name).chmod(0o604)
        arguments[name] = [str(tmp_path / name)]
    config = load(None, arguments)
    assert [warning.split()[0] for warning in config.warnings()] == ["no", *secrets]
    for name in secrets:
        (tmp_path / name).chmod(0o600)
    assert len(config.warnings()) == 1


def test_heartbeats_that_nobody_reads_are_warned_about() -> None:
    table = {"heartbeat-table": ["percona.heartbeat"]}
    alone, watched = (
        load(None, PRIMARY | table),
        load(None, PRIMARY | table | {"monitor-user": ["w"]}),
    )
    assert "heartbeat-table has no effect without monitor-user" in alone.warnings()
    assert not [warning for warning in watched.warnings() if "heartbeat" in warning]


def test_binary_logs_that_nobody_reads_are_warned_about() -> None:
    alone = load(None, PRIMARY | {"binlog-lag": ["on"]})
    assert "binlog-lag has no effect without monitor-user" in alone.warnings()
    with pytest.raises(ConfigError):
        load(None, PRIMARY | {"binlog-lag": ["yes"]})


def test_servers_that_are_found_and_not_verified_are_warned_about() -> None:
    found = PRIMARY | {"topology": ["auto"], "monitor-user": ["w"]}
    (warning,) = load(None, found).warnings()
    assert "REPLICATION SLAVE" in warning
    assert not load(None, found | {"server-tls": ["verify_identity"]}).warnings()
    assert not load(None, found | {"topology": ["group"]}).warnings()


def test_how_far_behind_a_replica_may_be(tmp_path: Path) -> None:
    replicated = {**PRIMARY, "replicas": ["db2"]}
    watched = {**replicated, "monitor-user": ["w"]}
    for arguments, limit in (
        (watched, 30.0),
        ({**watched, "max-lag": ["1m"]}, 60.0),
        ({**watched, "max-lag": ["OFF"]}, None),
    ):
        config = load(None, arguments)
        assert (config.lag_limit, config.warnings()) == (limit, [])
        assert from_text(tmp_path, config.to_toml()).lag_limit == limit
    assert "so max-lag has no effect" in "".join(load(None, replicated).warnings())
    alone = load(None, {**replicated, "max-lag": ["off"]})
    assert "max-lag" not in "".join(alone.warnings())
    short = load(None, {**watched, "max-lag": ["100ms"]}).warnings()
    assert "max-lag (100ms) is below monitor-interval (1000ms)" in "".join(short)
    for text in ("0", "-1s", "25h", "none", ""):
        with pytest.raises(ConfigError, match="or off"):
            load(None, {**watched, "max-lag": [text]})
    for policy in ("primary", "stale"):
        assert load(None, {**watched, "on-max-lag": [policy]}).on_max_lag == policy


@pytest.mark.parametrize("text", ["heartbeat", "a.b.c", "a.b; DROP TABLE c", "a.`b", "`a`.b`c", ""])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(ConfigError):
        load(None, PRIMARY | {"heartbeat-table": [text]})


def test_a_bound_below_the_monitor_interval_is_warned_about(tmp_path: Path) -> None:
    text = """
    primary = "db1"
    replicas = ["db2"]
    monitor-user = "w"
    consistency = "BOUNDED_STALENESS(999ms)"
    [users.a]
    consistency = "BOUNDED_STALENESS(1s)"
    [schemas."b c"]
    consistency = "BOUNDED_STALENESS(1ms)"
    """
    default, schema = from_text(tmp_path, text).warnings()
    assert default.startswith("consistency BOUNDED_STALENESS(999ms): the bound is below")
    assert schema.startswith('[schemas."b c"]: consistency BOUNDED_STALENESS(1ms): the bound')
    assert "monitor-interval (1000ms)" in schema
    assert from_text(tmp_path, text, {"monitor-interval": ["1ms"]}).warnings() == []


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    primary = "db1"
    replicas = ["db1", "db2", "db2"]
    wait-budget = "soon"
    consistency = "WEAK"
    client-tls-cert = "none.pem"
    wrokers = 2
    server-tls = "verify_ca"
    [users.web]
    scope = "all"
    workers = 3
    [users.batch]
    wait-budget = "1y"
    """
    with pytest.raises(ConfigError) as caught:
        from_text(tmp_path, text)
    found = [re.sub(r".*tidegate\.toml: |:.*", "", problem) for problem in caught.value.problems]
    assert found == [
        'wait-budget = "soon"',
        'consistency = "WEAK"',
        "wrokers",
        "[users.web]",
        "[users.web]",
        "[users.batch]",
        "client-tls-cert",
        "replicas",
        "replicas",
        "client-tls-cert",
        "server-tls",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'replicas = "db2"\nmonitor-user = 7\nfailover = "read_only"\nmonitor-password-file = "pw"',
        'primary = "db1 db2"\nlisten = "db1:3306"',
        'listeners = 3\nmetrics = "127.0.0.1:6446"\nlisten = 1',
    ],
)
def test_what_was_not_read_is_not_compared(tmp_path: Path, text: str) -> None:
    (tmp_path / "pw").write_text("x")
    primary = "" if "primary" in text else 'primary = "db1"\n'
    with pytest.raises(ConfigError) as caught:
        from_text(tmp_path, primary + text)
    assert all("want" in problem for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    "given",
    ["mysql://root:p@ss w:rd@db1", "root:p@ss w:rd@db1", "mysql://root:p@ss w:rd@db1:3306/app?x=1"],
)
@pytest.mark.parametrize("name", ["primary", "replicas", "listen", "monitor-user", "proxy-name"])
def test_a_password_in_the_wrong_place_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, name: str
) -> None:
    path = tmp_path / "tidegate.toml"
    path.write_text(f'{name} = "{given}"\n')
    cli.main(["check", "--config", str(path)])
    cli.main(["check", f"--{name}", given])
    cli.main(["check", f"--{name}z={given}"])
    cli.main(["check", given])
    cli.main([given])
    captured = capsys.readouterr()
    for part in ("p@ss", "w:rd", "rd@"):
        assert part not in captured.err.replace('"[::1]', "")


def test_the_environment_is_between_file_and_command_line(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.toml"
    path.write_text('primary = "db1"\nwait-budget = "1s"\nworkers = 2\nproxy-name = "a"\n')
    environment = {
        "TIDEGATE_WAIT_BUDGET": "2s",
        "TIDEGATE_WORKERS": "3",
        "TIDEGATE_REPLICAS": "db2,db3:3307",
        "TIDEGATE_PROXY_NAME": "",
        "TIDEGATE_PORT": "tcp://10.0.0.1:3306",  # Kubernetes sets it for a service "tidegate"
        "TIDEGATE_SERVICE_HOST": "10.0.0.1",
    }
    config = load(path, {"workers": ["4"]}, environment)
    assert (config.wait_budget, config.workers, config.proxy_name) == (2.0, 4, "a")
    assert [str(replica) for replica in config.replicas] == ["db2:3306", "db3:3307"]


def test_an_error_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^TIDEGATE_WAIT_BUDGET=soon: want a duration"):
        load(None, PRIMARY, {"TIDEGATE_WAIT_BUDGET": "soon"})
    with pytest.raises(ConfigError, match=r"^TIDEGATE_REPLICAS: db1:3306 is the primary"):
        load(None, PRIMARY, {"TIDEGATE_REPLICAS": "db1"})


def test_every_option_has_a_variable() -> None:
    names = {variable_of(option) for option in OPTIONS}
    assert len(names) == len(OPTIONS)
    assert all(re.fullmatch("TIDEGATE_[A-Z_]+", name) for name in names)
