"""Each server of a tree of replicas is found once, whoever reports it, and not without bound."""

from hypothesis import given
from hypothesis import strategies as st

from routing.servers.replica_tree import MOST, Branch, Reported, replica_tree


def server(name: str) -> Reported:
    return Reported(name, f"{name}:3306")


def names(found: list[Branch]) -> list[str]:
    return [f"{branch.source}>{branch.replica.uuid}" for branch in found]


def test_replicas_of_replicas_are_found() -> None:
    reports = {"p": [server("a"), server("b")], "b": [server("c")], "c": [server("d")]}
    found, complete = replica_tree(["p"], reports)
    assert names(found) == ["p>a", "p>b", "b>c", "c>d"]
    assert complete


def test_a_server_that_two_report_is_found_once() -> None:
    reports = {"p": [server("a"), server("b")], "a": [server("b")], "b": [server("p")]}
    assert names(replica_tree(["p"], reports)[0]) == ["p>a", "p>b"]


def test_roots_are_not_found_and_need_no_report() -> None:
    reports = {"p": [server("a")], "a": [server("b")], "z": [server("y")]}
    assert names(replica_tree(["p", "a", "x", ""], reports)[0]) == ["p>a", "a>b"][1:]


def test_a_server_without_an_address_leads_to_its_replicas() -> None:
    hidden = Reported("a", "", "it reports no address")
    found, _ = replica_tree(["p"], {"p": [hidden], "a": [server("b")]})
    assert names(found) == ["p>a", "a>b"]
    assert found[0].replica.fault


def test_no_more_are_found_than_can_be_watched() -> None:
    reports = {"p": [server(str(number)) for number in range(1000)]}
    found, complete = replica_tree(["p"], reports)
    assert len(found) == MOST
    assert not complete


NAMES = st.sampled_from("pabcdefgh")


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=5)), st.lists(NAMES, max_size=3))
def test_any_graph_is_walked_once(graph: dict[str, list[str]], roots: list[str]) -> None:
    reports = {name: [server(other) for other in others] for name, others in graph.items()}
    found, complete = replica_tree(roots, reports)
    reached = [branch.replica.uuid for branch in found]
    assert complete
    assert len(reached) == len(set(reached))
    assert not set(reached) & set(roots)
    known = set(roots)
    for source, replica in [(branch.source, branch.replica.uuid) for branch in found]:
        assert source in known
        assert replica in graph[source]
        known.add(replica)
    assert all(other in known for name in known for other in graph.get(name, []))
