"""Ports of a local fleet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fleet_app.adapters.local_nodes import free_ports


def test_no_port_is_given_twice() -> None:
    with ThreadPoolExecutor(4) as threads:
        given = [port for ports in threads.map(free_ports, [4] * 100) for port in ports]
    assert len(set(given)) == len(given) == 400
