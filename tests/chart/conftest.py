"""The chart as tests render it, and what its objects are checked against: real schemas, and KubeRay's own CRD."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests import tools

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "fleet"
CLUSTERS = ROOT / "clusters"
RELEASE, NAMESPACE = "fleet", "ns"

Object = dict[str, Any]
Render = Callable[..., list[Object]]


@pytest.fixture(scope="session")
def helm() -> Callable[..., str]:
    """Run Helm; skips where it cannot be fetched."""
    try:
        program = tools.tool("helm")
    except tools.UnavailableError as error:
        pytest.skip(f"needs Helm: {error}")
    return functools.partial(run, str(program))


def run(*command: str) -> str:
    """Run a command; return what it printed. Fails with what it said."""
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(done.stderr or done.stdout)
    return done.stdout


@pytest.fixture(scope="session")
def render(helm: Callable[..., str]) -> Render:
    """Return the objects that the chart makes of some options of Helm's; each set of options is rendered once."""

    @functools.cache
    def rendered(*options: str) -> list[Object]:
        always = ("--namespace", NAMESPACE, "--set", "auth.token=secret")  # the same each time
        text = helm("template", RELEASE, str(CHART), *always, *options)
        return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]

    return rendered


@pytest.fixture(scope="session")
def custom() -> Callable[[Object], None]:
    """Check an object of KubeRay's against its CRD, unknown keys included; skips without Go."""
    try:
        folder = tools.kuberay() / "config" / "crd" / "bases"
    except tools.UnavailableError as error:
        pytest.skip(str(error))

    @functools.cache
    def validator(kind: str) -> jsonschema.Draft202012Validator:
        (file,) = (path for path in folder.iterdir() if path.stem.endswith(f"_{kind.lower()}s"))
        definition = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
        return jsonschema.Draft202012Validator(strict(version["schema"]["openAPIV3Schema"]))

    def check(item: Object) -> None:
        validator(item["kind"]).validate(item)

    return check


def strict(schema: Any) -> Any:
    """Return a CRD's schema as a JSON schema that knows no other keys than it names."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        inner.pop("type", None)
    if (
        "properties" in inner
        and isinstance(schema.get("type"), str)
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        if inner["properties"].keys() >= {"metadata", "spec"}:
            inner["properties"]["metadata"] = {"type": "object"}
        inner.setdefault("additionalProperties", False)
    return inner
