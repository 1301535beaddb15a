"""The command line from outside: what it prints where, its exit codes, and what it asks of a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fleet_app.cli.main import app
from fleet_app.cli.reference import reference
from tests.surface.control_answers import ANSWERS, BASE, EVENTS, FRAGMENTS, MOVES, NODES, SERVICES, WORKLOADS, workload
from tests.surface.control_stand_in import Control, Turns, refused, served

CLUSTERS = Path(__file__).parents[2] / "clusters"


@pytest.fixture
def control() -> Any:
    with served(dict(ANSWERS)) as served_control:
        yield served_control


def fleet(*arguments: str, **environment: str) -> Result:
    """Run a command as on a terminal of 104 columns, with nothing of the caller's own environment."""
    clean = {"FLEET_HOME": None, "FLEET_GATEWAY": None, "FLEET_TOKEN": None, "COLUMNS": "104", "TERM": "dumb"}
    return CliRunner().invoke(app, list(arguments), env={**clean, **environment}, prog_name="fleet")


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


TEXTS = {
    "the queue shows what waits with why, and what runs with where": (
        ["queue"],
        [
            "NAME     KIND      TEAM      PRIORITY  SHAPE  PHASE     WHERE / WHY               AGE    STEP",
            "llm      gang      research  50000     4 x 8  queued    needs 4 whole nodes on …  3d04h  -",
            "batch-1  backfill  batch     1000      1 x 2  running   n03                       3d04h  120 (saved 100)",
            "batch-2  backfill  batch     1000      1 x 2  draining  n05 (12 s left)           3d04h  -",
        ],
    ),
    "nodes show a letter a GPU, and name who is there without leave": (
        ["nodes"],
        [
            "NAME  CLASS     SPINE  LEAF  CONDITION  GPUS      HELD BY",
            "n03   serving   s2     l2    ready      aabb!...  a=batch-1 2  b=chat.Chat 2  !=actor Notebook 1",
            "n04   training  s1     l2    down       ........",
        ],
    ),
    "services are counted in replicas": (
        ["services"],
        [
            "NAME       TEAM     SHAPE  WANTED  GRANTED  RUNNING",
            "chat.Chat  serving  4 GPU  5       2        1",
        ],
    ),
    "fragments say what is stranded and what fits": (
        ["fragments"],
        [
            "PART   GPUS  FREE  STRANDED    WHOLE NODES  1 GPU  8 GPUs  BLOCK FLEET  BLOCK LEAF",
            "fleet  24    14    6 (25.0 %)  1            14     1       1            1 on s1/l2",
        ],
    ),
    "what could be smaller": (
        ["recommendations"],
        [
            "NAME       TEAM     HAS         USED           ENOUGH  SAVES    A DAY",
            "chat.Chat  serving  8 replicas  20 % in 1d00h  3       10 GPUs  600.00",
            "NODE  CARDS",
            "n7    card 0 should be 7 x 1g.10gb: small waits for it",
        ],
    ),
    "an explanation is a sentence about the name": (
        ["explain", "llm"],
        [
            "llm needs 4 whole nodes on one spine",
            "Estimated start: in about 5 min, when batch-1 has left",
            "Before: was asked to leave 5 min ago for chat; is leaving",
            "Ahead: first: higher priority; starts now with 8 GPUs",
        ],
    ),
    "the policy in force is printed as it stands": (["policy", "show"], ["version: 1", "name: demo"]),
    "a policy's changes are listed": (
        ["policy", "apply", str(CLUSTERS / "demo.yaml"), "--who", "ada"],
        ["headroom.immediate: 4 -> (none)"],
    ),
    "a log is printed as it stands": (["logs", "llm"], ["step 1", "step 2"]),
    "a submission prints the name alone": (["submit", "--name", "llm", "--", "python", "train.py"], ["llm"]),
    "a pause prints nothing on stdout": (["pause"], []),
    "a drain prints nothing on stdout": (["drain", "batch-1", "--grace", "1m30s"], []),
    "a move prints nothing on stdout": (["move", "llm"], []),
}


@pytest.mark.parametrize(("arguments", "want"), TEXTS.values(), ids=TEXTS)
def test_text(control: Control, arguments: list[str], want: list[str]) -> None:
    options, dashes, rest = _split(arguments)
    result = fleet(*options, "--gateway", control.url, *dashes, *rest)
    assert (result.exit_code, lines(result.stdout)) == (0, want), result.output


def _split(arguments: list[str]) -> tuple[list[str], list[str], list[str]]:
    if "--" not in arguments:
        return arguments, [], []
    at = arguments.index("--")
    return arguments[:at], ["--"], arguments[at + 1 :]


def test_the_moves_that_make_nodes_whole_are_a_table_and_what_they_come_to_is_said_on_stderr() -> None:
    with served({f"GET {BASE}fragments": {**FRAGMENTS, "plan": MOVES}}) as control:
        result = fleet("fragments", "--plan", "--nodes", "2", "--gateway", control.url)
        assert control.asked[-1].query == {"plan": "true", "nodes": "2"}
    assert lines(result.stdout) == [
        "MOVE     OF         GRANT  GPUS  FROM  TO   WHY",
        "replica  chat.Chat  g7     2     n03   n05  empties n03",
    ]
    said = "1 move would make 1 more node whole: 9 stranded GPUs become 1, 1m30s of GPU time done again."
    assert said in " ".join(result.stderr.split())


def test_where_nothing_can_be_emptied_there_is_nothing_to_move() -> None:
    nothing = {**MOVES, "moves": [], "freed_nodes": []}
    with served({f"GET {BASE}fragments": {**FRAGMENTS, "plan": nothing}}) as control:
        result = fleet("fragments", "--plan", "--gateway", control.url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing to move: no node can be emptied. 9 GPUs are stranded." in " ".join(result.stderr.split())


def test_events_are_a_table_with_the_time_of_day(control: Control) -> None:
    shown = lines(fleet("events", "--gateway", control.url).stdout)
    assert shown[0].split() == ["SEQ", "TIME", "KIND", "SUBJECT", "DETAIL"]
    assert shown[1].split()[2:] == ["submitted", "llm", "team=research"]
    assert shown[1].split()[1].endswith(".250")


def test_the_status_says_whether_the_arbiter_is_alive(control: Control) -> None:
    shown = fleet("status", "--gateway", control.url).stdout
    assert "alive, last sign of life 0s ago" in shown
    assert "1 queued, 2 running" in shown
    assert control.url in shown


JSON = {
    "the queue": (["queue"], [each for each in WORKLOADS if each["phase"] != "succeeded"]),
    "the queue with what has ended": (["queue", "--all"], WORKLOADS),
    "nodes": (["nodes"], NODES),
    "services": (["services"], SERVICES),
    "fragments": (["fragments"], FRAGMENTS),
    "events": (["events"], EVENTS),
    "the last event alone": (["events", "--last", "1"], EVENTS[1:]),
    "an explanation": (["explain", "llm"], ANSWERS[f"GET {BASE}explain/llm"]),
    "a log": (["logs", "llm"], {"name": "llm", "log": "step 1\nstep 2\n"}),
    "a cancel": (["cancel", "llm"], {"name": "llm", "accepted": True}),
    "a pause": (["pause"], {"name": "arbiter", "accepted": True}),
    "a resume": (["resume"], {"name": "arbiter", "accepted": True}),
    "a policy": (["policy", "show"], {"policy": "version: 1\nname: demo\n"}),
    "a difference": (["policy", "diff", str(CLUSTERS / "demo.yaml")], ANSWERS[f"POST {BASE}policy"]),
}


@pytest.mark.parametrize(("arguments", "want"), JSON.values(), ids=JSON)
def test_json(control: Control, arguments: list[str], want: object) -> None:
    result = fleet(*arguments, "--json", "--gateway", control.url)
    assert (result.exit_code, json.loads(result.stdout)) == (0, want)


NO_FLEET = {
    "no fleet in the home": (["queue"], 2, "no fleet is up here"),
    "no gateway answers": (["queue", "--gateway", "http://127.0.0.1:9"], 1, "does not answer"),
    "a gateway that is no URL": (["queue", "--gateway", "nonsense"], 1, "does not answer"),
    "a policy that is none": (["policy", "validate", str(CLUSTERS / "demo-nodes.yaml")], 2, "organisations"),
    "a policy that is not there": (["policy", "validate", "/nonexistent.yaml"], 2, "cannot be read"),
    "a policy and nodes that do not match": (
        ["policy", "validate", str(CLUSTERS / "demo.yaml"), "--fleet", "/nonexistent.yaml"],
        2,
        "cannot be read",
    ),
    "up with nothing to start": (["up"], 2, "--fleet or --attach"),
    "up with both": (["up", "--fleet", "x.yaml", "--attach", "auto"], 2, "--fleet or --attach"),
    "up through Ray's client": (["up", "--attach", "ray://head:10001"], 2, "HOST:PORT"),
    "a history that is not there": (["forecast", "--history", "/nonexistent.csv"], 2, "cannot be read"),
    "a history of something else": (["forecast", "--history", str(CLUSTERS / "demo.yaml")], 2, "is no sample"),
    "a start-up that is no duration": (["forecast", "--history", "x", "--startup", "soon"], 2, "is no duration"),
    "no time between samples": (["forecast", "--every", "0s"], 2, "is no time between samples"),
    "up with nodes that are not there": (["up", "--fleet", "/nonexistent.yaml"], 2, "cannot be read"),
    "up without a policy": (["up", "--fleet", str(CLUSTERS / "small-nodes.yaml")], 2, "--policy"),
    "up with a Serve config that is not there": (
        ["up", "--fleet", str(CLUSTERS / "small-nodes.yaml"), "--serve", "/nonexistent.yaml"],
        2,
        "no such file",
    ),
    "down without a fleet": (["down"], 2, "no fleet is up here"),
    "a command that is none": (["queu"], 2, "Did you mean"),
    "an option that is none": (["queue", "--jsn"], 2, "No such option"),
}


@pytest.mark.parametrize(("arguments", "code", "says"), NO_FLEET.values(), ids=NO_FLEET)
def test_errors_without_a_fleet(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    result = fleet(*arguments, FLEET_HOME=str(tmp_path / "home"))
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr


REFUSALS = {
    "what is not there": (["explain", "nobody"], 2, "nothing called 'nobody' waits or runs"),
    "what its state does not allow": (["drain", "llm"], 2, "only what runs can be drained"),
    "a grace that is none": (["drain", "llm", "--grace", "soon"], 2, "no duration"),
    "nothing to run": (["submit", "--name", "x"], 2, "nothing to run"),
    "an environment variable without a value": (["submit", "--env", "X", "--", "true"], 2, "KEY=VALUE"),
    "a runtime environment that is no JSON": (["submit", "--runtime-env-json", "{", "--", "true"], 2, "no JSON"),
    "a runtime environment that is a list": (["submit", "--runtime-env-json", "[]", "--", "true"], 2, "no JSON object"),
    "a spec file that is not there": (["submit", "--file", "/nonexistent.yaml"], 2, "cannot be read"),
    "a kind that is none": (["submit", "--kind", "service", "--", "true"], 2, "Invalid value"),
}


@pytest.mark.parametrize(("arguments", "code", "says"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(control: Control, arguments: list[str], code: int, says: str) -> None:
    options, dashes, rest = _split(arguments)
    result = fleet(*options, "--gateway", control.url, *dashes, *rest)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


STATUSES = {
    "a fault of the gateway is ours": (refused("broken", status=500), 1, "broken"),
    "a refusal that is no JSON": ((400, "Bad thing"), 2, "Bad thing"),
    "a missing token": ((401, "Unauthorized"), 2, "FLEET_TOKEN"),
    "a page that is no gateway": ((200, "<html>"), 1, "not a fleet's gateway"),
}


@pytest.mark.parametrize(("answer", "code", "says"), STATUSES.values(), ids=STATUSES)
def test_statuses(answer: object, code: int, says: str) -> None:
    with served({f"GET {BASE}nodes": answer}) as control:
        result = fleet("nodes", "--gateway", control.url)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


def test_an_error_is_json_on_stderr_when_json_was_asked_for(control: Control) -> None:
    result = fleet("explain", "nobody", "--json", "--gateway", control.url)
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"]["fix"] == "See `fleet queue`"


def test_a_submission_asks_what_its_options_say(control: Control) -> None:
    options = ["--kind", "gang", "--team", "research", "--nodes", "4", "--gpus", "8", "--cpus", "1.5", "--grace", "30s"]
    options += ["--max-run-time", "4h", "--interactive"]
    result = fleet("submit", *options, "-e", "A=b=c", "--gateway", control.url, "--", "python", "t.py", "--x", "a b")
    body = json.loads(control.asked[-1].body)
    assert result.exit_code == 0
    assert body.pop("name").startswith("gang-")
    assert body == {
        "kind": "gang",
        "team": "research",
        "nodes": 4,
        "gpus": 8,
        "cpus": "1.5",
        "grace": "30s",
        "max_run_time": "4h",
        "interactive": True,
        "entrypoint": "python t.py --x 'a b'",
        "runtime_env": {"env_vars": {"A": "b=c"}},
    }


def test_a_submission_of_groups_asks_for_no_bundles_beside_them(control: Control) -> None:
    options = ["--kind", "gang", "--name", "rl", "--group", "ps=1x0,cpus=16", "--group", "actors=4x8"]
    result = fleet("submit", *options, "--gateway", control.url, "--", "python", "rl.py")
    body = json.loads(control.asked[-1].body)
    assert result.exit_code == 0
    assert body["groups"] == {"ps": {"nodes": 1, "gpus": 0, "cpus": "16"}, "actors": {"nodes": 4, "gpus": 8}}
    assert body.keys().isdisjoint({"nodes", "gpus", "cpus", "memory"})


def test_a_submission_may_ask_for_part_of_a_card(control: Control) -> None:
    for option, value in (("partition", "1g.10gb"), ("share", "0.25")):
        asked = fleet("submit", "--kind", "backfill", f"--{option}", value, "--gateway", control.url, "--", "true")
        assert asked.exit_code == 0, asked.output
        body = json.loads(control.asked[-1].body)
        assert body[option] == value
        assert "gpus" not in body


def test_options_win_over_a_spec_file(control: Control, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: a\nkind: backfill\ngpus: 2\nentrypoint: python a.py\nruntime_env: {env_vars: {A: x, B: y}}\n"
    )
    result = fleet("submit", "--file", str(spec), "--gpus", "4", "-e", "A=z", "--gateway", control.url)
    assert result.exit_code == 0, result.output
    assert json.loads(control.asked[-1].body) == {
        "name": "a",
        "kind": "backfill",
        "gpus": 4,
        "entrypoint": "python a.py",
        "runtime_env": {"env_vars": {"A": "z", "B": "y"}},
    }


WAITS = {
    "until it has ended well": (["succeeded"], "ended", 0),
    "until it has failed": (["failed"], "ended", 1),
    "until it was stopped": (["stopped"], "ended", 1),
    "until it runs": (["running"], "running", 0),
    "until it runs, but it failed before": (["failed"], "running", 1),
}


@pytest.mark.parametrize(("phases", "until", "code"), WAITS.values(), ids=WAITS)
def test_waiting(phases: list[str], until: str, code: int) -> None:
    turns = Turns([[workload("llm", phase, message="why")] for phase in ["queued", *phases]])
    with served({**ANSWERS, f"GET {BASE}workloads": turns}) as control:
        result = fleet(*("submit", "--wait", "--until", until, "--gateway", control.url, "--", "true"))
    assert (result.exit_code, result.stdout) == (code, "llm\n")
    assert lines(result.stderr)[0] == "llm: queued, why"
    assert lines(result.stderr)[-1].startswith(f"llm: {phases[-1]}")
    queries = [asked.query for asked in control.asked if asked.path == f"{BASE}workloads"]
    assert queries == [{"name": "llm"}] * (1 + len(phases)), "others are not asked for"


ENDED = {
    "one": ({"queued": 1, "running": 2, "succeeded": 1}, ["1 more has ended: `fleet queue --all`."]),
    "several": ({"running": 3, "succeeded": 2, "failed": 1, "stopped": 1}, ["4 more have ended: `fleet queue --all`."]),
    "none": ({"running": 3}, []),
}


@pytest.mark.parametrize(("counts", "want"), ENDED.values(), ids=ENDED)
def test_the_queue_says_how_many_have_ended_without_asking_for_them(counts: dict[str, int], want: list[str]) -> None:
    living = [each for each in WORKLOADS if each["phase"] != "succeeded"]
    with served({f"GET {BASE}workloads": living, f"GET {BASE}status": {"counts": counts}}) as control:
        assert lines(fleet("queue", "--gateway", control.url).stderr) == want
    assert [(asked.path, asked.query) for asked in control.asked] == [
        (f"{BASE}workloads", {"ended": "false"}),
        (f"{BASE}status", {}),
    ]


def test_orders_reach_the_gateway(control: Control) -> None:
    fleet("drain", "batch-1", "--grace", "1m30s", "--gateway", control.url)
    fleet("policy", "diff", str(CLUSTERS / "demo.yaml"), "--gateway", control.url)
    fleet("policy", "apply", str(CLUSTERS / "demo.yaml"), "--who", "ada", "--gateway", control.url)
    drain, diff, apply = control.asked
    assert json.loads(drain.body) == {"grace_s": 90.0}
    assert (diff.query, apply.query) == ({"dry_run": "true"}, {"who": "ada"})
    assert apply.body == (CLUSTERS / "demo.yaml").read_text()


def test_who_keeps_a_node_out_says_why_and_for_how_long(control: Control) -> None:
    fleet("quarantine", "n04", "--reason", "fan noise", "--for", "2h", "--who", "ada", "--gateway", control.url)
    fleet("release", "n04", "--who", "ada", "--gateway", control.url)
    out, let_in = control.asked
    assert (out.path, json.loads(out.body)) == (
        f"{BASE}quarantine/n04",
        {"reason": "fan noise", "for_s": 7200.0, "who": "ada"},
    )
    assert (let_in.path, json.loads(let_in.body)) == (f"{BASE}release/n04", {"who": "ada"})


def test_a_name_is_one_part_of_a_path_whatever_is_in_it(control: Control) -> None:
    fleet("explain", "../policy?x=1", "--gateway", control.url)
    assert control.asked[-1].path == f"{BASE}explain/..%2Fpolicy%3Fx%3D1"


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    hostile = workload("llm", "queued", message="\x1b[2Jgone\nnext")
    with served({f"GET {BASE}workloads": [hostile]}) as control:
        shown = fleet("queue", "--gateway", control.url).stdout
    assert "\x1b" not in shown
    assert len(lines(shown)) == 2


def test_the_home_says_where_the_gateway_is_and_holds_its_token(control: Control, tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text(json.dumps({"gateway_url": control.url}))
    (tmp_path / "token").write_text("secret\n")
    assert fleet("nodes", "--home", str(tmp_path)).exit_code == 0
    assert control.asked[-1].authorization == "Bearer secret"


def test_a_home_s_token_never_goes_to_another_gateway(control: Control, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    fleet("nodes", "--home", str(tmp_path), "--gateway", control.url)
    assert control.asked[-1].authorization is None


def test_the_environment_says_where_the_gateway_is_and_its_token(control: Control) -> None:
    assert fleet("nodes", FLEET_GATEWAY=control.url, FLEET_TOKEN="secret").exit_code == 0
    assert control.asked[-1].authorization == "Bearer secret"


def test_the_reference_has_every_command_and_is_the_same_everywhere() -> None:
    commands = [
        "up",
        "down",
        "status",
        "pause",
        "resume",
        "submit",
        "queue",
        "nodes",
        "services",
        "fragments",
        "recommendations",
        "forecast",
        "boundary",
    ]
    commands += [
        "explain",
        "book",
        "calendar",
        "upgrade",
        "quarantine",
        "release",
        "drain",
        "move",
        "cancel",
        "logs",
        "events",
        "audit",
        "simulate",
        "what-if",
        "demo",
        "policy",
        "policy validate",
        "policy schema",
        "policy show",
    ]
    text = reference()
    assert [line for line in text.splitlines() if line.startswith("###")][1:] == [
        f"### `fleet {command}`" for command in [*commands, "policy diff", "policy apply", "policy render"]
    ]
    assert text.count("Example") >= len(commands)
    assert max(map(len, text.splitlines())) <= 120
    assert str(Path.home()) not in text


def test_help_is_a_success_and_says_what_there_is() -> None:
    result = fleet("--help")
    assert result.exit_code == 0
    assert all(f"  {command} " in result.stdout for command in ("up", "submit", "queue", "policy"))


def test_the_boundary_is_shown_and_asked_for(control: Control) -> None:
    result = fleet("boundary", "--gateway", control.url)
    shown = lines(result.stdout)
    assert [line.split() for line in shown[:4]] == [
        ["NODE", "FROM", "TO", "GPUS", "MOVED", "DONE", "AGAIN"],
        ["n03", "training", "serving", "8", "llm", "8m00s"],
        ["CROSSING", "FROM", "TO", "GPUS", "ASKED", "BY", "IS", "IT"],
        ["n02", "training", "serving", "8", "ada", "not", "yet"],
    ]
    why = "serving has 16 GPUs, and its p99 peak is 24: 1 node should become serving"
    assert shown[4] == f"{why}, 8m00s of GPU time done again; 1 more may cross this week."
    result = fleet("boundary", "--apply", "--who", "ada", "--json", "--gateway", control.url)
    assert json.loads(result.stdout)["plan"]["peak_gpus"] == 24
    assert json.loads(control.asked[-1].body) == {"nodes": ["n03"], "to": "serving", "who": "ada"}


def test_a_crossing_is_called_off(control: Control) -> None:
    nodes = ("--cancel", "n02", "--cancel", "n03")
    result = fleet("boundary", *nodes, "--who", "ada", "--gateway", control.url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Called off for 2 nodes" in result.stderr
    assert json.loads(control.asked[-1].body) == {"nodes": ["n02", "n03"], "who": "ada"}
    assert fleet("boundary", *nodes, "--apply", "--gateway", control.url).exit_code == 2


def test_without_a_boundary_there_is_nothing_to_tell() -> None:
    with served({f"GET {BASE}boundary": {"plan": None, "crossings": []}}) as control:
        result = fleet("boundary", "--gateway", control.url)
    assert result.exit_code == 2
    assert "Add the section `boundary`" in result.stderr
