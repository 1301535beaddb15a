"""Ray's quantities in ours, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, when Serve is imported

from fleet_app.adapters import cluster, private  # noqa: E402
from fleet_app.adapters.serve_demand import shape_of  # noqa: E402
from fleet_app.engine.cards import Slice  # noqa: E402
from fleet_app.engine.values import Shape  # noqa: E402

SHAPES = {
    "nothing": ({}, Shape()),
    "a whole node": ({"GPU": 8.0, "CPU": 96.0, "memory": 2.0**40}, Shape(gpus=8, cpu_milli=96_000, memory_mib=2**20)),
    "half a GPU that is left cannot be given": ({"GPU": 7.5}, Shape(gpus=7)),
    "a float's error takes no GPU away": ({"GPU": 7.9999999999}, Shape(gpus=8)),
    "a float's error takes no CPU away": ({"CPU": 0.3 - 1e-12}, Shape(cpu_milli=300)),
    "less than a thousandth of a CPU is none": ({"CPU": 1.0009}, Shape(cpu_milli=1000)),
    "bytes that fill no MiB are none": ({"memory": 2.0**21 - 1}, Shape(memory_mib=1)),
    "what groups hold is not counted twice": ({"GPU": 1.0, "GPU_group_0_ab": 4.0}, Shape(gpus=1)),
}


@pytest.mark.parametrize(("resources", "want"), SHAPES.values(), ids=SHAPES)
def test_shape(resources: dict[str, float], want: Shape) -> None:
    assert cluster._shape(resources) == want


def test_a_shape_asked_of_ray_names_only_what_it_needs() -> None:
    assert cluster._resources(Shape(gpus=2, cpu_milli=1500), None) == {"GPU": 2, "CPU": 1.5}


@pytest.mark.parametrize("shape", [Shape(gpus=1), Shape(gpus=8, cpu_milli=1, memory_mib=3), Shape(cpu_milli=12_345)])
def test_a_shape_comes_back_from_ray_as_it_was_asked(shape: Shape) -> None:
    asked = cluster._resources(shape, None)
    assert (cluster._shape(asked), cluster._part(asked)) == (shape, None)


@pytest.mark.parametrize(
    ("part", "want"),
    [
        (Slice(profile="1g.10gb"), {"CPU": 1.5, "mig-1g.10gb": 1}),
        (Slice(share=2_500), {"CPU": 1.5, "GPU": 0.25}),
        (Slice(share=3_333), {"CPU": 1.5, "GPU": 0.3333}),
    ],
)
def test_part_of_a_card_comes_back_from_ray_as_it_was_asked(part: Slice, want: dict[str, float]) -> None:
    asked = cluster._resources(Shape(cpu_milli=1500), part)
    assert asked == want
    assert (cluster._shape(asked), cluster._part(asked)) == (Shape(cpu_milli=1500), part)


SLICES = {
    "nothing": ({"CPU": 4.0}, {}),
    "GPUs in ten-thousandths": ({"GPU": 1.75}, {"shared": 17_500}),
    "partitions by their profile": ({"mig-1g.10gb": 7.0, "mig-3g.40gb": 2.0}, {"mig-1g.10gb": 7, "mig-3g.40gb": 2}),
    "what groups hold is not counted twice": ({"mig-1g.10gb": 1.0, "mig-1g.10gb_group_0_ab": 1.0}, {"mig-1g.10gb": 1}),
    "another resource is none": ({"migration": 1.0, "mig-": 1.0}, {}),
}


@pytest.mark.parametrize(("resources", "want"), SLICES.values(), ids=SLICES)
def test_parts_of_cards(resources: dict[str, float], want: dict[str, int]) -> None:
    assert cluster._slices(resources) == want


def group(name: str, namespace: str) -> private.GroupFact:
    return private.GroupFact(group_id="ab", name=name, namespace=namespace, state="CREATED", bundles=())


def test_a_group_of_our_namespace_has_its_own_name() -> None:
    assert cluster._group(group("fleet/w/llm", "fleet")).name == "fleet/w/llm"


def test_a_group_of_another_namespace_does_not_pass_for_ours() -> None:
    assert cluster._group(group("fleet/w/llm", "serve")).name == "serve:fleet/w/llm"


def test_a_group_that_serve_made_says_whose_it_is_and_its_shape_is_what_the_service_says_that_it_demands() -> None:
    replica = "SERVE_REPLICA::chat#Echo#ab12"
    bundle = private.BundleFact(node_id="n", pinned_to=None, resources={"GPU": 1.0, "CPU": 0.1, "memory": 2e9})
    seen = cluster._group(replace(group(replica, "serve"), bundles=(bundle,)))
    assert (seen.name, seen.replica, seen.service) == (f"serve:{replica}", replica, "chat.Echo")
    assert [each.shape for each in seen.bundles] == [shape_of({"GPU": 1.0, "CPU": 0.1, "memory": 2e9})]


DEMANDS = {
    "no GPU": ({"CPU": 1.0}, 0.0),
    "outside a group": ({"GPU": 2.0}, 2.0),
    "inside a group it is there twice": ({"GPU_group_ab": 1.0, "GPU_group_0_ab": 1.0, "bundle_group_ab": 0.001}, 1.0),
}


@pytest.mark.parametrize(("required", "want"), DEMANDS.values(), ids=DEMANDS)
def test_gpus_in(required: dict[str, float], want: float) -> None:
    assert private.gpus_in(required) == want
