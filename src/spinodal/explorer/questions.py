"""Questions that a page can put: what anyone else sends is refused in a sentence, before Dash sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import InputError

_WIRES = ("inputs", "state")


def read_body(body: bytes) -> Any:
    """The JSON of a request."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # also what is no text, numbers of thousands of digits, and brackets nested without end
        raise InputError("The body of a request must be JSON, but it is not.") from None


def check_question(question: Any, callbacks: Mapping[str, Any]) -> None:
    """Refuse the question of a callback unless it is one of ours, with its own inputs and outputs; their values are the callback's."""
    if not isinstance(question, dict):
        raise InputError("A question must be a JSON object.")
    output = question.get("output")
    callback = callbacks.get(output) if isinstance(output, str) else None
    if callback is None or "callback" not in callback:
        raise InputError("output must name a callback of this page.")
    for name in _WIRES:
        if not _are_wires(question.get(name, []), [(each["id"], each["property"]) for each in callback[name]]):
            raise InputError(f"{name} must be those of the callback.")
    outputs = question.get("outputs")
    if not _are_wires(outputs if isinstance(outputs, list) else [outputs], _outputs(str(output)), several=isinstance(outputs, list)):
        raise InputError("outputs must be those of the callback.")
    changed = question.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(each, str) for each in changed):
        raise InputError("changedPropIds must be a list of names.")


def _outputs(name: str) -> list[tuple[str, str]]:
    """The outputs in the name of a callback: "id.property", or several as "..id.property...id.property..", perhaps with a hash."""
    several = name.startswith("..")
    words = [word.split("@")[0].rsplit(".", 1) for word in (name[2:-2].split("...") if several else [name])]
    return [(id, kind) for id, kind in words]


def _are_wires(given: Any, expected: list[tuple[str, str]], several: bool | None = None) -> bool:
    """Whether a list has these ids and properties in this order, and nothing else but values."""
    if not isinstance(given, list) or len(given) != len(expected) or (several is not None and several != (len(expected) > 1)):
        return False
    return all(
        isinstance(each, dict)
        and set(each) <= {"id", "property", "value"}
        and each.get("id") == id
        and isinstance(each.get("property"), str)
        and each["property"].split("@")[0] == kind
        for each, (id, kind) in zip(given, expected, strict=True)
    )
