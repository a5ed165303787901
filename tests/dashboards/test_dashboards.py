"""Dashboard and rules speak of metrics that exist, and of reasons that exist."""

import json
import re
from pathlib import Path

import pytest

from proxy.observe import families
from routing.consistency.decision import Reason
from spark_jobs.report.metrics import LIVE, NIGHTLY, figures
from tests.spark_jobs.found import findings

DASHBOARDS = Path(__file__).resolve().parents[2] / "dashboards"
GRAFANA = DASHBOARDS / "grafana" / "tidegate.json"
RULES = sorted((DASHBOARDS / "rules").glob("*.yml"))

DEFINITIONS = {
    definition.name: definition
    for definition in vars(families).values()
    if isinstance(definition, families.Definition)
}


AUDIT = {
    metric.name: {label for sample in metric.samples for label in sample.labels}
    for prefix in (NIGHTLY, LIVE)
    for metric in figures(
        prefix, log="", exit_code=0, begun_s=0, duration_s=0, findings=findings()
    ).collect()
}
"""Metrics of audits, and their labels."""


def metrics(text: str) -> set[str]:
    """Metric families in a PromQL text; recording rules have colons and are left out."""
    names = set(re.findall(r"(?<![\w:./-])tidegate_[a-z0-9_]+(?![\w:])", text))
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


@pytest.mark.parametrize("path", [GRAFANA, *RULES], ids=lambda path: path.name)
def test_every_metric_is_defined(path: Path) -> None:
    named = metrics(path.read_text())
    assert named
    assert named <= {*DEFINITIONS, *AUDIT}


def test_dashboard_shows_every_metric() -> None:
    assert set(DEFINITIONS) == metrics(GRAFANA.read_text())


@pytest.mark.parametrize("path", [GRAFANA, *RULES], ids=lambda path: path.name)
def test_every_label_is_one_of_its_metric(path: Path) -> None:
    text = path.read_text().replace('\\"', '"')
    for name, selector in re.findall(r"(tidegate_[a-z0-9_]+)\{([^}]*)\}", text):
        family = re.sub(r"_(bucket|count|sum)$", "", name)
        known = AUDIT.get(family) or DEFINITIONS[family].labels
        labels = set(re.findall(r"(\w+)\s*[=!]~?", selector))
        assert labels <= {*known, "worker", "instance", "job"}, f"{name}{{{selector}}}"


def test_every_reason_exists() -> None:
    words = "".join(path.read_text() for path in (GRAFANA, *RULES)).replace('\\"', '"')
    reasons = {r for m in re.findall(r'reason=~?"([^"]+)"', words) for r in m.split("|")}
    assert reasons
    assert reasons <= set(Reason)


def test_panels_have_ids_and_places_of_their_own() -> None:
    panels = json.loads(GRAFANA.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["type"] == "row" or panel["targets"]
