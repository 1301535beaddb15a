"""Kubernetes objects as plain mappings, and as text for `kubectl apply -f -`: the same objects, the same bytes.

Does not know what the objects are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from fleet_app.render import names
from fleet_app.render.site import Site

Object = dict[str, Any]

MANAGED_BY, TOOL = "app.kubernetes.io/managed-by", "fleet-policy-render"


def metadata(site: Site, name: str, *, namespaced: bool = False, notes: Mapping[str, str] | None = None) -> Object:
    """Return the metadata of an object: its name, whose it is, and what people should read beside it."""
    return {
        "name": name,
        **({"namespace": site.namespace} if namespaced else {}),
        "labels": {MANAGED_BY: TOOL, names.CLUSTER_LABEL: site.cluster},
        **({"annotations": dict(notes)} if notes else {}),
    }


def dump(objects: Iterable[Object]) -> str:
    """Return objects as a stream of YAML documents, keys in the order in which they were given."""
    return "---\n" + "---\n".join(_text(each) for each in objects)


def _text(value: Object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as it stands, and nothing twice by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _of_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value or "'" in value else None  # expressions as they are, without quotes around quotes
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _of_text)
