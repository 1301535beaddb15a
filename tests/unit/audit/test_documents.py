"""Manifests as people and Helm write them; what is none is named with its line, and nothing expands without end."""

from __future__ import annotations

import pytest

from fleet_app.audit import documents
from fleet_app.audit.documents import parse
from fleet_app.engine.errors import RequestError

ONE = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"

READ = {
    "nothing": ("", []),
    "only comments, as a chart leaves them": ("---\n# Source: a\n---\n", []),
    "one object": (ONE, [("Pod", 1)]),
    "several, each with the line where it begins": (f"# Source: x\n{ONE}---\n# y\n{ONE}", [("Pod", 2), ("Pod", 7)]),
    "JSON": ('{"apiVersion": "v1", "kind": "Node"}', [("Node", 1)]),
    "a List": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- {apiVersion: v1, kind: B}\n",
        [("A", 1), ("B", 1)],
    ),
    "an empty List": ("apiVersion: v1\nkind: PodList\nitems:\n", []),
    "a resource that is called a list": (
        "apiVersion: x/v1\nkind: AllowList\nmetadata: {name: a}\n",
        [("AllowList", 1)],
    ),
    "anchors": ("apiVersion: v1\nkind: Pod\nspec: &a {b: 1}\nmore: *a\n", [("Pod", 1)]),
}


@pytest.mark.parametrize(("text", "want"), READ.values(), ids=READ)
def test_read(text, want):
    assert [(thing.kind, thing.line) for thing in parse(text, "x.yaml")] == want


def test_empty_values_are_taken_out_and_dates_stay_text():
    text = "apiVersion: v1\nkind: Pod\nspec: {a: null, b: [1, null], c: 2026-01-01}\n"
    (thing,) = parse(text, "x.yaml")
    assert thing.object["spec"] == {"b": [1], "c": "2026-01-01"}


REFUSED = {
    "no object": ("a: 1\n", "x.yaml:1: is no Kubernetes object"),
    "the second is none": (f"{ONE}---\njust text\n", "x.yaml:5: is no Kubernetes object"),
    "a kind that is no text": ("apiVersion: v1\nkind: [Pod]\n", "x.yaml:1: is no Kubernetes object"),
    "no YAML": ("a: [1\n", "x.yaml: is not valid YAML"),
    "a tag that would construct something": ("!!python/object:os.system {}\n", "x.yaml: is not valid YAML"),
    "what is nested without end": ("[" * 10_000, "x.yaml: is not valid YAML"),
    "what contains itself": ("apiVersion: v1\nkind: Pod\nspec: &a {b: *a}\n", "x.yaml: holds more than"),
    "a spec that is no mapping": ("apiVersion: v1\nkind: Pod\nspec: 3\n", "x.yaml:1: spec is no mapping"),
    "an item of a List that is no object": ("apiVersion: v1\nkind: List\nitems: [1]\n", "x.yaml:1: is no Kubernetes"),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(text, want):
    with pytest.raises(RequestError) as caught:
        parse(text, "x.yaml")
    assert str(caught.value).startswith(want)


def test_aliases_do_not_make_more_of_a_text_than_it_is(monkeypatch):
    monkeypatch.setattr(documents, "MOST_VALUES", 100)
    rows = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else '1'}]\n" for n in range(4))
    with pytest.raises(RequestError, match=r"x\.yaml: holds more than 100 values"):
        parse(f"apiVersion: v1\nkind: Pod\n{rows}", "x.yaml")
