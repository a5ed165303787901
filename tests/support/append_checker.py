"""Decides from transactions that read and append to lists which anomalies there were.

``check(transactions) -> list[str]`` is the idea of Elle: a value is appended once, so a list tells
in which order its values were appended, and who read it tells after which of them. Of each read of
a list, and of all together, it says:

* incompatible order: two reads of a list, neither of which is the beginning of the other.
* G1a: a value that was not committed. G1b: one that its own transaction has appended to, behind.
* internal: a transaction's own appends, made before, are not at the end of what it reads.
* own: what the client had committed before is missing.
* G0, G1c: a circle of transactions, each of which appended behind the one before (ww), or read what
  it appended (wr). With ww alone it is G0.

At READ COMMITTED a server shows none of these. In a transaction that reads one snapshot nor these:

* changed: a list is not what it was a read before.
* fractured: of a transaction, or of one whose appends it stood behind, it saw some and not all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Operation:
    """One of a transaction.

    Attributes:
        key: of the list.
        appended: the value that it appended; 0 if it read.
        values: what it read.
    """

    key: int
    appended: int = 0
    values: tuple[int, ...] = ()


@dataclass(slots=True)
class Transaction:
    """What a client did, in order.

    Attributes:
        number: its name; those of one client grow.
        client: whose it is.
        operations: what succeeded.
        outcome: "committed", "aborted" or "unknown".
        snapshot: it writes nothing, and all its reads are of one state.
    """

    number: int
    client: str
    operations: list[Operation] = field(default_factory=list)
    outcome: str = "unknown"
    snapshot: bool = False


def check(transactions: Sequence[Transaction]) -> list[str]:
    """The anomalies, each as a sentence."""
    found: list[str] = []
    writers: dict[tuple[int, int], Transaction] = {}
    last: dict[tuple[int, int], int] = {}  # a transaction's last append to a list
    for transaction in transactions:
        for operation in transaction.operations:
            if operation.appended:
                writers[operation.key, operation.appended] = transaction
                last[transaction.number, operation.key] = operation.appended
    orders = _orders(transactions, found)
    own: dict[tuple[str, int], list[int]] = defaultdict(list)
    for transaction in transactions:
        own_appends: dict[int, list[int]] = defaultdict(list)
        for operation in transaction.operations:
            key, values = operation.key, operation.values
            if operation.appended:
                own_appends[key].append(operation.appended)
                continue
            where = f"transaction {transaction.number} read {values} of list {key}"
            if own_appends[key] and list(values[-len(own_appends[key]) :]) != own_appends[key]:
                found.append(f"internal: {where}, behind its own appends {own_appends[key]}")
            if not set(own[transaction.client, key]) <= set(values):
                found.append(f"own: {where}, behind {own[transaction.client, key]} of its client")
            for value in values:
                writer = writers.get((key, value))
                if writer is None or (writer is not transaction and writer.outcome == "aborted"):
                    found.append(f"G1a: {where}, and {value} was not committed")
            if values:
                writer = writers.get((key, values[-1]))
                if writer not in (None, transaction) and last[writer.number, key] != values[-1]:
                    found.append(f"G1b: {where}, and {values[-1]} was not the last of its writer")
        if transaction.outcome == "committed":
            for key, appended in own_appends.items():
                own[transaction.client, key] += appended
    behind, seen = _edges(transactions, orders, writers)
    found += [f"G0: {circle}" for circle in _circles(behind)]
    for transaction in transactions:
        if transaction.snapshot:
            found += _torn(transaction, orders, writers)
    both = {
        number: behind.get(number, set()) | seen.get(number, set())
        for number in behind.keys() | seen
    }
    return found + [f"G1c: {circle}" for circle in _circles(both)]


def _torn(
    transaction: Transaction,
    orders: Mapping[int, Sequence[int]],
    writers: Mapping[tuple[int, int], Transaction],
) -> list[str]:
    """What shows that a transaction's reads are of several states."""
    found: list[str] = []
    read: dict[int, tuple[int, ...]] = {}
    for operation in transaction.operations:
        key, values = operation.key, operation.values
        if read.setdefault(key, values) != values:
            found.append(
                f"changed: transaction {transaction.number} read {values} behind {read[key]}"
            )
    seen = {(key, value) for key, values in read.items() for value in values}
    # Who wrote what it saw had appended to other lists, too; and who stood before them there.
    todo = [writers[append].number for append in seen if append in writers]
    by_number = {writer.number: writer for writer in writers.values()}
    known = set(todo)
    while todo:
        for operation in by_number[todo.pop()].operations:
            key, value = operation.key, operation.appended
            if not value or value not in orders.get(key, ()):
                continue
            if key in read and value not in read[key]:
                found.append(
                    f"fractured: transaction {transaction.number} lacks {value} of list {key}"
                )
            order = orders[key]
            for earlier in order[: order.index(value)]:
                writer = writers.get((key, earlier))
                if writer is not None and writer.number not in known:
                    known.add(writer.number)
                    todo.append(writer.number)
    return found


def _orders(transactions: Sequence[Transaction], found: list[str]) -> dict[int, tuple[int, ...]]:
    """The longest that was read of each list."""
    longest: dict[int, tuple[int, ...]] = {}
    reads = [
        operation
        for transaction in transactions
        for operation in transaction.operations
        if _lasts(transaction, operation)
    ]
    for read in reads:
        if len(read.values) > len(longest.get(read.key, ())):
            longest[read.key] = read.values
    for read in reads:
        if read.values != longest.get(read.key, ())[: len(read.values)]:
            found.append(f"incompatible order: {read.values} of list {read.key}")
    return longest


def _lasts(transaction: Transaction, read: Operation) -> bool:
    """Whether it is a read, and not of what its own transaction took back."""
    if read.appended:
        return False
    taken_back = transaction.outcome == "aborted" and any(
        operation.appended and operation.key == read.key for operation in transaction.operations
    )
    return not taken_back


_Edges = dict[int, set[int]]


def _edges(
    transactions: Iterable[Transaction],
    orders: Mapping[int, Sequence[int]],
    writers: Mapping[tuple[int, int], Transaction],
) -> tuple[_Edges, _Edges]:
    """Of each transaction: who appended right behind it, and who read what it appended."""
    behind: _Edges = defaultdict(set)
    seen: _Edges = defaultdict(set)
    for key, values in orders.items():
        chain = [writers[key, value].number for value in values if (key, value) in writers]
        for before, after in pairwise(chain):
            if before != after:
                behind[before].add(after)
    for transaction in transactions:
        if transaction.outcome == "aborted":
            continue
        for operation in transaction.operations:
            writer = (
                writers.get((operation.key, operation.values[-1])) if operation.values else None
            )
            if writer is not None and writer is not transaction:
                seen[writer.number].add(transaction.number)
    return behind, seen


def _circles(edges: Mapping[int, set[int]]) -> list[list[int]]:
    """Transactions that are in circles: what is left where nobody is first."""
    waiting = {number: set(after) for number, after in edges.items()}
    before: dict[int, int] = defaultdict(int)
    for after in waiting.values():
        for number in after:
            before[number] += 1
    ready = [number for number in waiting if not before[number]]
    while ready:
        for number in waiting.pop(ready.pop(), set()):
            before[number] -= 1
            if not before[number]:
                ready.append(number)
    return [sorted(waiting)] if waiting else []
