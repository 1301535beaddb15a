"""YAML as the fleet reads it: plain values with their lines, and nothing that could hurt the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.errors import RequestError
from fleet_app.policy.document import MOST_BYTES, parse_document, read_document

SCALARS = {
    "an integer": ("7", 7),
    "a negative integer": ("-7", -7),
    "a leading zero is no octal": ("010", 10),
    "a fraction": ("0.5", 0.5),
    "a quoted number is text": ("'7'", "7"),
    "true": ("true", True),
    "no is text": ("no", "no"),
    "on is text": ("on", "on"),
    "a clock time is text": ("1:30", "1:30"),
    "a date is text": ("2024-01-01", "2024-01-01"),
    "nothing": ("", None),
    "null": ("null", None),
    "a version is text": ("1.2.3", "1.2.3"),
    "absurdly many digits stay text": ("9" * 5000, "9" * 5000),
}

BILLION_LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"

REFUSED = {
    "an alias bomb": (BILLION_LAUGHS, "anchor or alias", "t:1"),
    "an alias alone": ("a: 1\nb: *a\n", "anchor or alias", "t:2"),
    "a merge key": ("a: &x {b: 1}\nc:\n  <<: *x\n", "anchor or alias", "t:1"),
    "a Python object": ("a: !!python/object/apply:os.system [ls]\n", "tag", "t:1"),
    "a tag of any kind": ("a: !!set {b}\n", "tag", "t:1"),
    "nesting without end": ("a: " + "[" * 200, "nested more than 32 deep", "t:1"),
    "nesting by mappings": ("a: " + "{a: " * 40, "nested more than 32 deep", "t:1"),
    "two documents": ("a: 1\n---\nb: 2\n", "more than one document", "t:2"),
    "a duplicate key": ("a: 1\nb: 2\na: 3\n", "given twice", "t:1: a"),
    "a duplicate key below": ("a:\n  b: 1\n  b: 2\n", "given twice", "t:2: a.b"),
    "a list as key": ("? [a]\n: 1\n", "not plain text", "t:1"),
    "a list at the top": ("- a\n", "must be a mapping", "t"),
    "a word at the top": ("hello\n", "must be a mapping", "t"),
    "an empty text": ("", "must be a mapping", "t"),
    "a tab as indentation": ("a:\n\tb: 1\n", "not valid YAML", "t:2"),
    "an open bracket": ("a: [1, 2\n", "not valid YAML", "t:"),
    "a NUL": ("a: \0\n", "YAML forbids", "t"),
    "a lone surrogate": ("a: \ud800\n", "YAML forbids", "t"),
    "a text that is too large": ("a: " + "x" * MOST_BYTES, "larger than 1 MiB", "t"),
}


@pytest.mark.parametrize(("text", "want"), SCALARS.values(), ids=SCALARS)
def test_a_plain_value_is_read_without_surprises(text, want):
    value = parse_document(f"key: {text}", "t").values["key"]
    assert (type(value), value) == (type(want), want)


@pytest.mark.parametrize(("text", "what", "where"), REFUSED.values(), ids=REFUSED)
def test_what_could_hurt_or_mislead_is_refused_with_place_and_fix(text, what, where):
    with pytest.raises(RequestError) as refused:
        parse_document(text, "t")
    assert what in refused.value.what
    assert refused.value.where.startswith(where)
    assert refused.value.fix


def test_a_tab_is_named_in_the_fix():
    with pytest.raises(RequestError, match="spaces, not tabs"):
        parse_document("a:\n\tb: 1\n", "t")


def test_every_path_has_its_line():
    document = parse_document("a:\n  b: 1\n  c:\n    - x\n    - y\n", "t")
    assert document.lines == {(): 1, ("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5}


FILES = {
    "bytes that are no UTF-8": (b"a: \xff\n", "not UTF-8"),
    "UTF-16": ("a: 1\n".encode("utf-16"), "not UTF-8"),
    "a huge file": (b"a: 1\n" + b"#" * MOST_BYTES, "larger than 1 MiB"),
}


@pytest.mark.parametrize(("data", "what"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_small_text_is_refused(tmp_path, data, what):
    path = tmp_path / "policy.yaml"
    path.write_bytes(data)
    with pytest.raises(RequestError) as refused:
        read_document(path)
    assert what in refused.value.what
    assert refused.value.where == str(path)
    assert refused.value.fix


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(RequestError, match="cannot be read"):
            read_document(path)


def test_endless_input_is_read_no_further_than_the_limit():
    with pytest.raises(RequestError, match="larger than 1 MiB"):
        read_document(Path("/dev/zero"))


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_document(path).values == {"name": "x"}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), PLAIN, max_size=4))
def test_what_yaml_writes_is_read_back(values):
    text = yaml.safe_dump(values, allow_unicode=False, default_style='"')
    plain = yaml.safe_dump(values, allow_unicode=False)
    assert _told(text) == _told_by_tags(text)
    assert _told(plain) in (values, _told(plain))


def _told(text: str) -> object:
    try:
        return parse_document(text, "t").values
    except RequestError as error:
        return type(error)


def _told_by_tags(text: str) -> object:
    """A text with explicit tags (`!!int "1"`) is refused; one with none says what it says."""
    return RequestError if "!!" in text else yaml.safe_load(text)


@given(st.text(max_size=200))
def test_any_text_at_all_is_read_or_refused_as_a_request(text):
    assert _told(text) is RequestError or isinstance(_told(text), dict)
