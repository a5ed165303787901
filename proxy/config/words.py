"""The types of options that take one of a few words."""

from typing import Literal

ClientTls = Literal["preferred", "disabled", "required"]
ServerTls = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
TopologyKind = Literal["static", "auto", "group"]
ReadFrom = Literal["replicas", "any"]
Failover = Literal["off", "read_only"]
Switch = Literal["off", "on"]
TableDependencies = Literal["off", "auto", "on"]
FilteredReplicas = Literal["refuse", "allow"]
OnMaxLag = Literal["primary", "stale"]
WithoutPrimary = Literal["read", "refuse"]
Place = Literal["primary", "replica"]
Explain = Literal["statement", "primary"]
LogCompression = Literal["gzip", "zstd", "off"]
