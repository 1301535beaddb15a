"""Label selectors, as Kubernetes reads them."""

from __future__ import annotations

import pytest

from fleet_app.audit.selectors import selects
from tests.manifests import of, term

LABELS = {"app": "train", "tier": "a"}

CASES = {
    "none selects nothing": (None, False),
    "an empty one selects everything": ({}, True),
    "a label that is there": (of({"app": "train"}), True),
    "one with another value": (of({"app": "web"}), False),
    "all have to be there": (of({"app": "train", "zone": "z"}), False),
    "a value among several": (term("app", "In", "web", "train"), True),
    "a value among none": (term("app", "In"), False),
    "a label that is not there is in no list": (term("zone", "In", "z"), False),
    "a value that is not among several": (term("app", "NotIn", "web"), True),
    "a value that is": (term("app", "NotIn", "train"), False),
    "a label that is not there has no forbidden value": (term("zone", "NotIn", "z"), True),
    "it exists": (term("tier", "Exists"), True),
    "it does not": (term("zone", "Exists"), False),
    "it must not": (term("tier", "DoesNotExist"), False),
    "it must not and does not": (term("zone", "DoesNotExist"), True),
    "labels and terms both": ({**of({"app": "train"}), **term("tier", "In", "b")}, False),
    "an operator that there is not": (term("tier", "Like", "a"), False),
}


@pytest.mark.parametrize(("selector", "want"), CASES.values(), ids=CASES)
def test_selects(selector, want):
    assert selects(selector, LABELS) == want
