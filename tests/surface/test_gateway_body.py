"""What the gateway reads as JSON, and what it refuses before anything else looks at it."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.gateway.body import MAX_DEPTH, parse_json

REFUSED = {
    "NaN is no number": ('{"gpus": NaN}', "NaN is no number"),
    "infinity is no number": ('{"gpus": -Infinity}', "-Infinity is no number"),
    "a number beyond what a float holds is refused": ('{"gpus": 1e999}', "too large"),
    "a number of thousands of digits is refused": ('{"gpus": ' + "9" * 5000 + "}", "digits"),
    "nesting is bounded": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
    "nesting that would exhaust the parser is refused too": ("[" * 100_000, "nested deeper"),
    "half a surrogate pair cannot be stored": (r'{"name": "\ud800"}', "surrogate"),
    "half a surrogate pair in a key neither": (r'{"\udfff": 1}', "surrogate"),
    "NUL cannot be given to a process": (r'{"entrypoint": "a\u0000b"}', "NUL"),
    "what is no JSON is said to be none": ("{'a': 1}", "not JSON"),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, want: str) -> None:
    with pytest.raises(RequestError, match=want):
        parse_json(text)


ACCEPTED = {
    "an empty body is an empty object": ("", {}),
    "depth up to the limit is fine": ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
    "a whole surrogate pair is a letter like others": (r'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
    "an integer stays exact": ('{"a": 4611686018427387904}', {"a": 2**62}),
}


@pytest.mark.parametrize(("text", "want"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text: str, want: object) -> None:
    value = parse_json(text)
    assert want is None or value == want
