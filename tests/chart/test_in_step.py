"""What the chart says and what the code says are one thing: names, ports, rights, defaults, documents."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from fleet_app.policy.load import parse_policy
from fleet_app.render import access, names
from fleet_app.render.network import network
from fleet_app.render.priorities import priorities
from fleet_app.render.site import Site
from tests.chart import readme
from tests.chart.conftest import CHART, NAMESPACE, RELEASE, ROOT, Object
from tests.chart.examples import ALL, EXAMPLES, KUBERNETES


def named(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def test_things_are_called_as_everybody_expects(render):
    objects = render()
    cluster = named(objects, "RayCluster", RELEASE)
    assert named(objects, "ConfigMap", names.policy_map(RELEASE))["data"].keys() == {names.POLICY_KEY}
    assert named(objects, "ConfigMap", names.serve_map(RELEASE))
    assert named(objects, "Secret", names.token_secret(RELEASE))
    assert named(objects, "ServiceAccount", names.account(RELEASE))
    assert named(objects, "Service", names.gateway_service(RELEASE))["spec"]["ports"][0]["port"] == names.GATEWAY_PORT
    serve = named(objects, "Service", names.serve_service(RELEASE))["spec"]
    assert (serve["ports"][0]["port"], serve["selector"][names.PROXY_LABEL]) == (names.SERVE_PORT, "true")
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    ports = {port["name"]: port["containerPort"] for port in head["containers"][0]["ports"]}
    assert ports == {
        "gcs-server": names.GCS_PORT,
        "dashboard": names.GATEWAY_PORT,  # where KubeRay sends RayJobs
        "ray-dashboard": names.DASHBOARD_PORT,
        "metrics": names.METRICS_PORT,
        "serve": names.SERVE_PORT,
    }
    for container in head["containers"]:
        variables = {each["name"]: each for each in container["env"]}
        assert variables["FLEET_HOME"]["value"] == names.HOME
        assert variables[names.CLUSTER_VARIABLE]["value"] == RELEASE
        assert names.NAMESPACE_VARIABLE in variables
        assert {"name": "home", "mountPath": names.HOME} in container["volumeMounts"]


def test_kuberay_finds_the_gateway_s_token_under_the_key_that_it_looks_for(render):
    """`auth_token`, of ray-operator's RAY_AUTH_TOKEN_SECRET_KEY."""
    data = named(render(), "Secret", names.token_secret(RELEASE))["data"]
    assert data.keys() == {"token", "auth_token"}
    assert data["token"] == data["auth_token"]


def test_the_attendant_is_told_what_is_mounted(render):
    from fleet_app.adapters.attend import _parser

    head = named(render(), "RayCluster", RELEASE)["spec"]["headGroupSpec"]["template"]["spec"]
    attend = head["containers"][1]
    asked = _parser().parse_args(attend["command"][3:])
    mounted = {mount["mountPath"] for mount in attend["volumeMounts"]}
    assert {str(path.parent) for path in (asked.policy, asked.serve, asked.token)} <= mounted
    assert (asked.port, asked.serve_port) == (names.GATEWAY_PORT, names.SERVE_PORT)
    assert asked.dashboard_url == f"http://127.0.0.1:{names.DASHBOARD_PORT}"


def test_the_arbiter_may_do_what_it_does_and_no_more(render):
    objects = render()
    given = {
        *rights(named(objects, "Role", names.account(RELEASE)), everywhere=False),
        *rights(named(objects, "ClusterRole", f"{NAMESPACE}-{names.account(RELEASE)}"), everywhere=True),
    }
    assert given == {
        (rule.group, rule.resource, verb, rule.only, rule.everywhere)
        for rule in access.rules(RELEASE)
        for verb in rule.verbs
    }


def test_what_retires_a_fleet_may_delete_that_fleet_and_nothing_else(render):
    role = named(render("--set", "redis.enabled=true"), "Role", "fleet-retire")
    assert rights(role, everywhere=False) == {
        ("ray.io", "rayclusters", verb, RELEASE, False) for verb in ("get", "delete")
    }


def rights(role: Object, *, everywhere: bool) -> set[tuple[str, str, str, str, bool]]:
    return {
        (group, resource, verb, only, everywhere)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for only in rule.get("resourceNames", [""])
    }


def test_a_policy_without_classes_has_the_usual_ones(render):
    options = EXAMPLES["one machine"]
    policy = parse_policy((ROOT / "clusters/small.yaml").read_text(encoding="utf-8"))
    made = {each["metadata"]["name"]: each for each in render(*options) if each["kind"] == "PriorityClass"}
    assert {name: each["value"] for name, each in made.items()} == {
        name: each.value for name, each in policy.classes.items()
    }
    preempting = {name for name, each in made.items() if each["preemptionPolicy"] != "Never"}
    assert preempting == {policy.default_class.service}


@pytest.mark.parametrize("options", EXAMPLES.values(), ids=EXAMPLES)
def test_the_policy_of_an_example_is_a_policy(render, options):
    text = named(render(*options), "ConfigMap", names.policy_map(RELEASE))["data"][names.POLICY_KEY]
    assert parse_policy(text).name


def test_what_was_rendered_from_the_policy_is_part_of_the_release(render, tmp_path: Path):
    file = tmp_path / "rendered.yaml"
    file.write_text("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '{{ not a template }}'}\n")
    objects = render("--set-file", f"rendered={file}")
    assert named(objects, "ConfigMap", "x")["data"] == {"a": "{{ not a template }}"}


def test_the_size_that_is_wanted_of_each_group_is_noted_for_the_arbiter(render):
    for options in EXAMPLES.values():
        cluster = named(render(*options), "RayCluster", RELEASE)
        wanted = json.loads(cluster["metadata"]["annotations"][names.SIZES_NOTE])
        assert wanted == {group["groupName"]: group["replicas"] for group in cluster["spec"]["workerGroupSpecs"]}


def test_the_version_of_ray_is_the_image_s():
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert f"\nray=={values['rayVersion']} " in lock.replace("[default,serve]", "").replace("[", " [")


def test_the_version_of_the_chart_is_the_fleet_s():
    from fleet_app import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_readme_has_every_value_with_its_default():
    assert readme.written() == readme.path().read_text(encoding="utf-8"), "run `make chart`"


def test_every_value_is_told_what_it_is_for():
    assert [row.key for row in readme.rows() if not row.what] == []


def test_every_value_is_in_the_schema_and_the_other_way_round():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert keys_of(values, schema) == set()


def keys_of(values: object, schema: Object, path: str = "") -> set[str]:
    """Return where values and schema do not name the same keys; maps of a user's own names are not looked into."""
    if not isinstance(values, dict) or "properties" not in schema:
        return set()
    known = set(schema["properties"]) - {"global"}
    wrong = {f"{path}.{key}" for key in known ^ set(values)}
    for key in known & set(values):
        wrong |= keys_of(values[key], schema["properties"][key], f"{path}.{key}")
    return wrong


def test_every_switch_is_rendered_somewhere(render):
    """A switch that nobody turns is one that nobody tests."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    given = [option for options in ALL.values() for option in options]
    files = [yaml.safe_load((ROOT / each).read_text(encoding="utf-8")) for each in given if each.startswith(KUBERNETES)]
    for group, switches in values.items():
        if isinstance(switches, dict) and isinstance(switches.get("enabled"), bool):
            turned = any(each.startswith(f"{group}.enabled=") for each in given)
            assert turned or any(group in each for each in files), group


KUBERNETES_RULES = {
    "what a policy without the section gets": "",
    "named clients": "kubernetes: {clients: [web, batch]}",
    "no clients at all": "kubernetes: {clients: []}",
    "classes that may talk to one another": "kubernetes: {separate: false}",
    "doors out": "kubernetes: {egress: {store: {cidr: 10.1.0.0/16, ports: [443, 9000]}, hub: {cidr: 0.0.0.0/0}}}",
}


@pytest.mark.parametrize("section", KUBERNETES_RULES.values(), ids=KUBERNETES_RULES)
def test_what_the_chart_makes_of_the_policy_is_what_the_fleet_renders(render, section):
    """For sites without the chart, and for `fleet audit`."""
    text = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["policy"] + section
    objects = render("--set-json", f"policy={json.dumps(text)}")
    site, policy = Site(cluster=RELEASE, namespace=NAMESPACE), parse_policy(text)
    for want in [*priorities(site, policy), *network(site, policy)]:
        made = named(objects, want["kind"], want["metadata"]["name"])
        ours, theirs = (
            {key: value for key, value in each.items() if key not in {"metadata", "description"}}
            for each in (made, want)
        )
        assert ours == theirs
    others = {each["metadata"]["name"] for each in objects if each["kind"] == "NetworkPolicy"}
    assert others == {each["metadata"]["name"] for each in network(site, policy)}


def test_the_dashboard_shows_what_the_gateway_exports(render):
    (config,) = (
        each for each in render("--set", "monitoring.dashboard=true") if each["metadata"]["name"] == "fleet-dashboard"
    )
    (text,) = config["data"].values()
    shown = {target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]}
    exported = set(
        re.findall(r'"(fleet_[a-z_]+)"', (ROOT / "fleet_app/gateway/metrics.py").read_text(encoding="utf-8"))
    )
    assert {metric for expression in shown for metric in re.findall(r"fleet_[a-z_]+", expression)} == exported
    assert all(f'namespace="{NAMESPACE}"' in expression for expression in shown)
    for expression in shown:
        assert promql_parser.parse(expression), "Prometheus takes it"


GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("kind", ["RayCluster", "Role", "ClusterRole", "Service"])
def test_as_reviewed(render, kind):
    """A change of what is rendered is read before it lands. To renew: remove the file, and run this twice."""
    text = "---\n".join(
        yaml.safe_dump(each, width=120) for each in render(*EXAMPLES["one machine"]) if each["kind"] == kind
    )
    file = GOLDEN / f"{kind.lower()}.yaml"
    if not file.exists():
        file.write_text(text, encoding="utf-8")
        pytest.fail("it was not there: read it, then run this again")
    assert text == file.read_text(encoding="utf-8")
