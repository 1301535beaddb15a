"""The nodes of a local fleet: read, checked against the policy, labelled."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.policy.fleet import check_fleet, load_fleet, parse_fleet
from tests.unit.policy.texts import policy

FLEET = """\
version: 1
name: test
nodes:
  - {name: n1, gpus: 8, cpus: 16, memory: 64GiB, labels: {class: training, spine: s1, leaf: l1}}
  - {name: n2, gpus: 8, cpus: 16, memory: 64GiB, labels: {class: serving, spine: s1, leaf: l2}}
"""

REFUSED = {
    "two nodes of one name": ("name: n2", "name: n1", "nodes[1].name", "the name of two nodes"),
    "a class that is none": ("class: serving", "class: spare", "nodes[1].labels.class", "'spare'"),
    "no class": ("class: serving, ", "", "nodes[1].labels.class", "None"),
    "negative GPUs": ("n2, gpus: 8", "n2, gpus: -8", "nodes[1].gpus", "at least 0, not -8"),
    "an unknown key": ("n2, gpus: 8", "n2, gpu: 8", "nodes[1].gpu", "'gpu' is not a known key"),
    "a label with odd characters": ("spine: s1, leaf: l2", "spine: 's 1', leaf: l2", "labels.spine", "'s 1'"),
}


@pytest.mark.parametrize(("old", "new", "where", "what"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_fleet_is_refused_with_path_value_and_fix(old, new, where, what):
    with pytest.raises(RequestError) as refused:
        parse_fleet(FLEET.replace(old, new))
    assert where in refused.value.where
    assert what in refused.value.what
    assert refused.value.fix


def test_a_node_carries_its_name_class_and_place_as_labels():
    assert parse_fleet(FLEET).nodes[0].ray_labels() == {
        "fleet/node": "n1",
        "fleet/class": "training",
        "fleet/spine": "s1",
        "fleet/leaf": "l1",
    }


def test_a_node_may_have_cards_that_are_cut():
    more = "n2, gpus: 4, accelerator: H100, partitions: {1g.10gb: 14, mig-3g.40gb: 2}"
    node = parse_fleet(FLEET.replace("n2, gpus: 8", more)).nodes[1]
    assert node.ray_resources() == {"mig-1g.10gb": 14.0, "mig-3g.40gb": 2.0}
    assert node.ray_labels()["ray.io/accelerator-type"] == "H100"
    assert check_fleet(parse_fleet(FLEET.replace("n2, gpus: 8", more)), policy()) == []
    with pytest.raises(RequestError, match="must be the profile of a partition"):
        parse_fleet(FLEET.replace("n2, gpus: 8", "n2, partitions: {1g.11gb: 7}"))


def test_a_fleet_that_does_not_match_the_policy_is_told_where():
    fleet = parse_fleet(FLEET.replace("n2, gpus: 8", "n2, gpus: 4").replace(", leaf: l1", ""))
    assert [(problem.path, problem.what) for problem in check_fleet(fleet, policy())] == [
        (("nodes", 0, "labels"), "names no leaf, which is a topology level of the policy"),
        (("nodes", 1, "gpus"), "is 4, but the policy's whole node has 8"),
    ]


def test_the_demos_node_names_straddle_the_spines(request):
    """By name alone four training nodes would not be on one spine; by topology they can be."""
    fleet = load_fleet(request.config.rootpath / "clusters" / "demo-nodes.yaml")
    training = sorted((node for node in fleet.nodes if node.labels["class"] == "training"), key=lambda node: node.name)
    spines = [node.labels["spine"] for node in training]
    assert len(set(spines[:4])) == 2
    assert (spines.count("s1"), spines.count("s2"), len(fleet.nodes)) == (4, 2, 10)
