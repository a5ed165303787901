"""Some records of a log as arrays, for the other modules of this folder."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns import sets
from spark_jobs.columns.sets import Sets
from spark_jobs.columns.text import Text
from spark_jobs.promise import CLUSTER_LEVELS, OWN_LEVELS, SCOPES, SEEN_LEVELS


class Rules(NamedTuple):
    """Which records are read, and which reads are to be judged.

    Attributes:
        begin_us: records that arrived from then on are read.
        end_us: records that arrived before then are read.
        judge_from_us: reads that arrived from then on are judged.
        judge_to_us: reads that arrived before then are judged.
        ahead: for runs whose clocks differ from the others: how far they are ahead, µs. This is
            subtracted from all of their times, but not when times are compared with the four above.
        error_us: by how much clocks may still differ, µs.
    """

    begin_us: int
    end_us: int
    judge_from_us: int
    judge_to_us: int
    ahead: tuple[tuple[tuple[str, int, str], int], ...] = ()
    error_us: int = 0

    def since_us(self, from_us: int) -> int:
        """A time, µs, that is no later than any other after correction.

        Args:
            from_us: the earliest time before correction.
        """
        ahead = (0, *(its for _, its in self.ahead))  # all other clocks are right
        return from_us - max(ahead) - self.error_us


_MANY: Final = 1024
"""If a column has more texts than this, only those that occur in the chunk are kept."""

_TIMES: Final = ("arrived_us", "dispatched_us", "ended_us", "snapshot_us")

EVERYTHING: Final = Rules(-(2**62), 2**62, -(2**62), 2**62)


class Chunk:
    """Records as columns; `rules` say which of them are judged."""

    def __init__(self, batch: pa.RecordBatch, rules: Rules) -> None:
        self._batch = batch
        self._rules = rules
        self._texts: dict[str, Text] = {}
        self._numbers: dict[str, Numbers] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    # Columns

    def text(self, name: str) -> Text:
        """A column of text."""
        found = self._texts.get(name)
        if found is None:
            column = self._batch.column(name)
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            values = column.dictionary
            if len(values) > _MANY:  # these are the texts of the whole piece
                used = np.zeros(len(values) + 1, bool)
                used[codes] = True
                used[-1] = False
                places = np.append(np.cumsum(used[:-1]) - 1, -1)
                codes, values = places[codes], values.take(pa.array(np.flatnonzero(used)))
            found = self._texts[name] = Text(codes, values)
        return found

    def number(self, name: str) -> Numbers:
        """A column of whole numbers; 0 for null."""
        found = self._numbers.get(name)
        if found is None:
            found = self._read(name)
            if name in _TIMES and self._rules.ahead:
                found = found - self._ahead
            self._numbers[name] = found
        return found

    def _read(self, name: str) -> Numbers:
        found: Numbers = self._batch.column(name).fill_null(0).to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def _ahead(self) -> Numbers:
        """By how much each record's clock is ahead of the others."""
        ahead = np.zeros(len(self), np.int64)
        proxy, run, worker = self.text("proxy"), self.text("run"), self.number("worker")
        for (its_proxy, its_worker, its_run), its in self._rules.ahead:
            ahead[proxy.isin(its_proxy) & run.isin(its_run) & (worker == its_worker)] = its
        return ahead

    def flag(self, name: str) -> Flags:
        """A column of booleans; False for null."""
        column = self._batch.column(name).fill_null(False)
        flags: Flags = column.to_numpy(zero_copy_only=False)
        return flags

    def known(self, name: str) -> Flags:
        """Where a column of numbers is not null."""
        column = self._batch.column(name)
        if not column.null_count:
            return np.ones(len(self), bool)
        flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
        return flags

    def column(self, name: str) -> pa.Array:
        """A column as an Arrow array."""
        if name in _TIMES and self._rules.ahead:
            return pa.array(self.number(name), mask=~self.known(name))
        return self._batch.column(name)

    # What records say by themselves (`spark_jobs.records.statement`)

    @cached_property
    def is_statement(self) -> Flags:
        """Whether each record is a statement."""
        return self.text("kind").isin("statement")

    @cached_property
    def is_proof(self) -> Flags:
        """Whether it is a proof: it says what a server has."""
        return self.text("kind").isin("proof")

    @cached_property
    def is_probed(self) -> Flags:
        """Whether a server was asked for its whole set."""
        return self.is_proof & self.text("proof").isin("probed")

    @cached_property
    def of_primary(self) -> Flags:
        """Whether the primary answered."""
        return self.text("role").isin("primary")

    @cached_property
    def of_replica(self) -> Flags:
        """Whether a replica answered."""
        return self.text("role").isin("replica")

    @cached_property
    def is_ok(self) -> Flags:
        """Whether it ended well."""
        return self.text("outcome").isin("ok")

    @cached_property
    def is_read(self) -> Flags:
        """Whether it is a read (`spark_jobs.records.statement`)."""
        kind = self.text("class")
        answered = kind.isin("read") | self.of_replica
        return self.is_statement & ~kind.isin("diagnostic") & answered

    @cached_property
    def is_judged(self) -> Flags:
        """Whether it is a read that is to be judged."""
        return self.is_read & self.is_told

    @cached_property
    def is_told(self) -> Flags:
        """Whether it arrived in the judged period: the report's tables count only these."""
        arrived = self._read("arrived_us")
        return (arrived >= self._rules.judge_from_us) & (arrived < self._rules.judge_to_us)

    @cached_property
    def is_unnamed(self) -> Flags:
        """Whether it may have committed GTIDs that no record names."""
        told = self.flag("own_known") | (self.text("observed").filled & self.is_ok)
        lost = self.flag("may_write") & self.text("outcome").isin("lost")
        return self.is_statement & (~told | lost)

    @cached_property
    def _names_own(self) -> Flags:
        return self.text("own_gtids").filled

    @cached_property
    def _names_whole(self) -> Flags:
        """Whether it may have written, and only its server's whole set holds what."""
        return ~self._names_own & self.flag("may_write") & self.of_primary

    @cached_property
    def is_named(self) -> Flags:
        """Whether `named` holds all that it is known to have committed."""
        return self._names_own | (self._names_whole & self.text("observed").filled)

    @cached_property
    def has_whole(self) -> Flags:
        """Whether it holds a primary's whole set."""
        probed = self.is_probed & self.text("proof_set").known
        reported = self.is_statement & self.text("observed").filled
        return self.of_primary & (probed | reported)

    @cached_property
    def owed_in(self) -> Text:
        """The kind of group by which a read is judged."""
        level, scope = self.text("level"), self.text("scope")
        keyed = ~scope.isin("application") | self.text("application").filled
        wide = level.isin(*OWN_LEVELS, *SEEN_LEVELS) & scope.isin(*SCOPES) & keyed
        place = np.array([KINDS.index(it) if it in SCOPES else 0 for it in (*scope.values, "")])
        codes = np.where(wide, place[scope.codes], KINDS.index("connection"))
        codes = np.where(level.isin(*CLUSTER_LEVELS), KINDS.index("cluster"), codes)
        return Text(codes, pa.array(KINDS))

    @cached_property
    def moment_us(self) -> Numbers:
        """The moment whose state a read must see (`spark_jobs.records.statement`)."""
        known = self.known("snapshot_us")
        return np.where(known, self.number("snapshot_us"), self.number("arrived_us"))

    # GTID sets

    @cached_property
    def _set_numbers(self) -> tuple[pa.Array, Mapping[str, Numbers]]:
        """The texts of all sets, the empty one first; and each row's set number, by column."""
        names = [name for name in SETS if name in self._batch.schema.names]
        texts = [self.text(name) for name in names]
        every = pa.chunked_array([pa.array([""], pa.string()), *(it.held for it in texts)])
        encoded = every.dictionary_encode().combine_chunks()
        places = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        begin, numbers = 1, {}
        for name, text in zip(names, texts, strict=True):
            its = np.append(places[begin : begin + len(text.held)], NO_SET)
            numbers[name] = its[text.codes]
            begin += len(text.held)
        return encoded.dictionary, numbers

    @property
    def set_texts(self) -> pa.Array:
        """The texts of all sets that its columns hold."""
        return self._set_numbers[0]

    @cached_property
    def sets(self) -> Sets:
        """The sets of `set_texts`, parsed."""
        return sets.parse(self.set_texts)

    def set(self, name: str) -> Numbers:
        """The number of each row's set in a column; NO_SET where it is null."""
        return self._set_numbers[1][name]

    @cached_property
    def named(self) -> Numbers:
        """The set that holds all that a record is known to have committed."""
        whole = np.where(self._names_whole, self.set("observed"), NO_SET)
        return np.where(self._names_own, self.set("own_gtids"), whole)

    @cached_property
    def whole(self) -> Numbers:
        """A primary's whole set where `has_whole`, else NO_SET."""
        its = np.where(self.is_probed, self.set("proof_set"), self.set("observed"))
        return np.where(self.has_whole, its, NO_SET)


NO_SET: Final = 0
"""The number of the empty set."""

KINDS: Final = (*SCOPES, "cluster")
"""The kinds of groups."""

SETS: Final = ("required", "proof_set", "own_gtids", "observed", "whole")
"""Columns that hold GTID sets; `whole` is a column of ``tides``, not of records."""
