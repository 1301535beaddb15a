"""The policy's classes as PriorityClasses, with the policy's numbers.

Only services may preempt pods. Whatever belongs to training says `preemptionPolicy: Never`: who yields to whom among
gangs is the arbiter's to decide, with notice, and not the Kubernetes scheduler's, without. A pending serving pod does
not preempt a gang's either: the scheduler only looks at nodes where the pod could go if they were empty, and training's
have a taint that serving's pods do not tolerate (and K10 refuses those that do). Where nodes have no taint
`fleet/class`, it may.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.policy.schema import PolicyFile
from fleet_app.render.objects import Object, metadata
from fleet_app.render.site import Site, object_name


def priorities(site: Site, policy: PolicyFile) -> Iterator[Object]:
    """Yield a PriorityClass for each class of the policy, the highest first. Raises RequestError for a bad name."""
    for name, priority in sorted(policy.classes.items(), key=lambda item: (-item[1].value, item[0])):
        serves = name == policy.default_class.service
        what = f"{'Services' if serves else 'Training'} of the fleet: {'always' if priority.yields else 'never'} yields"
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata(site, object_name(name, f"classes.{name}")),
            "value": priority.value,
            "globalDefault": False,
            "preemptionPolicy": "PreemptLowerPriority" if serves else "Never",
            "description": f"{what} (class {name} of its policy).",
        }
