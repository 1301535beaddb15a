"""How Serve names the group of a replica, against Serve itself."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, when Serve is imported

from fleet_app.adapters.serve_names import Replica, replica_of  # noqa: E402
from fleet_app.worker.contract import service_name  # noqa: E402

DEPLOYMENTS = {
    "of an application": ("shop", "Echo"),
    "of none": ("", "Echo"),
    "with a slash, which services have not": ("a/b", "Echo"),
    "with the dots and colons of others": ("a.b::c", "E:d"),
}


@pytest.mark.parametrize(("app", "deployment"), DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_a_replica_is_known_by_the_name_that_serve_gives_its_group(app: str, deployment: str) -> None:
    from ray.serve._private.common import DeploymentID, ReplicaID

    name = ReplicaID("ab12", DeploymentID(name=deployment, app_name=app)).to_full_id_str()
    assert ReplicaID.is_full_id_str(name)
    assert replica_of(name) == Replica(name=name, service=service_name(app, deployment))


OTHERS = {
    "a group of the fleet": "fleet/g/shop.Echo/1",
    "a gang of Serve's": "SERVE_GANG::shop_Echo_0_ab12",
    "no name": "",
    "too few parts": "SERVE_REPLICA::Echo",
    "too many": "SERVE_REPLICA::a#b#c#d",
}


@pytest.mark.parametrize("name", OTHERS.values(), ids=OTHERS)
def test_other_groups_are_no_replicas(name: str) -> None:
    assert replica_of(name) is None
