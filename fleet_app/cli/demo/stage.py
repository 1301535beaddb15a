"""Runs the demo from nothing to nothing: a fleet up, the story, the proof, the fleet down. Ctrl-C cleans up too."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fleet_app.adapters import local
from fleet_app.adapters.local_home import FleetHome
from fleet_app.cli import client
from fleet_app.cli.demo import promises
from fleet_app.cli.demo.promises import Promise
from fleet_app.cli.demo.screen import Screen
from fleet_app.cli.demo.story import BATCH, GANG, REPLICA_GPUS, SECOND, STUBBORN, Facts, Teller, specs
from fleet_app.cli.demo.traffic import Request, Traffic, quantile_s, read_day
from fleet_app.cli.demo.world import LOOK_EVERY_S, World, gpus_of
from fleet_app.engine.errors import FaultError, FleetError
from fleet_app.policy.fleet import load_fleet

ROOT = Path(__file__).parents[3]
PROMPTS = ("The harbour ", "A fleet ", "In the morning ", "The pilot ")


def run() -> int:
    """Run the demo; return 0 when every promise was kept, 1 when one was broken."""
    began = time.time()
    home = Path(tempfile.mkdtemp(prefix="fleet-demo-", dir="/tmp"))
    with Screen(began) as screen, _fleet(home, screen):
        broken = asyncio.run(_play(home, screen, began))
    screen.say("the fleet is down, nothing is left behind")
    if broken:
        screen.say(f"the journal is kept in {home}")
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


@contextlib.contextmanager
def _fleet(home: Path, screen: Screen) -> Iterator[None]:
    fleet = load_fleet(ROOT / "clusters" / "demo-nodes.yaml")
    wanted = local.Wanted(
        home=home,
        name=fleet.name,
        policy=(ROOT / "clusters" / "demo.yaml").read_text(encoding="utf-8"),
        nodes=local.nodes_of(fleet),
        serve_config=ROOT / "serve_configs" / "chat.yaml",
        detached=False,  # one machine plays ten: jobs run at a lower priority than the service and its clients
    )
    screen.say(f"a fleet of {len(fleet.nodes)} nodes starts; this takes about 30 s")
    local.up(wanted, lambda stage: screen.say(f"{stage.name}: {stage.done} of {stage.of}"))
    try:
        yield
    finally:
        local.down(home)


async def _play(home: Path, screen: Screen, began: float) -> int:
    holder, addresses = FleetHome(home).holder(), client.read_fleet(home)
    if holder is None or addresses is None:
        raise FaultError("the fleet went away", where=str(home))
    world = World(gateway=client.find(home, None), mark=holder.mark, addresses=addresses, began_at=began)
    traffic = Traffic(url=f"{addresses['serve_url']}/generate", prompts=PROMPTS)
    teller = Teller(world, screen, traffic, read_day(ROOT / "clusters" / "traces" / "azure_llm_2024_conv_day.csv"))
    stop = asyncio.Event()
    watching = asyncio.create_task(_watch(world, screen, traffic, stop))
    sending = asyncio.create_task(traffic.run(stop))
    failure: FleetError | None = None
    try:
        await teller.tell(ROOT / "jobs")
    except FleetError as error:
        failure = error
    finally:
        stop.set()
        await asyncio.gather(watching, sending)
    teller.facts.losses = world.losses(GANG, home)
    kept = _promises(world, traffic, teller.facts)
    if failure is not None:
        kept.append(Promise(what="the story runs to its end", kept=False, shown=failure.sentence()))
    screen.summary(kept, _figures(world, traffic, teller.facts))
    return sum(not promise.kept for promise in kept)


async def _watch(world: World, screen: Screen, traffic: Traffic, stop: asyncio.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(FaultError):
            screen.tell(await asyncio.to_thread(world.look))
        good = sum(one.ok for one in traffic.requests)
        screen.draw(world, f"{traffic.rate:.0f} requests/s, {good} of {len(traffic.requests)} answered")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)
    screen.tell(await asyncio.to_thread(world.look))


def _promises(world: World, traffic: Traffic, facts: Facts) -> list[Promise]:
    story, found = world.story, promises.drains(world.story)
    first, second = found[: facts.first_drains], found[facts.first_drains :]
    spines = {str(node["name"]): str(dict(node["domains"]).get("spine", "")) for node in world.nodes}
    capacity = {str(node["name"]): int(node["gpus_total"]) for node in world.nodes}
    warm = _warm(traffic, facts)
    losses = facts.losses or [0.0]
    group = facts.group
    return [
        promises.whole_on_one_domain(story, GANG, spines, 4),
        Promise(
            what=f"{GANG} has one STRICT_SPREAD group, by Ray's own table",
            kept=group.get("strategy") == "STRICT_SPREAD" and group.get("state") == "CREATED",
            shown=f"{group.get('strategy')}, {group.get('state')}, {', '.join(group.get('nodes', ()))}",
        ),
        Promise(
            what=f"{GANG} learns: its loss falls",
            kept=losses[-1] < losses[0],
            shown=f"{losses[0]:.3f} to {losses[-1]:.3f}",
        ),
        promises.untouched(story, GANG),
        promises.untouched(story, SECOND),
        promises.no_more_than_needed(first, facts.first_needed, name="first spike"),
        promises.resumed_where_saved(story, first),
        promises.killed_at_deadline(first),
        promises.within_deadline(second, name="second spike, with the arbiter killed"),
        promises.survived(story, (GANG, SECOND, STUBBORN, *BATCH), kills=1),
        promises.nothing_twice(story, capacity, gpus_of(specs()), REPLICA_GPUS),
        Promise(
            what="a killed replica's successor gets its GPUs on the full fleet",
            kept=facts.successor_s is not None,
            shown="none came" if facts.successor_s is None else f"{facts.successor_s:.1f} s later",
        ),
        promises.all_answered(sum(not one.ok for one in warm), len(warm), sum(one.tries > 1 for one in warm)),
    ]


def _warm(traffic: Traffic, facts: Facts) -> list[Request]:
    return [one for one in traffic.requests if one.at >= facts.warm_at]


def _figures(world: World, traffic: Traffic, facts: Facts) -> list[tuple[str, str, str]]:
    granted = promises.granted_after_exit_s(world.story)
    warm = _warm(traffic, facts)
    calm = [one for one in warm if not any(began <= one.at <= ended for began, ended in facts.spikes)]
    ready = ", ".join(f"{seconds:.1f} s" for seconds in facts.ready_s) or "-"
    successor = "-" if facts.successor_s is None else f"{facts.successor_s:.1f} s"
    return [
        ("last process gone to replica granted, median", f"{promises.median(granted) * 1000:.0f} ms", "250 ms"),
        ("spike to all replicas running", ready, "300 s"),
        ("killed replica to its successor", successor, "40 s"),
        ("HTTP p99 outside the spikes", f"{quantile_s(calm, 0.99) * 1000:.0f} ms", "800 ms"),
        ("HTTP p99 in the spikes", f"{quantile_s(_in_spike(warm, facts), 0.99) * 1000:.0f} ms", "-"),
        ("the whole demo", f"{time.time() - world.began_at:.0f} s", "240 s"),
    ]


def _in_spike(warm: list[Request], facts: Facts) -> list[Request]:
    return [one for one in warm if any(began <= one.at <= ended for began, ended in facts.spikes)]
