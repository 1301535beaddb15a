"""docs/rules.md and those who name its numbers: no rule that nobody names, no number that is no rule."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
RULES = (ROOT / "docs/rules.md").read_text()
HELD, _, ELSEWHERE = RULES.partition("## Held elsewhere")

ONE = r"[QOPRSDCFBHIWGVN][0-9]{1,2}"


def listed(text: str) -> set[str]:
    """Return the numbers of the rules in a text of tables."""
    return set(re.findall(rf"^\| ({ONE}) \|", text, flags=re.MULTILINE))


def named(*folders: str) -> set[str]:
    """Return the numbers that the docstrings and comments of folders name, ranges such as `R1 to R6` included."""
    found: set[str] = set()
    for folder in folders:
        for path in sorted(set((ROOT / folder).rglob("*.py")) - {Path(__file__)}):
            text = path.read_text()
            found |= set(re.findall(rf"\b({ONE})\b", text))
            for first, last in re.findall(rf"\b({ONE}) to ({ONE})\b", text):
                found |= {f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)}
    return found


def test_every_rule_that_is_held_is_named_in_the_engine() -> None:
    assert {rule for rule in listed(HELD) if rule[0] != "I"} - named("fleet_app/engine") == set()


def test_every_rule_that_is_held_is_named_by_a_test() -> None:
    assert listed(HELD) - named("tests/unit/engine", "tests/laws") == set()


def test_every_rule_that_is_held_elsewhere_is_named_by_a_live_test() -> None:
    assert listed(ELSEWHERE) - named("tests/live") == set() != listed(ELSEWHERE)


def test_no_other_numbers_are_named() -> None:
    assert named("fleet_app/engine", "tests/unit/engine", "tests/laws") - listed(RULES) == set()


def test_a_rule_is_one_sentence() -> None:
    for text in re.findall(rf"^\| {ONE} \| (.*) \|$", RULES, flags=re.MULTILINE):
        assert text.endswith(".")
        assert text.count(". ") == 0, text
