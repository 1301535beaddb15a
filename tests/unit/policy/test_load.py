"""The policy file: what it says to the engine, what is refused, and that it survives writing and reading."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine import policy as engine
from fleet_app.engine.errors import RequestError
from fleet_app.policy.fleet import check_fleet, load_fleet
from fleet_app.policy.load import dump_policy, load_policy, parse_policy, policy_schema, to_engine
from fleet_app.policy.schema import PolicyFile
from tests.unit.policy.texts import POLICY, policy, with_line

CLUSTERS = Path(__file__).resolve().parents[3] / "clusters"
NODES = sorted(CLUSTERS.glob("*-nodes.yaml"))
POLICIES = sorted(set(CLUSTERS.glob("*.yaml")) - set(NODES))

REFUSED = {
    "spares of no level": (
        "name: test",
        "name: test\nspares: {level: rack, nodes: 1}",
        "policy:3: spares.level",
        "'rack' is no topology level",
        "Known",
    ),
    "a service spread over nothing": (
        "name: test",
        "name: test\nservices: {chat: {spread: rack}}",
        "policy:3: services.chat.spread",
        "'rack' is no topology level",
        "Known",
    ),
    "a service apart from itself": (
        "name: test",
        "name: test\nservices: {chat: {apart_from: [chat]}}",
        "services.chat.apart_from",
        "the service itself",
        "per_node: 1",
    ),
    "what is recommended to be smaller would not be": (
        "name: test",
        "name: test\nright_size: {below_percent: 80}",
        "policy:3: right_size.below_percent",
        "is 80, above target_percent of 70",
        "70 or less",
    ),
    "an unknown key": ("name: test", "name: test\ncolour: red", "policy:3: colour", "not a known key", "Known"),
    "a slip of a key": ("drain: {grace", "drain: {grase", "policy:15: drain.grase", "'grase'", "'grace'"),
    "no version": ("version: 1\n", "", "version", "is missing", "Add version"),
    "a version to come": ("version: 1", "version: 2", "policy:1: version", "at most 1, not 2", "1 or less"),
    "true is no number": ("version: 1", "version: true", "version", "whole number, not True", "without quotes"),
    "a name with odd characters": ("name: test", "name: 'a/../b'", "name", "'a/../b'", "plain name"),
    "a name that is a number": ("name: test", "name: 12", "name", "must be text, not 12", "quotes"),
    "a name that is too long": ("name: test", f"name: {'x' * 64}", "name", "at most 63", "plain name"),
    "negative GPUs": (
        "{nominal: 48}",
        "{nominal: -1}",
        "lab.teams.research.nominal",
        "at least 0, not -1",
        "0 or more",
    ),
    "2^62 GPUs": ("{nominal: 48}", f"{{nominal: {2**62}}}", "research.nominal", "4611686018427387904", "or less"),
    "NaN GPUs": ("{nominal: 48}", "{nominal: .nan}", "research.nominal", "whole number, not nan", "without quotes"),
    "half a GPU": ("{nominal: 48}", "{nominal: 0.5}", "research.nominal", "whole number, not 0.5", "point"),
    "GPUs as text": (
        "{nominal: 48}",
        "{nominal: '48'}",
        "research.nominal",
        "whole number, not '48'",
        "without quotes",
    ),
    "GPUs as a flag": ("{nominal: 48}", "{nominal: true}", "research.nominal", "not True", "without quotes"),
    "a team that is a list": ("{nominal: 48}", "[48]", "lab.teams.research", "must be a mapping", "key: value"),
    "an organisation of nothing": ("    nominal: 80", "    nominal: 70", "lab.nominal", "have 80 together", "lower"),
    "a lending limit above nominal": (
        "{nominal: 48}",
        "{nominal: 48, lending_limit: 49}",
        "research.lending_limit",
        "49 GPUs, more than its nominal of 48",
        "48 or less",
    ),
    "a flavor where no card is cut": (
        "{nominal: 48}",
        "{nominal: 48, quota: {h100-shared: {nominal: 1}}}",
        "research.quota.h100-shared",
        "the policy has none",
        "slicing: {}",
    ),
    "a name used twice in the tree": (
        "batch: {nominal: 0, borrowing_limit: 40}",
        "lab: {nominal: 0}",
        "lab.teams.lab",
        "also the name of organisations.lab",
        "name of its own",
    ),
    "zero GPUs a node": ("gpus_per_node: 8", "gpus_per_node: 0", "topology.gpus_per_node", "at least 1", "1 or more"),
    "a level named twice": ("[spine, leaf]", "[leaf, leaf]", "topology.levels[1]", "named twice", "outermost first"),
    "a level that is a label of ours": ("[spine, leaf]", "[class]", "levels[0]", "none of class", "Choose a name"),
    "no levels": ("[spine, leaf]", "[]", "topology.levels", "at least 1 entries", "Add"),
    "a grace without unit": ("grace: 60s", "grace: 60", "policy:15: drain.grace", "its unit, not 60", "90s"),
    "no grace": ("grace: 60s", "grace: 0s", "drain.grace", "longer than nothing", "30s"),
    "a grace above the longest": ("grace: 60s", "grace: 6m", "drain.grace", "360 s, above", "raise longest_grace"),
    "committed work that borrows": (
        "value: 50000,",
        "value: 50000, borrows: true,",
        "training-committed.borrows",
        "does not yield",
        "yields: true",
    ),
    "serving that yields": (
        "value: 100000,",
        "value: 100000, yields: true,",
        "serving-production.yields",
        "serving never yields",
        "yields: false",
    ),
    "yields as a word": (
        "yields: true}",
        "yields: 'yes'}",
        "training-backfill.yields",
        "true or false",
        "true or false",
    ),
    "training above serving": (
        "value: 50000",
        "value: 200000",
        "serving-production.value",
        "below the 200000",
        "highest",
    ),
    "two classes of one value": ("value: 50000", "value: 1000", "training-backfill.value", "also the value", "its own"),
    "a class for a team that is not there": (
        "teams: [serving]",
        "teams: [servin]",
        "serving-production.teams[0]",
        "'servin' is unknown",
        "Did you mean 'serving'?",
    ),
    "a default class that is not there": (
        "headroom:",
        "default_class: {gang: training-comitted}\nheadroom:",
        "default_class.gang",
        "'training-comitted' is unknown",
        "Did you mean 'training-committed'?",
    ),
    "gangs at the class of services": (
        "headroom:",
        "default_class: {gang: serving-production}\nheadroom:",
        "default_class.gang",
        "class of services",
        "below it",
    ),
    "backfill at a class that does not yield": (
        "headroom:",
        "default_class: {backfill: training-committed}\nheadroom:",
        "default_class.backfill",
        "does not yield",
        "yields: true",
    ),
    "more headroom than serving has": ("immediate: 4", "immediate: 33", "headroom.immediate", "33 GPUs", "32 or less"),
    "a least headroom that serving does not have": (
        "immediate: 4",
        "quantile: 0.9, min: 33",
        "headroom.min",
        "33 GPUs",
        "32 or less",
    ),
    "a least headroom above the most": (
        "immediate: 4",
        "quantile: 0.9, min: 5, max: 4",
        "headroom.min",
        "above max of 4",
        "Lower min",
    ),
    "bounds of a forecast that nobody asks for": (
        "immediate: 4",
        "max: 4",
        "headroom.max",
        "no quantile",
        "Add quantile",
    ),
    "a boundary of a team that is not there": (
        "headroom:",
        "boundary: {serving: servin, training: research}\nheadroom:",
        "boundary.serving",
        "'servin' is unknown",
        "Did you mean 'serving'?",
    ),
    "a boundary of a team that may not serve": (
        "headroom:",
        "boundary: {serving: research, training: serving}\nheadroom:",
        "boundary.serving",
        "may not submit at class 'serving-production'",
        "Name another team",
    ),
    "a boundary between a team and itself": (
        "headroom:",
        "boundary: {serving: serving, training: serving}\nheadroom:",
        "boundary.training",
        "team of serving too",
        "Name another team",
    ),
    "a label for a level that is not there": (
        "headroom:",
        "node_pools: {topology: {lef: example.com/rack}}\nheadroom:",
        "node_pools.topology.lef",
        "no topology level",
        "Did you mean 'leaf'?",
    ),
    "what is no key of a label": (
        "headroom:",
        "node_pools: {topology: {leaf: not/a/key}}\nheadroom:",
        "node_pools.topology.leaf",
        "key of a Kubernetes label",
        "topology.kubernetes.io/zone",
    ),
    "a default team that is not there": ("{team: batch}", "{team: bach}", "defaults.team", "'bach'", "'batch'"),
    "an organisation as default team": ("{team: batch}", "{team: lab}", "defaults.team", "'lab' is unknown", "Known"),
    "a default team that may not": (
        "{team: batch}",
        "{team: batch, kind: gang}",
        "defaults.team",
        "may not submit at class 'training-committed'",
        "classes.training-committed.teams",
    ),
    "a default bundle above a node": ("{team: batch}", "{gpus: 9}", "defaults.gpus", "a node has 8", "less a node"),
    "a price that is infinite": (
        "headroom:",
        "accounting: {price_per_gpu_hour: .inf}\nheadroom:",
        "accounting.price_per_gpu_hour",
        "finite number, not inf",
        "ordinary number",
    ),
}


@pytest.mark.parametrize(("old", "new", "where", "what", "fix"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_policy_is_refused_with_path_value_and_fix(old, new, where, what, fix):
    with pytest.raises(RequestError) as refused:
        parse_policy(with_line(old, new))
    assert where in refused.value.where
    assert what in refused.value.what
    assert fix in refused.value.fix


def test_all_that_is_wrong_is_said_at_once_one_a_line():
    text = with_line("{nominal: 48}", "{nominal: -1}").replace("grace: 60s", "grace: 60").replace("name: test\n", "")
    with pytest.raises(RequestError) as refused:
        parse_policy(text, "fleet.yaml")
    first, *rest = refused.value.what.splitlines()
    assert first == "3 problems"
    assert [line.split(": ")[0] for line in rest] == ["fleet.yaml:1", "fleet.yaml:8", "fleet.yaml:14"]
    assert all(". " in line for line in rest)


def test_a_thousand_problems_are_cut_short():
    text = POLICY + "".join(f"key{number}: 1\n" for number in range(1000))
    with pytest.raises(RequestError) as refused:
        parse_policy(text)
    first, *rest = refused.value.what.splitlines()
    assert (first, len(rest)) == ("more than 50 problems", 50)


def test_the_engine_reads_what_the_file_says():
    quota = engine.Quota
    priority = engine.PriorityClass
    assert to_engine(policy()) == engine.Policy(
        levels=("spine", "leaf"),
        quotas=(
            quota(name="lab", nominal_gpus=80),
            quota(name="serving", parent="lab", nominal_gpus=32, borrowing_limit_gpus=0),
            quota(name="research", parent="lab", nominal_gpus=48),
            quota(name="batch", parent="lab", nominal_gpus=0, borrowing_limit_gpus=40),
        ),
        classes=(
            priority(name="serving-production", value=100_000, teams=("serving",)),
            priority(name="training-backfill", value=1_000, borrows=True, yields=True),
            priority(name="training-committed", value=50_000, teams=("serving", "research")),
        ),
        drain=engine.DrainContract(grace_s=60.0, longest_grace_s=300.0, max_broken=3, restart_cost_s=60.0),
        headroom=engine.Headroom(immediate_gpus=4),
    )


HISTORIES = {
    "a week and 5,000 where nothing is said": ("", (7 * 86_400.0, 5000)),
    "what is said": ("history: {keep_ended: 36h, most_ended: 10}\n", (36 * 3600.0, 10)),
}


@pytest.mark.parametrize(("line", "want"), HISTORIES.values(), ids=HISTORIES)
def test_for_how_long_what_has_ended_is_at_hand(line, want):
    known = parse_policy(POLICY + line).history
    assert (known.keep_ended, known.most_ended) == want


@pytest.mark.parametrize("line", ["keep_ended: 0s", "most_ended: 0"])
def test_what_has_ended_is_at_hand_for_some_time(line):
    with pytest.raises(RequestError, match=line.partition(":")[0]):
        parse_policy(POLICY + f"history: {{{line}}}\n")


def test_the_calendar_is_priced_by_accounting_and_counts_in_seconds():
    calendar = "calendar: {approve_above_gpu_hours: 1.5, most_domains: 2, reclaim_lead: 30m, move_lead: 2h, hold: 5m}\n"
    said = to_engine(parse_policy(POLICY + calendar + "accounting: {price_per_gpu_hour: 2.5}\n")).calendar
    assert said == engine.Calendar(
        most_displaced_gpu_s=5400.0,
        most_domains=2,
        price_per_gpu_hour=2.5,
        reclaim_lead_s=1800.0,
        move_lead_s=7200.0,
        hold_s=300.0,
    )


WRONG_CALENDARS = {
    "a threshold below nothing": ("approve_above_gpu_hours: -1", "at least 0"),
    "a threshold of NaN": ("approve_above_gpu_hours: .nan", "finite"),
    "no domain at all": ("most_domains: 0", "at least 1"),
    "a lead without its unit": ("reclaim_lead: 30", "its unit"),
    "a slip of a key": ("reclam_lead: 30m", "reclaim_lead"),
}


@pytest.mark.parametrize(("line", "says"), WRONG_CALENDARS.values(), ids=WRONG_CALENDARS)
def test_a_calendar_that_cannot_be_meant_is_refused(line, says):
    with pytest.raises(RequestError) as refused:
        parse_policy(POLICY + f"calendar: {{{line}}}\n")
    assert says in refused.value.sentence()


def test_drains_are_limited_only_where_the_file_says_so():
    free = to_engine(policy()).drain
    assert (free.most_per_cycle, free.most_at_once) == (None, None)
    limits = "longest_grace: 5m, most_per_cycle: 7, most_at_once: 3"
    limited = to_engine(parse_policy(with_line("longest_grace: 5m", limits))).drain
    assert (limited.most_per_cycle, limited.most_at_once) == (7, 3)


def test_the_engine_reads_whether_nodes_can_be_had():
    assert to_engine(policy()).node_pools == engine.NodePools(gpus_per_node=policy().topology.gpus_per_node)
    more = "node_pools: {scales: true, boot: 10m, quantile: 0.9, topology: {leaf: example.com/rack}}\nheadroom:"
    found = to_engine(parse_policy(with_line("headroom:", more))).node_pools
    assert (found.scales, found.boot_s, found.quantile) == (True, 600.0, 0.9)


def test_the_engine_reads_how_nodes_are_shared_out():
    assert to_engine(policy()).boundary is None
    more = (
        "boundary: {serving: serving, training: research, quantile: 0.9, horizon: 1d, margin: 4, most_nodes_a_week: 5}"
    )
    want = engine.Boundary(
        serving="serving",
        training="research",
        quantile=0.9,
        horizon_s=86_400.0,
        margin_gpus=4,
        most_nodes_a_week=5,
    )
    assert to_engine(parse_policy(with_line("headroom:", f"{more}\nheadroom:"))).boundary == want


def test_the_engine_reads_how_the_headroom_is_forecast():
    rules = parse_policy(with_line("{immediate: 4}", "{immediate: 4, quantile: 0.95, startup: 2m, min: 2, max: 9}"))
    want = engine.Headroom(immediate_gpus=4, quantile=0.95, startup_s=120.0, minimum_gpus=2, maximum_gpus=9)
    assert to_engine(rules).headroom == want


def test_work_ages_only_where_the_file_says_so():
    assert to_engine(policy()).ordering.ageing_s is None
    assert to_engine(parse_policy(POLICY + "ordering: {ageing: 1h}\n")).ordering.ageing_s == 3600.0


def test_who_comes_first_and_for_whom_room_is_kept_is_as_the_file_says():
    rules = to_engine(parse_policy(POLICY + "ordering: {shortest_first: true, keepers: 1}\n"))
    assert rules.ordering == engine.Ordering(shortest_first=True, keepers=1)


def test_nodes_are_taken_as_the_file_says():
    assert to_engine(policy()).packing == engine.Packing()
    rules = to_engine(parse_policy(POLICY + "packing: {nodes: first, rest: emptiest}\n"))
    assert rules.packing == engine.Packing(first_fit=True, rest_emptiest=True)
    assert to_engine(parse_policy(POLICY + "packing: {cpus_per_gpu: 6.5}\n")).packing.cpu_milli_per_gpu == 6_500


def test_sessions_and_sizes_are_judged_as_the_file_says():
    text = (
        POLICY + "idle: {after: 30m, used_percent: 2}\nright_size: {after: 7d, below_percent: 20, target_percent: 50}\n"
    )
    rules = to_engine(parse_policy(text))
    assert rules.idle == engine.Idle(after_s=1800.0, used_percent=2)
    assert rules.right_size == engine.RightSize(after_s=604_800.0, below_percent=20, target_percent=50)


def test_pulls_are_limited_only_where_the_file_says_so():
    assert to_engine(policy()).pulls == engine.Pulls()
    text = (
        "pulls: {most_per_node: 2, sources: {registry: {most_at_once: 4, gbit_per_s: 40}, store: {most_at_once: 1}}}\n"
    )
    assert to_engine(parse_policy(POLICY + text)).pulls == engine.Pulls(
        sources=(
            engine.Source(name="registry", most_at_once=4, gbit_per_s=40),
            engine.Source(name="store", most_at_once=1),
        ),
        most_per_node=2,
    )


def test_services_are_apart_as_the_file_says():
    assert to_engine(policy()).affinities == ()
    text = "services: {chat: {spread: leaf, per_node: 2, apart_from: [embed]}, embed: {}}\n"
    assert to_engine(parse_policy(POLICY + text)).affinities == (
        engine.Affinity(service="chat", spread="leaf", per_node=2, apart_from=("embed",)),
        engine.Affinity(service="embed"),
    )


def test_spares_are_kept_as_the_file_says():
    assert to_engine(policy()).spares == engine.Spares()
    kept = parse_policy(POLICY + "spares: {level: spine, nodes: 2}\n")
    assert to_engine(kept).spares == engine.Spares(level="spine", nodes=2)


def test_an_organisation_that_states_no_nominal_has_what_its_teams_have():
    quotas = to_engine(parse_policy(with_line("    nominal: 80\n", ""))).quotas
    assert quotas[0] == engine.Quota(name="lab", nominal_gpus=80)


def test_a_policy_needs_no_more_than_a_name_and_its_teams():
    short = parse_policy("version: 1\nname: x\norganisations: {solo: {nominal: 8}}\n")
    assert [item.name for item in to_engine(short).classes] == [
        "serving-production",
        "training-backfill",
        "training-committed",
    ]


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_every_policy_in_clusters_is_in_order(path):
    assert to_engine(load_policy(path)).quotas


@pytest.mark.parametrize("path", NODES, ids=lambda path: path.name)
def test_every_fleet_in_clusters_matches_its_policy(path):
    fleet = load_fleet(path)
    of_fleet = load_policy(path.with_name(path.name.replace("-nodes", "")))
    nominal = sum(quota.nominal_gpus for quota in to_engine(of_fleet).quotas if quota.parent is None)
    assert check_fleet(fleet, of_fleet) == []
    assert fleet.name == of_fleet.name
    assert fleet.total_gpus == nominal


def test_the_2048_gpu_example_has_the_numbers_of_its_headline():
    quotas = {quota.name: quota.nominal_gpus for quota in to_engine(load_policy(CLUSTERS / "fleet-2048.yaml")).quotas}
    assert (quotas["company"], quotas["products"], quotas["models"]) == (2048, 1200, 848)


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_the_schema_accepts_what_the_loader_accepts(path):
    schema = policy_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(path.read_text()), schema)


def test_the_schema_is_plain_json_and_refuses_unknown_keys():
    schema = json.loads(json.dumps(policy_schema()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(POLICY), "colour": "red"}, schema)


COUNTS = st.integers(min_value=0, max_value=1000)
NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True)


@st.composite
def policies(draw: st.DrawFn) -> PolicyFile:
    """Any policy with one organisation, whose teams and numbers are whatever they are."""
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    limits = st.none() | COUNTS
    teams = {}
    for name in names[1:]:
        nominal = draw(COUNTS)
        lends = draw(st.none() | st.integers(min_value=0, max_value=nominal))
        teams[name] = {"nominal": nominal, "lending_limit": lends, "borrowing_limit": draw(limits)}
    grace = draw(st.integers(min_value=1, max_value=600_000))
    document = {
        "version": 1,
        "name": draw(NAMES),
        "organisations": {names[0]: {"teams": teams}},
        "drain": {"grace": f"{grace}ms", "restart_cost": f"{draw(COUNTS)}s"},
        "defaults": {"cpus": draw(COUNTS) / 1000, "memory": f"{draw(COUNTS)}MiB"},
        "accounting": {"price_per_gpu_hour": draw(st.floats(min_value=0, max_value=1000))},
    }
    return PolicyFile.model_validate(document)


@given(policies())
def test_a_policy_written_is_read_back_the_same(given_policy):
    assert parse_policy(dump_policy(given_policy)) == given_policy


@given(st.sampled_from(POLICY.splitlines()), st.text(alphabet="abc:{}[]-,&*!|>'\"#%@`0189.~ \t", max_size=12))
def test_whatever_a_line_is_replaced_by_the_policy_is_read_or_refused(line, other):
    with contextlib.suppress(RequestError):
        parse_policy(POLICY.replace(line, other))


def test_slices_of_cards_and_their_quota_reach_the_engine() -> None:
    text = with_line("{nominal: 48}", "{nominal: 48, quota: {h100-shared: {nominal: 2}, a30-mig-1g.6gb: {nominal: 3}}}")
    found = to_engine(parse_policy(text + "slicing: {shares: 4, settle: 5m}\n"))
    research = next(one for one in found.quotas if one.name == "research")
    assert found.slicing == engine.Slicing(shares=4, repartition=False, settle_s=300.0)
    assert research.flavors == (
        engine.FlavorQuota(flavor="a30-mig-1g.6gb", nominal=3),
        engine.FlavorQuota(flavor="h100-shared", nominal=20_000),
    )
    assert to_engine(policy()).slicing is None


def test_whole_gpus_have_numbers_by_accelerator_where_no_card_is_cut_too() -> None:
    found = to_engine(parse_policy(with_line("{nominal: 48}", "{nominal: 48, quota: {h100-whole: {nominal: 16}}}")))
    research = next(one for one in found.quotas if one.name == "research")
    assert research.flavors == (engine.FlavorQuota(flavor="h100-whole", nominal=16),)


FLAVORS = {
    "a flavor that is none": (
        "{h100-half: {nominal: 1}}",
        "research.quota.h100-half: is no flavor: an accelerator and mig-PROFILE, shared or whole",
    ),
    "a profile that the card has not": (
        "{h200-mig-1g.10gb: {nominal: 1}}",
        "research.quota.h200-mig-1g.10gb: is no flavor:",
    ),
    "a flavor that lends more than it has": (
        "{h100-shared: {nominal: 1, lending_limit: 2}}",
        "research.quota.h100-shared.lending_limit: is 2, more than its nominal of 1",
    ),
    "whole GPUs of an accelerator that are lent": (
        "{h100-whole: {nominal: 8, lending_limit: 2}}",
        "research.quota.h100-whole.lending_limit: is given for whole GPUs, whose number is not lent",
    ),
    "whole GPUs of an accelerator that are borrowed": (
        "{h100-whole: {nominal: 8, borrowing_limit: 0}}",
        "research.quota.h100-whole.borrowing_limit: is given for whole GPUs",
    ),
}


@pytest.mark.parametrize(("quota", "want"), FLAVORS.values(), ids=FLAVORS)
def test_numbers_of_a_flavor_are_refused_with_path_and_value(quota: str, want: str) -> None:
    text = with_line("{nominal: 48}", f"{{nominal: 48, quota: {quota}}}") + "slicing: {}\n"
    with pytest.raises(RequestError) as refused:
        parse_policy(text)
    assert want in refused.value.sentence()


def test_the_optional_parts_that_the_readme_shows_are_a_policy():
    _, _, rest = (CLUSTERS.parent / "README.md").read_text().partition("### Optional parts of a policy")
    shown = rest.partition("```yaml\n")[2].partition("```")[0]
    rules = to_engine(parse_policy(f"version: 1\nname: x\norganisations: {{solo: {{nominal: 8}}}}\n{shown}"))
    assert (rules.ordering.ageing_s, rules.spares.nodes, len(rules.affinities)) == (3600.0, 1, 1)
