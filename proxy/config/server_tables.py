"""The tables ``[servers."HOST:PORT"]`` of the file: where a server is, and its share of reads."""

import difflib
from collections.abc import Callable, Mapping
from typing import Final

from proxy.address import Address
from proxy.config import toml_text, values
from routing.servers.placement import ANYWHERE, MOST_WEIGHT, Place

KIND: Final = "servers"
KEYS: Final = ("weight", "zone")

_weight: Final = values.integer(0, MOST_WEIGHT)


def read(raw: object, report: Callable[[str], None]) -> dict[Address, Place]:
    """Read all tables.

    Args:
        raw: what the TOML file has under `KIND`.
        report: is told of each thing that is wrong, in words that begin with the table's header;
            what is wrong is left out.
    """
    found: dict[Address, Place] = {}
    if not isinstance(raw, dict):
        report(f'{KIND} = {toml_text.written(raw)}: want tables [{KIND}."HOST:PORT"]')
        return found
    for text, content in raw.items():
        header = toml_text.header(KIND, text)
        try:
            address = values.server(text)
        except ValueError as error:
            report(f"{header}: {error}")
            continue
        if not isinstance(content, dict):
            report(f"[{KIND}]: {text} = {toml_text.written(content)}: want a table {header}")
        elif address in found:
            report(f"{header}: {address} is given twice")
        else:
            found[address] = _place(header, content, report)
    return found


def _place(header: str, content: Mapping[str, object], report: Callable[[str], None]) -> Place:
    place = ANYWHERE
    for key, raw in content.items():
        try:
            if key == "weight":
                place = place._replace(weight=_weight(raw))
            elif key == "zone":
                place = place._replace(zone=values.name(raw))
            else:
                near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(KEYS)}"
                report(f"{header}: {key}: unknown key; {hint}")
        except ValueError as error:
            report(f"{header}: {key} = {toml_text.written(raw)}: {error}")
    return place


def to_toml(places: Mapping[Address, Place]) -> str:
    """Write tables as `read` reads them."""
    lines: list[str] = []
    for address, place in places.items():
        lines += ["", toml_text.header(KIND, str(address)), f"weight = {place.weight}"]
        lines += [f"zone = {toml_text.written(place.zone)}"] if place.zone else []
    return "".join(f"{line}\n" for line in lines)
