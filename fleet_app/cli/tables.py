"""Workloads, nodes and services as tables. Knows the control API's answers; does not know where they come from."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import OverflowMethod
from rich.table import Table
from rich.text import Text

from fleet_app.cli.show import duration, plain

Row = Mapping[str, Any]

ENDED = frozenset({"succeeded", "failed", "stopped"})
NODES_SHOWN = 4

_PHASES = {
    "queued": "yellow",
    "admitted": "cyan",
    "running": "green",
    "draining": "magenta",
    "stopping": "magenta",
    "failed": "red",
}
_CONDITIONS = {"ready": "green", "down": "red", "quarantined": "red"}

# In a bar every GPU is one letter: who holds it, or one of these.
FREE, FOREIGN, MANY = ".", "!", "#"
_LETTERS = string.ascii_lowercase + string.ascii_uppercase
_COLOURS = ("green", "cyan", "blue", "magenta", "yellow")


def queue(workloads: Sequence[Row], now: float) -> Table:
    """Return the table of workloads; `now` is in seconds since the epoch."""
    table = empty("NAME", "KIND", "TEAM", "PRIORITY", "SHAPE", "PHASE", "WHERE / WHY", "AGE", "STEP")
    for each in workloads:
        phase = str(each.get("phase", ""))
        table.add_row(
            plain(str(each.get("name", ""))),
            str(each.get("kind", "")),
            plain(str(each.get("team", ""))),
            str(each.get("priority", "")),
            shape(each),
            Text(phase, style=_PHASES.get(phase, "")),
            Text(where(each), no_wrap=True, overflow="ellipsis"),
            duration(now - float(each.get("submitted_at") or now)),
            step(each),
        )
    return table


def layouts(found: Sequence[Row]) -> Table:
    """Return the table of nodes whose cards should have other layouts."""
    table = empty("NODE", "CARDS")
    for each in found:
        table.add_row(plain(str(each["subject"])), plain(str(each["sentence"])))
    return table


def recommendations(found: Sequence[Row]) -> Table:
    """Return the table of what could be smaller."""
    table = empty("NAME", "TEAM", "HAS", "USED", "ENOUGH", "SAVES", "A DAY")
    for each in found:
        table.add_row(
            plain(str(each["subject"])),
            plain(str(each["team"])),
            f"{each['has']} {each['unit']}",
            f"{each['used_percent']} % in {duration(each['measured_s'])}",
            str(each["enough"]),
            f"{each['saved_gpus']} GPUs",
            f"{each['saved_per_day']:.2f}",
        )
    return table


def shape(workload: Row) -> str:
    """Return what a workload asks for, such as `4 x 8`: bundles, and GPUs of each; of groups `1x0 + 4x8`.

    Of an elastic one also how many it has, such as `3 of 2..8 x 4`.
    """
    groups = workload.get("groups") or ()
    if groups:
        return " + ".join(f"{group.get('bundles', 1)}x{group.get('gpus', 0)}" for group in groups)
    part = workload.get("part")
    if part:
        return part_of_card(part)
    bundles, least = workload.get("bundles", 1), workload.get("min_bundles")
    if least is not None:
        has = len(workload.get("nodes") or ())
        bundles = (f"{has} of " if has else "") + f"{least}..{bundles}"
    return f"{bundles} x {workload.get('gpus_per_bundle', 0)}"


def part_of_card(part: Row) -> str:
    """Return part of a card, such as `1g.10gb` or `0.25 GPU`."""
    return str(part.get("profile") or f"{int(part.get('share') or 0) / 10_000:g} GPU")


def where(workload: Row) -> str:
    """Return where a workload is, or why it is nowhere."""
    nodes = [str(node) for node in workload.get("nodes") or ()]
    more = f" +{len(nodes) - NODES_SHOWN}" if len(nodes) > NODES_SHOWN else ""
    booked = f" in {workload['booking']}" if workload.get("booking") else ""
    placed = plain(" ".join(nodes[:NODES_SHOWN]) + more + booked)
    why = plain(str(workload.get("message") or ""))
    if not placed or str(workload.get("phase")) in ENDED:
        return why
    return f"{placed} ({why})" if why and workload.get("phase") != "running" else placed


def step(workload: Row) -> str:
    """Return how far a workload is, and up to which step its work is safe."""
    reached, saved = workload.get("step"), (workload.get("checkpoint") or {}).get("step")
    if reached is None and saved is None:
        return "-"
    return f"{'-' if reached is None else reached}" + (f" (saved {saved})" if saved is not None else "")


def nodes(found: Sequence[Row], now: float) -> Table:
    """Return the table of nodes: a column a topology level, and a bar with a letter a GPU; `now` in seconds."""
    levels = list(dict.fromkeys(level for node in found for level in domains(node)))
    letters = _letters_of(found)
    kept_out = ["QUARANTINE"] if any(node.get("quarantine") for node in found) else []
    booked = ["BOOKED FOR"] if any(node.get("bookings") for node in found) else []
    cut = ["CARDS"] if any(node.get("cards") for node in found) else []
    made = ["MACHINE", "POD"] if any(node.get("machine") for node in found) else []
    more = (*cut, *kept_out, *booked, *made)
    table = empty("NAME", "CLASS", *(level.upper() for level in levels), "CONDITION", "GPUS", "HELD BY", *more)
    for node in found:
        condition = str(node.get("condition", ""))
        table.add_row(
            plain(str(node.get("name", ""))),
            str(node.get("class") or "-") + (f" > {node['becomes']}" if node.get("becomes") else ""),
            *(plain(str(domains(node).get(level, "-"))) for level in levels),
            Text(condition, style=_CONDITIONS.get(condition, "yellow")),
            bar(node, letters),
            Text(holders(node, letters), no_wrap=True, overflow="ellipsis"),
            *([cards(node)] if cut else []),
            *([quarantine(node, now)] if kept_out else []),
            *([booked_for(node, now)] if booked else []),
            *([plain(str(node.get(key) or "-")) for key in ("machine", "pod")] if made else []),
        )
    return table


def domains(node: Row) -> Mapping[str, Any]:
    """Return a node's domains by level."""
    given = node.get("domains") or {}
    if isinstance(given, Mapping):
        return given
    return {f"level{place}": name for place, name in enumerate(given)}


def cards(node: Row) -> str:
    """Return what a node's cards are cut into, how many of each there are, what is used and what they become.

    Empty for one of whole GPUs.
    """
    told = node.get("cards") or ()
    pieces = Counter(str(piece) for card in told for piece in card.get("layout") or ())
    used = Counter(part_of_card(user["part"]) for card in told for user in card.get("users") or ())
    becomes = Counter("+".join(card["becomes"]) or "whole" for card in told if card.get("becomes") is not None)
    words = [f"{count} x {piece}" for piece, count in sorted(pieces.items())]
    words += [f"{count} x {piece} used" for piece, count in sorted(used.items())]
    return ", ".join([*words, *(f"{count} > {piece}" for piece, count in sorted(becomes.items()))])


def bar(node: Row, letters: Mapping[str, str]) -> Text:
    """Return a node's GPUs, a letter each: of who holds it, FREE, or FOREIGN for what the fleet did not admit."""
    line = Text()
    for held in node.get("holders") or ():
        letter = letters.get(str(held.get("what")), MANY)
        style = _COLOURS[ord(letter) % len(_COLOURS)]
        line.append(letter * int(held.get("gpus") or 0), style=style)
    line.append(FOREIGN * int(node.get("gpus_foreign") or 0), style="bold red")
    line.append(FREE * max(0, int(node.get("gpus_total") or 0) - len(line)), style="dim")
    return line


def holders(node: Row, letters: Mapping[str, str]) -> str:
    """Return who holds a node's GPUs, with the letters of the bar, and who uses some without the fleet's leave."""
    held: dict[str, int] = {}
    for each in node.get("holders") or ():
        held[str(each.get("what"))] = held.get(str(each.get("what")), 0) + int(each.get("gpus") or 0)
    named = [f"{letters.get(what, MANY)}={plain(what)} {gpus}" for what, gpus in held.items()]
    if foreign := int(node.get("gpus_foreign") or 0):
        owners = ", ".join(plain(str(owner)) for owner in node.get("foreign_owners") or ()) or "unknown"
        named.append(f"{FOREIGN}={owners} {foreign}")
    return "  ".join(named)


def quarantine(node: Row, now: float) -> str:
    """Return for how much longer a node takes nothing new, who keeps it out, and why; nothing when nobody does."""
    told = node.get("quarantine")
    if not told:
        return ""
    left = duration(float(told.get("until") or now) - now)
    return f"{left} more, by {plain(str(told.get('owner', '')))}: {plain(str(told.get('reason', '')))}"


def booked_for(node: Row, now: float) -> str:
    """Return for whom a node is booked, now or next, and for how long; nothing when it is not."""
    told = next((each for each in node.get("bookings") or () if float(each["end_at"]) > now), None)
    if told is None:
        return ""
    whom = "maintenance" if told.get("team") is None else plain(str(told["team"]))
    start_at, end_at = float(told["start_at"]), float(told["end_at"])
    if start_at > now:
        return f"{whom} ({plain(str(told['name']))}) in {duration(start_at - now)}, for {duration(end_at - start_at)}"
    return f"{whom} ({plain(str(told['name']))}), {duration(end_at - now)} more"


def services(found: Sequence[Row]) -> Table:
    """Return the table of services, in replicas."""
    table = empty("NAME", "TEAM", "SHAPE", "WANTED", "GRANTED", "RUNNING")
    for each in found:
        grants = each.get("grants")
        granted = len(grants) if isinstance(grants, Sequence) else grants
        table.add_row(
            plain(str(each.get("name", ""))),
            plain(str(each.get("team", ""))),
            part_of_card(each["part"]) if each.get("part") else _replica(each.get("shape")),
            *("-" if count is None else str(count) for count in (each.get("wanted"), granted, each.get("occupied"))),
        )
    return table


def fragments(pictures: Sequence[Row]) -> Table:
    """Return how the free GPUs of each part of the fleet lie, and what would fit."""
    sizes = [int(fit["gpus"]) for fit in pictures[0]["fits"]]
    levels = [str(block["level"]) for block in pictures[0]["blocks"]]
    fit = (f"{gpus} GPU{'' if gpus == 1 else 's'}" for gpus in sizes)
    table = empty(
        "PART", "GPUS", "FREE", "STRANDED", "WHOLE NODES", *fit, *(f"BLOCK {name.upper()}" for name in levels)
    )
    for each in pictures:
        table.add_row(
            str(each["part"]),
            str(each["total_gpus"]),
            str(each["free_gpus"]),
            stranded(each),
            str(each["whole_nodes"]),
            *(str(fits["bundles"]) for fits in each["fits"]),
            *(plain(block_of(block)) for block in each["blocks"]),
        )
    return table


def stranded(picture: Row) -> str:
    """Return stranded GPUs, and which part of all that is, such as `6 (5.0 %)`."""
    gpus, total = int(picture["stranded_gpus"]), int(picture["total_gpus"])
    return f"{gpus} ({100 * gpus / total:.1f} %)" if total else str(gpus)


def block_of(block: Row) -> str:
    """Return the largest block of a level and where it is, such as `4 on s1/l2`."""
    nodes, domain = int(block["nodes"]), str(block["domain"])
    return f"{nodes} on {domain}" if nodes and domain != block["level"] else str(nodes)


def moves(found: Sequence[Row]) -> Table:
    """Return the table of moves, in the order in which they would be carried out."""
    table = empty("MOVE", "OF", "GRANT", "GPUS", "FROM", "TO", "WHY")
    for move in found:
        names = (str(move[key]) for key in ("what", "grant"))
        where_ = (plain(str(move[key])) for key in ("source", "target", "why"))
        table.add_row(str(move["kind"]), *(plain(name) or "-" for name in names), str(move["gpus"]), *where_)
    return table


def outcome(plan: Row) -> str:
    """Return what a plan of moves comes to, as a sentence."""
    if not plan["moves"]:
        return f"Nothing to move: no node can be emptied. {plan['stranded_before_gpus']} GPUs are stranded."
    freed, count = len(plan["freed_nodes"]), len(plan["moves"])
    lost = f", {duration(float(plan['lost_gpu_s']))} of GPU time done again" if plan["lost_gpu_s"] else ""
    return (
        f"{count} move{'' if count == 1 else 's'} would make {freed} more node{'' if freed == 1 else 's'} whole: "
        f"{plan['stranded_before_gpus']} stranded GPUs become {plan['stranded_after_gpus']}{lost}. Nothing was moved."
    )


def crossing_steps(steps: Sequence[Row]) -> Table:
    """Return the table of nodes that should cross, and whom that moves."""
    table = empty("NODE", "FROM", "TO", "GPUS", "MOVED", "DONE AGAIN")
    for each in steps:
        moved = plain(" ".join(str(name) for name in each["moved"])) or "-"
        lost = duration(float(each["lost_gpu_s"])) if each["lost_gpu_s"] else "-"
        table.add_row(plain(str(each["node"])), str(each["was"]), str(each["to"]), str(each["gpus"]), moved, lost)
    return table


def _came_up(crossing: Row) -> str:
    """Return whether a node has its other class outside of the arbiter's books too: a pool's is made anew."""
    return "yes" if not crossing.get("machine") or crossing.get("settled_at") else "is made anew"


def crossings(found: Sequence[Row]) -> Table:
    """Return the table of nodes that cross, or have crossed."""
    table = empty("CROSSING", "FROM", "TO", "GPUS", "ASKED BY", "IS IT")
    for each in found:
        has = "not yet" if each["moved_at"] is None else _came_up(each)
        who = plain(str(each["who"]))
        table.add_row(plain(str(each["node"])), str(each["was"]), str(each["to"]), str(each["gpus"]), who, has)
    return table


def boundary(plan: Row) -> str:
    """Return what the boundary rests on, and what it would cost to move it, as a sentence."""
    lost = f", {duration(float(plan['lost_gpu_s']))} of GPU time done again" if plan["lost_gpu_s"] else ""
    left = f"; {plan['left_this_week']} more may cross this week" if plan["steps"] else ""
    return f"{plan['sentence']}{lost}{left}."


def forecast(clock: Sequence[str], rows: Sequence[Row], quantiles: Sequence[float]) -> Table:
    """Return the table of GPUs that will be wanted, a column a quantile; `clock` has the time of each row."""
    table = empty("AT", *(f"P{100 * q:g}" for q in quantiles))
    for at, row in zip(clock, rows, strict=True):
        table.add_row(at, *(f"{gpus:.0f}" for gpus in row["wanted_gpus"]))
    return table


def events(entries: Sequence[Row], clock: Mapping[int, str]) -> Table:
    """Return events, oldest first; `clock` has the time of each by its number."""
    table = empty("SEQ", "TIME", "KIND", "SUBJECT", "DETAIL")
    for entry in entries:
        table.add_row(
            str(entry["seq"]), clock[int(entry["seq"])], str(entry["kind"]), plain(str(entry["subject"])), detail(entry)
        )
    return table


def detail(entry: Row) -> str:
    """Return an event's details on one line."""
    given = (entry.get("detail") or {}).items()
    return plain(" ".join(f"{key}={_brief(value)}" for key, value in given if value not in (None, "", [], {})))


def _letters_of(found: Sequence[Row]) -> dict[str, str]:
    """Give every holder one letter, the same on every node."""
    names = sorted({str(held.get("what")) for node in found for held in node.get("holders") or ()})
    return dict(zip(names, _LETTERS, strict=False))


def _brief(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _replica(given: object) -> str:
    if isinstance(given, Mapping):
        return f"{given.get('gpus', 0)} GPU"
    return "-" if given is None else str(given)


def empty(*headings: str) -> Table:
    """Return an empty table in the style of all of them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        wide = heading in {"WHERE / WHY", "HELD BY", "DETAIL", "QUARANTINE", "BOOKED FOR", "FOUND IN"}
        overflow: OverflowMethod = "fold" if heading in {"DETAIL", "FOUND IN"} else "ellipsis"
        # However narrow the terminal, what is short stays whole.
        table.add_column(heading, no_wrap=not wide, overflow=overflow, min_width=len(heading))
    return table
