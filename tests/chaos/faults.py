"""All faults, by name."""

from tests.chaos import (
    group_faults,
    network_faults,
    primary_faults,
    promotion_faults,
    replica_faults,
)
from tests.chaos.scene import Fault

FAULTS = {
    value.name: value
    for module in (replica_faults, network_faults, primary_faults, promotion_faults, group_faults)
    for value in vars(module).values()
    if isinstance(value, Fault)
}
