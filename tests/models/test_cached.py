"""The generation cache: what it stores, who may use it at once, and what a kill costs. FIELD-FAULTS A08."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from chat_toys import SCHEMA, asking, openai_chat
from fault_server import FaultServer, Seen, chat

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatMessage, ChatReply, ChatRequest
from skillbench.models.cache_store import ReplyStore
from skillbench.models.cached import CachedChat, open_llm
from skillbench.models.outcomes import OUTCOMES
from skillbench.models.scripted import ScriptedChat
from skillbench.records import Usage

HERE = Path(__file__).parent
ENV = {**os.environ, "PYTHONPATH": f"{HERE.parent.parent}:{HERE}"}


def echo(request: ChatRequest) -> str:
    return f"re {request.messages[-1].content}"


def worker(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "cache_worker.py"), *map(str, arguments)]
    return subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "generations.sqlite"


def test_what_was_asked_is_not_asked_again(db: Path) -> None:
    inner = ScriptedChat(reply=echo)
    first = CachedChat(inner, db).complete(asking("a", "b"))
    heard: list[tuple[int, str, bool]] = []
    model = CachedChat(ScriptedChat(reply=echo), db)
    second = model.complete(asking("b", "c", "a"), lambda i, r: heard.append((i, r.text, r.cached)))
    assert [r.text for r in second] == ["re b", "re c", "re a"] and [r.cached for r in second] == [True, False, True]
    assert heard == [(0, "re b", True), (2, "re a", True), (1, "re c", False)]  # what is known comes first
    assert second[2] == replace(first[0], cached=True)  # usage and all
    assert (model.stats()["cache_hits"], model.stats()["requests"], model.stats()["cache_stored"]) == (2, 1, 1)
    model.release()
    assert model.complete(asking("c"))[0].cached  # usable after release


def test_the_original_usage_and_latency_come_back(db: Path) -> None:
    with FaultServer(lambda seen: chat("x", usage=(11, 7), delay=0.05)) as server:
        model = CachedChat(openai_chat(server.base_url, price_in=1.0, price_out=1.0), db)
        (asked,) = model.complete(asking("a"))
        (known,) = model.complete(asking("a"))
        model.release()
    assert known == replace(asked, cached=True) and known.usage.seconds >= 0.05 and known.usage.cost_usd == pytest.approx(18e-6)
    assert len(server.seen) == 1


def test_equal_requests_in_a_batch_are_asked_once(db: Path) -> None:
    inner = ScriptedChat(reply=echo)
    replies = CachedChat(inner, db).complete(asking("a", "b", "a", "a"))
    assert [r.text for r in replies] == ["re a", "re b", "re a", "re a"] and inner.calls == 2
    assert [r.cached for r in replies] == [False, False, True, True]
    failing = ScriptedChat(lines=[{"match": "", "reply": "", "outcome": "timeout"}])
    one, two = CachedChat(failing, db).complete(asking("z", "z"))
    assert (one.outcome, two.outcome, failing.calls) == ("timeout", "timeout", 1)
    assert one.usage.calls == 1 and two.usage == Usage()


@pytest.mark.parametrize("outcome", [name for name in OUTCOMES if name != "ok"])
def test_only_complete_replies_are_stored(outcome: str, db: Path) -> None:
    CachedChat(ScriptedChat(lines=[{"match": "", "reply": "half", "outcome": outcome}]), db).complete(asking("a"))
    lines = [{"match": "", "reply": "half", "outcome": outcome}]  # the same identity, so the same key
    model = CachedChat(ScriptedChat(lines=lines), db)
    model.complete(asking("a"))
    assert model.stats()["cache_hits"] == 0 and model.stats()["requests"] == 1


def test_a_reply_to_a_schema_is_stored_only_if_it_parses(db: Path) -> None:
    script: dict[str, Any] = {"lines": [{"match": "", "reply": ['{"a": 1', 'Sure: {"a": 2}', '{"a": 3}']}]}
    texts = []
    for _ in range(3):
        inner = ScriptedChat(**script)
        inner._played[0] = len(texts)
        texts.append(CachedChat(inner, db).complete(asking("a", schema=SCHEMA))[0].text)
    assert texts == ['{"a": 1', 'Sure: {"a": 2}', 'Sure: {"a": 2}']


def test_every_field_of_a_request_and_of_the_models_identity_is_in_the_key(db: Path) -> None:
    base = ChatRequest((ChatMessage("user", "a"),))
    changes: dict[str, Any] = {
        "messages": (ChatMessage("system", "a"),),
        "max_tokens": 9,
        "temperature": 0.1,
        "top_p": 0.9,
        "seed": 1,
        "schema": SCHEMA,
        "stop": ("x",),
        "sample": 1,
    }
    assert {*changes, "cut_ok"} == {field.name for field in fields(ChatRequest)}
    model = CachedChat(openai_chat("http://127.0.0.1:9/v1"), db)
    keys = {model.key(base), *(model.key(replace(base, **{name: value})) for name, value in changes.items())}
    options: list[dict[str, Any]] = [{"model": "n"}, {"revision": "n"}, {"structured": "prompt"}, {"extra_body": {"k": 1}}]
    keys |= {CachedChat(openai_chat("http://127.0.0.1:9/v1", **option), db).key(base) for option in options}
    keys.add(CachedChat(openai_chat("http://127.0.0.1:10/v1"), db).key(base))
    assert len(keys) == 1 + len(changes) + len(options) + 1
    same = CachedChat(openai_chat("http://127.0.0.1:9/v1/", concurrency=1, name="other"), db)
    assert same.key(base) == model.key(base) == model.key(replace(base, cut_ok=True))


def test_a_cut_reply_is_stored_only_for_who_can_use_it_and_stays_cut(db: Path) -> None:
    said = [("length", "")]

    def model() -> CachedChat:
        return CachedChat(ScriptedChat(reply=lambda request: ChatReply(*said[0], said[0][1], "m", Usage(1, 1, 1, 0.0, None))), db)

    plain, usable = asking("a")[0], replace(asking("b")[0], cut_ok=True)
    shaped = replace(asking("c", schema=SCHEMA)[0], cut_ok=True)
    for text, requests, stored in (
        ("half a", [plain, usable], [False, True]),
        ("  ", [replace(usable, seed=9)], [False]),
        ('{"a": 1', [shaped], [False]),
        ('{"a": 1} and', [shaped], [True]),
    ):
        said[0] = ("length", text)
        model().complete(requests)
        said[0] = ("ok", "other")
        again = model().complete(requests)
        assert [(reply.cached, reply.outcome) for reply in again] == [(s, "length" if s else "ok") for s in stored]


def test_texts_of_every_kind_come_back_as_they_were(db: Path) -> None:
    text = 'é \U0001f600 "quoted" \x00 \u2028 <b>\n' * 50
    store = ReplyStore(db)
    reply = ChatReply("ok", text, f"<think>{text}</think>{text}", "m", Usage(1, None, 3, 0.1, None), "d")
    store.put("k", reply)
    store.close()
    assert ReplyStore(db).get_many(["k", "absent"]) == {"k": replace(reply, cached=True)}


def test_a_reply_is_committed_before_on_reply_hears_of_it(db: Path) -> None:
    model = CachedChat(ScriptedChat(reply=echo), db)
    requests = asking("a", "b")

    def look(index: int, reply: ChatReply) -> None:
        key = model.key(requests[index])
        assert ReplyStore(db).get_many([key])[key].text == reply.text

    model.complete(requests, look)


def test_more_keys_than_one_statement_takes(db: Path) -> None:
    model = CachedChat(ScriptedChat(reply=echo), db)
    prompts = [str(i) for i in range(1203)]
    model.complete(asking(*prompts))
    again = model.complete(asking(*reversed(prompts)))
    assert all(r.cached for r in again) and [r.text for r in again] == [f"re {p}" for p in reversed(prompts)]


def test_a08_eight_processes_start_cold_with_overlapping_keys(db: Path) -> None:
    workers = [worker("scripted", db, 20 * n, 50, 4) for n in range(8)]
    ends = [process.communicate(timeout=120) + (process.returncode,) for process in workers]
    assert [(err, code) for _, err, code in ends] == [("", 0)] * 8
    assert 190 <= sum(int(out.split()[0]) for out, _, _ in ends) <= 400
    assert worker("scripted", db, 0, 190, 4).communicate(timeout=60) == ("0 asked\n", "")
    with sqlite3.connect(db) as connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (190,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("enough", [1, 12, 25])
def test_a_killed_run_asks_again_only_for_what_was_in_flight(enough: int, db: Path) -> None:
    concurrency, total = 4, 60
    with FaultServer(lambda seen: chat(f"re {seen.prompt}", delay=0.03)) as server:
        process = worker(server.base_url, db, 0, total, concurrency)
        done = Path(f"{db}.done-0")
        deadline = time.monotonic() + 60
        while not done.exists() or len(done.read_text().splitlines()) < enough:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        heard = {f"prompt {i}" for i in done.read_text().split()}
        time.sleep(0.1)  # a request that was under way when the process died may still arrive
        before = server.prompts()
        resumed = worker(server.base_url, db, 0, total, concurrency)
        out, err = resumed.communicate(timeout=60)
    assert (resumed.returncode, err) == (0, "")
    after = server.prompts()
    twice = {prompt for prompt, count in after.items() if count > 1}
    assert set(after) == {f"prompt {i}" for i in range(total)} and max(after.values()) <= 2
    assert len(twice) <= concurrency and not twice & heard, "a reply that was delivered was asked for again"
    assert out == f"{total - len(before) + len(twice)} asked\n"


@pytest.mark.parametrize("damage", ["text", "cut", "scribble", "other database", "newer"])
def test_a08_a_torn_or_foreign_file_is_moved_aside_with_a_warning(damage: str, db: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = CachedChat(ScriptedChat(reply=echo), db)
    model.complete(asking(*[f"{i} {'x' * 500}" for i in range(60)]))
    model.release()
    whole = db.read_bytes()
    if damage == "text":
        db.write_text("these are my notes")
    elif damage == "cut":
        db.write_bytes(whole[: len(whole) // 2])
    elif damage == "scribble":
        db.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    elif damage == "other database":
        db.unlink()
        with sqlite3.connect(db) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        with sqlite3.connect(db) as connection:
            connection.execute("PRAGMA user_version=99")
    left = db.read_bytes()
    with caplog.at_level(logging.WARNING):
        replies = CachedChat(ScriptedChat(reply=echo), db).complete(asking("a"))
    assert replies[0].ok
    (aside,) = db.parent.glob("generations.sqlite.damaged-*[0-9]")
    assert aside.read_bytes() == left
    assert str(db) in caplog.text and aside.name in caplog.text
    caplog.clear()
    assert CachedChat(ScriptedChat(reply=echo), db).complete(asking("a"))[0].cached and not caplog.records


def test_a_file_killed_before_its_first_commit_is_taken_over(db: Path, caplog: pytest.LogCaptureFixture) -> None:
    db.touch()
    assert CachedChat(ScriptedChat(reply=echo), db).complete(asking("a"))[0].ok
    with sqlite3.connect(db.with_name("half.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA user_version=0")
    assert CachedChat(ScriptedChat(reply=echo), db.with_name("half.sqlite")).complete(asking("a"))[0].ok
    assert not caplog.records and not list(db.parent.glob("*damaged*"))


def test_a_cache_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SkillbenchError, match="generation cache cannot be opened"):
        CachedChat(ScriptedChat(reply=echo), tmp_path / "file" / "db.sqlite").complete(asking("a"))


def test_a_reply_that_cannot_be_stored_is_delivered_and_counted(db: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = CachedChat(ScriptedChat(reply=echo), db)
    model.complete(asking("a"))
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    assert model.complete(asking("b"))[0].text == "re b"
    assert model.stats()["cache_errors"] == 1 and "disk full" in caplog.text


def test_open_llm_puts_the_cache_around_a_model_or_not(db: Path) -> None:
    inner = ScriptedChat(reply=echo)
    assert open_llm(inner, None) is inner
    model = open_llm(inner, db)
    assert isinstance(model, CachedChat) and (model.name, model.sampling) == (inner.name, inner.sampling)
    assert model.describe() == {**inner.describe(), "cache": "generations.sqlite"}


def test_a_fault_is_asked_again_on_the_next_run_and_a_reply_is_not(db: Path) -> None:
    def once_broken(seen: Seen) -> Any:
        return chat(None) if seen.attempt == 1 and seen.prompt in ("b", "d") else chat(f"re {seen.prompt}")

    with FaultServer(once_broken) as server:
        outcomes = []
        for _ in range(3):
            model = CachedChat(openai_chat(server.base_url), db)
            outcomes.append([r.outcome for r in model.complete(asking("a", "b", "c", "d"))])
            model.release()
    assert outcomes == [["ok", "empty", "ok", "empty"], ["ok"] * 4, ["ok"] * 4]
    assert server.prompts() == Counter({"a": 1, "b": 2, "c": 1, "d": 2})
