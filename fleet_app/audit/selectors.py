"""Label selectors, as Kubernetes reads them: what `kubectl get -l` and a disruption budget mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector selects something with these labels: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = (selector.get("matchLabels") or {}).items()
    terms = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted) and all(_holds(term, labels) for term in terms)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(term.get("key")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:  # the API server would not take it
            return False
