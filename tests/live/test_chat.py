"""The chat service answers over HTTP: whole or as it is written, several requests at a time, the newest checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from ray import serve

from tests.live.raybox import REPOSITORY, RayBox, free_port
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]

charlm = pytest.importorskip("jobs.charlm", reason="the service needs the extra `demo`")

LIMIT_S = 240.0
STEP = 7
PROMPT = "The harbour "


@pytest.fixture(scope="module")
def url(connected: RayBox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Deploy `serve_configs/chat.yaml` with one replica and without the fleet's policy."""
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    charlm.save(checkpoints / "llm" / "step-7", charlm.fresh()._replace(step=STEP), seed=0)
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port}, proxy_location="HeadOnly")
    httpx.put(f"{connected.dashboard_url}/api/serve/applications/", json=config(checkpoints)).raise_for_status()
    url = f"http://127.0.0.1:{port}/generate"
    eventually(lambda: answers(url), LIMIT_S)
    yield url
    serve.shutdown()


def config(checkpoints: Path) -> dict[str, Any]:
    document = yaml.safe_load((REPOSITORY / "serve_configs" / "chat.yaml").read_text(encoding="utf-8"))
    (application,) = document["applications"]
    application["args"]["checkpoints"] = str(checkpoints)
    (deployment,) = application["deployments"]
    del deployment["autoscaling_config"]
    deployment["num_replicas"] = 1
    return dict(document)


def answers(url: str) -> bool:
    try:
        return httpx.post(url, json={"prompt": "x", "tokens": 1}, timeout=LIMIT_S).is_success
    except httpx.TransportError:
        return False


def write(url: str, tokens: int, prompt: str = PROMPT) -> dict[str, Any]:
    answer = httpx.post(url, json={"prompt": prompt, "tokens": tokens}, timeout=LIMIT_S).raise_for_status()
    return dict(answer.json())


def test_an_answer_has_the_text_and_the_step_of_the_newest_checkpoint(url: str) -> None:
    answer = write(url, 12)
    want = "".join(charlm.generate(charlm.fresh().params, PROMPT, 12))
    assert answer == {"text": want, "step": STEP}


def test_a_stream_arrives_in_pieces_and_is_the_same_text(url: str) -> None:
    asked = {"prompt": PROMPT, "tokens": 12, "stream": True}
    with httpx.stream("POST", url, json=asked, timeout=LIMIT_S) as answer:
        pieces = list(answer.iter_text())
    assert answer.headers["transfer-encoding"] == "chunked"
    assert len(pieces) > 1
    assert "".join(pieces) == write(url, 12)["text"]


def test_requests_that_come_together_get_what_each_would_get_alone(url: str) -> None:
    asked = [(tokens, f"Prompt {tokens} ") for tokens in range(1, 13)]
    with ThreadPoolExecutor(len(asked)) as crowd:
        together = list(crowd.map(lambda ask: write(url, *ask), asked))
    assert together == [write(url, *ask) for ask in asked]
    assert [len(answer["text"]) for answer in together] == [tokens for tokens, _ in asked]


def test_a_bad_request_is_told_what_and_how(url: str) -> None:
    answer = httpx.post(url, json={"prompt": "x", "tokens": 0}, timeout=LIMIT_S)
    assert answer.status_code == 422
    assert answer.json()["error"]["what"].startswith("tokens: ")
    assert httpx.get(url, timeout=LIMIT_S).status_code == 405
