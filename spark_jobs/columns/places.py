"""Hashes that identify groups, servers and series; two agree by chance with probability 2**-64."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns import hashes
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.text import Text

BLOCKED: Final = "blocked"
"""Used in place of a source: something was written in the group whose set is odd (`sets`)."""
BLIND: Final = "blind"
"""Used in place of a source: something was seen in the group whose set is odd."""
DOUBTED: Final = "doubted"
"""Used in place of a source: something was left open in the group."""
ROUGH: Final = "rough"
"""Used in place of a source: a server showed a set that is odd."""


class Places:
    """The hashes for a chunk's records.

    Args:
        chunk: the records.
        clusters: the cluster of each proxy.
    """

    def __init__(self, chunk: Chunk, clusters: Mapping[str, str]) -> None:
        self._chunk = chunk
        self._clusters = clusters
        self._proxy = _each(chunk.text("proxy"))
        self.run = hashes.mixed(self._proxy, chunk.number("worker"), _each(chunk.text("run")))

    def group(self, kind: str) -> Numbers:
        """The hash of each record's group of a kind, as in `spark_jobs.reads.groups`."""
        chunk, salt = self._chunk, hashes.of(kind)
        if kind == "connection":
            return hashes.mixed(salt, self.run, chunk.number("session"))
        if kind in ("user", "application"):
            return hashes.mixed(salt, self._proxy, _each(chunk.text(kind)))
        if kind == "proxy":
            return hashes.mixed(salt, self._proxy)
        return hashes.mixed(salt, self.cluster)

    @property
    def cluster(self) -> Numbers:
        """The hash of each record's cluster."""
        return np.array([hashes.of(it) for it in (*self.clusters, None)])[self.cluster_codes]

    @property
    def clusters(self) -> list[str]:
        """The names of clusters, one for each proxy of the chunk."""
        return [self._clusters[it] for it in self._chunk.text("proxy").values]

    @property
    def cluster_codes(self) -> Numbers:
        """For each record, the place of its cluster in `clusters`."""
        return self._chunk.text("proxy").codes

    @property
    def server(self) -> Numbers:
        """The hash of the server incarnation that each record names; runs count them separately."""
        chunk = self._chunk
        known = chunk.known("incarnation").astype(np.int64)
        uuid = _each(chunk.text("server_uuid"))
        return hashes.mixed(self.run, uuid, known, chunk.number("incarnation"))


def counts(chunk: Chunk, kind: str) -> Flags:
    """Whether what a record wrote or saw counts in its group of a kind."""
    statement = chunk.is_statement
    if kind == "connection":
        return statement
    writes = chunk.is_named | chunk.is_unnamed
    if kind == "cluster":
        return writes | chunk.has_whole
    tells = statement & (writes | chunk.text("observed").filled | chunk.is_read)
    if kind == "application":
        tells &= chunk.text("application").filled
    return tells


def series(group: Numbers, source: str | int | Numbers) -> Numbers:
    """The hash of the series of one source in each group."""
    return hashes.mixed(group, hashes.of(source) if isinstance(source, str) else source)


def _each(text: Text) -> Numbers:
    return hashes.of_texts(text.held)[text.codes]
