"""A planning run against a real (local) endpoint, killed over and over, and one that meets every fault on its way."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli import command, environment, newest, run_cli, run_here
from tests.models import fault_server as faults
from tests.models.fault_server import Canned, FaultServer, Seen, chat

CONCURRENCY, KILLS = 4, 20


def imagine(seen: Seen) -> str:
    """A reply that depends on the prompt alone: one to three capabilities, or a skill."""
    digest = hashlib.sha256(seen.prompt.encode()).hexdigest()
    if "response_format" not in seen.body:
        return f"---\nname: skill-{digest[:6]}\ndescription: Use it for {seen.prompt[-60:].strip()}\n---\n\nStep {digest[:4]}."
    words = re.findall(r"[a-z]{5,}", seen.prompt.rpartition("Task: ")[2].lower())
    capabilities = [f"handling of {word} in step {n} {digest[:4]}" for n, word in enumerate(words[: 1 + int(digest[0], 16) % 3])]
    return json.dumps({"anchors": words[:4], "capabilities": capabilities})


def arguments(server: FaultServer, outputs: Path, *more: str) -> list[str]:
    """The sample's 68 tasks, planned through the endpoint. Each server has a port of its own and so a cache of its own."""
    return [
        "method=skilldreamer",
        "plans=null",
        "backbone=bm25",
        "llm=openai",
        "llm.model=local",
        f"llm.base_url={server.base_url}",
        f"llm.concurrency={CONCURRENCY}",
        "llm.retry.base_s=0.01",
        "llm.retry.max_retries=1",
        "method.planner.queries_at_once=8",
        "judge.resamples=100",
        f"paths.outputs={outputs}",
        f"paths.cache={outputs / 'cache'}",
        *more,
    ]


def plans_without_seconds(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "plans.jsonl").read_text().splitlines()]
    for row in rows:
        row["usage"].pop("seconds")
    return rows


def same_predictions(one: Path, other: Path) -> None:
    assert plans_without_seconds(one) == plans_without_seconds(other)
    for name in ("rankings.jsonl", "rankings.trec", "traces.jsonl", "baseline.jsonl", "measurements.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    metrics = [json.loads((run / "metrics.json").read_text()) for run in (one, other)]
    assert [m.pop("timing") is not None for m in metrics] == [True, True]
    assert json.dumps(metrics[0]) == json.dumps(metrics[1])


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command(*arguments), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_twenty_kills_and_no_prompt_is_asked_twice_but_those_in_flight(tmp_path: Path) -> None:
    """Kill -9 at 20 moments spread over a whole run, a few ms after a request that a fixed seed picks; each life resumes it."""
    draw = random.Random(11)
    with FaultServer(lambda seen: chat(imagine(seen), delay=0.01)) as calm:
        done = run_cli(*arguments(calm, tmp_path / "calm"))
        assert done.returncode == 0, done.stderr
    asked = len(calm.seen)
    assert asked == len(calm.prompts()) > 68

    moments = sorted(draw.sample(range(2, asked - CONCURRENCY), KILLS))
    earlier: Counter[str] = Counter()
    lost = 0
    with FaultServer(lambda seen: chat(imagine(seen), delay=0.02)) as server:
        for moment in [*moments, None]:
            before = len(server.seen)
            resume = [f"resume={newest(tmp_path / 'killed')}"] if before else []
            with started(*arguments(server, tmp_path / "killed", *resume)) as process:
                wait_for(lambda m=moment, p=process, b=before: p.poll() is not None or is_time(server, m, b))
                if moment is not None:
                    time.sleep(draw.uniform(0, 0.03))
                    assert process.poll() is None, "the run ended before it could be killed"
            own = Counter(seen.prompt for seen in server.seen[before:])
            again = own.keys() & earlier.keys()
            assert max(own.values()) == 1, "one life asked a prompt twice"
            assert len(again) <= lost, "a reply that had been stored was asked for again"
            earlier.update(own)
            lost = len(earlier) - stored(tmp_path / "killed" / "cache")
            assert 0 <= lost <= CONCURRENCY, "more than what was in flight is lost"
        assert process.returncode == 0

    assert server.prompts().keys() == calm.prompts().keys()
    same_predictions(newest(tmp_path / "calm"), newest(tmp_path / "killed"))


def is_time(server: FaultServer, moment: int | None, before: int) -> bool:
    """Whether so many prompts have come, and at least one request in this life."""
    return moment is not None and len(server.seen) > before and len(server.prompts()) >= moment


def stored(cache: Path) -> int:
    with closing(sqlite3.connect(cache / "generations.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for two minutes"
        time.sleep(0.002)


FAULTS: dict[str, tuple[Canned, str]] = {
    "rate limit once": (faults.status(429, retry_after="0"), ""),
    "rate limit always": (faults.status(429, retry_after="0"), "rate_limited"),
    "internal error": (faults.status(500), "server_error"),
    "dropped connection": (faults.drop(), "connection"),
    "answer cut on the way": (faults.cut_off(), "connection"),
    "slow reply": (chat("late", delay=5.0), "timeout"),
    "truncated body": (faults.truncated_json(), "malformed"),
    "no choices": (faults.no_choices(), "malformed"),
    "page of html": (faults.html(), "malformed"),
    "null content": (faults.null_content(), "capabilities"),
    "reasoning only": (faults.reasoning_only(), "capabilities"),
    "json cut by the limit": (chat('{"anchors": ["a"], "capab', finish_reason="length"), "capabilities"),
    "prose": (chat("I would rather talk."), "capabilities"),
}
"""For each task, named after its fault: what the endpoint does, and the outcome or stage that must be counted; "" where a second
attempt helps."""
CONTENT = [name for name, (_, counted) in FAULTS.items() if counted == "capabilities"]
TRANSPORT = [name for name, (_, counted) in FAULTS.items() if counted not in ("", "capabilities")]


def test_every_fault_is_an_outcome_of_its_own_and_a_resume_asks_only_for_transport(tiny_folder: Path, tmp_path: Path) -> None:
    names = [*FAULTS, "plain"]
    rows = [{"id": name, "query": f"mend the broken table after a {name}", "skills": ["mend-csv"]} for name in names]
    (tiny_folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    healed = False

    def behave(seen: Seen) -> Canned:
        name = next((n for n in FAULTS if "response_format" in seen.body and f"after a {n}\n" in seen.prompt), None)
        is_over = name is None or (name == "rate limit once" and seen.attempt > 1) or (healed and name in TRANSPORT)
        return chat(imagine(seen)) if is_over else FAULTS[str(name)][0]

    with FaultServer(behave) as server:
        own = ["dataset=folder", f"dataset.root={tiny_folder}", "llm.request_timeout_s=1", "ks=[5]", "k=5"]
        assert run_here(*arguments(server, tmp_path, *own)) == 0
        run = newest(tmp_path)
        reasons = {row["query_id"]: row["failure"] for row in plans_without_seconds(run)}
        for name, (_, counted) in FAULTS.items():
            assert (reasons[name] is None) == (counted == ""), name
            assert counted in (f"{reasons[name]['stage']}: {reasons[name]['reason']}" if counted else ""), name
        assert reasons["plain"] is None
        assert counts(run) == {"answered": 2, "failed": len(CONTENT) + len(TRANSPORT)}
        assert json.loads((run / "metrics.json").read_text())["counts"]["failures_by_stage"] == {
            "capabilities": len(CONTENT),
            "transport": len(TRANSPORT),
        }
        assert json.loads((run / "status.json").read_text())["transport_failures"] == len(TRANSPORT)

        healed, before = True, len(server.seen)
        assert run_here(*arguments(server, tmp_path, *own, f"resume={run}")) == 0
        asked = [seen.prompt for seen in server.seen[before:] if "response_format" in seen.body]
        assert sorted(n for n in names for prompt in asked if f"after a {n}\n" in prompt) == sorted(TRANSPORT)
        assert counts(run) == {"answered": 2 + len(TRANSPORT), "failed": len(CONTENT)}
        assert json.loads((run / "status.json").read_text())["transport_failures"] == 0


def counts(run: Path) -> dict[str, int]:
    found = json.loads((run / "metrics.json").read_text())["counts"]
    assert found["expected"] == len(FAULTS) + 1 and found["missing"] == 0
    return {state: found[state] for state in ("answered", "failed")}
