"""Django's tests of its database layer, by way of mysqlclient."""

from __future__ import annotations

from tests.clients import mysqlclient, versions
from tests.clients.environment import Environment
from tests.clients.suite import Invocation, Suite, Target

_HERE = Environment("django")

# Those that are about databases, less the longest: about ten minutes in all for both runs.
_LABELS = """
aggregation annotations backends base basic bulk_create constraints custom_columns custom_pk
datatypes dates datetimes db_functions defer delete distinct_on_fields expressions
expressions_case expressions_window fixtures force_insert_update foreign_object from_db_value
get_or_create indexes inspectdb introspection lookup m2m_regress many_to_many many_to_one
migrations model_fields model_inheritance multiple_database nested_foreign_keys null_queries
ordering prefetch_related queries raw_query save_delete_hooks schema select_for_update
select_related timezones transaction_hooks transactions update
"""


def _prepare() -> None:
    requirement, variables = mysqlclient.build()
    tools = ["tblib==3.1.0", "jinja2==3.1.6", "pyyaml==6.0.3"]
    _HERE.install(versions.DJANGO, requirement, *tools, *versions.TOOLS, extra=variables)


def _invocation(target: Target) -> Invocation:
    _, variables = mysqlclient.build()
    tests = _HERE.source(versions.DJANGO) / "tests"
    options = ["--settings=tidegate_django", "--parallel=1", "--noinput", "-v0"]
    return Invocation(
        (str(_HERE.python), "runtests.py", *options, *_LABELS.split()),
        folder=tests,
        environment={**variables, **target.variables},
    )


SUITE = Suite(
    name="django",
    title=f"of its own tests, the database layer's: {', '.join(_LABELS.split())}; with mysqlclient",
    versions=f"{versions.DJANGO}, {versions.MYSQLCLIENT}",
    statements=(),
    prepare=_prepare,
    invocation=_invocation,
)
