"""Running many episodes side by side.

A model in this process gets one request of each episode in one batch. An endpoint gets each request as soon as its episode has
it: no episode waits for the slowest reply of a batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from skillbench.interfaces import ChatModel, ChatReply, ChatRequest
from skillbench.records import Episode

Attempt = Generator[ChatRequest, ChatReply, Episode]
Start = Callable[[], Attempt]


@dataclass(slots=True)
class _Live:
    attempt: Attempt
    request: ChatRequest


def play(starts: Iterable[Start], llm: ChatModel, at_once: int) -> Iterator[Episode]:
    """Each episode as soon as it ends; at most ``at_once`` run at a time.

    What an episode does depends on its own requests and replies alone, so the number side by side and the order in which they end
    change no episode (the seconds of its calls aside).
    """
    together = not getattr(llm, "answers_apart", False)
    return _play_together(starts, llm, at_once) if together else _play_apart(starts, llm, at_once)


def _play_apart(starts: Iterable[Start], llm: ChatModel, at_once: int) -> Iterator[Episode]:
    """A thread for each episode that runs. They are daemons, so that an interrupted run need not wait for their last replies."""
    ended: queue.SimpleQueue[Episode | BaseException] = queue.SimpleQueue()
    waiting, stop, todo = queue.SimpleQueue[Start](), threading.Event(), list(starts)
    for start in todo:
        waiting.put(start)

    def work() -> None:
        while not stop.is_set():
            try:
                start = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put(_play_one(start(), llm, stop))
            except BaseException as error:  # noqa: BLE001 - raised again where the episodes are waited for
                ended.put(error)

    for _ in range(min(at_once, len(todo))):
        threading.Thread(target=work, name="skillbench-episode", daemon=True).start()
    try:
        for _ in todo:
            result = ended.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()


class _Stopped(Exception):
    """The run is over; nobody waits for this episode."""


def _play_one(attempt: Attempt, llm: ChatModel, stop: threading.Event) -> Episode:
    try:
        request = next(attempt)
        while not stop.is_set():
            request = attempt.send(llm.complete([request])[0])
    except StopIteration as end:
        episode: Episode = end.value
        return episode
    raise _Stopped


def _play_together(starts: Iterable[Start], llm: ChatModel, at_once: int) -> Iterator[Episode]:
    waiting = iter(starts)
    live: list[_Live] = []
    while True:
        while len(live) < at_once and (start := next(waiting, None)) is not None:
            attempt = start()
            try:
                live.append(_Live(attempt, next(attempt)))
            except StopIteration as stop:
                yield stop.value
        if not live:
            return
        replies = llm.complete([one.request for one in live])
        still: list[_Live] = []
        for one, reply in zip(live, replies, strict=True):
            try:
                one.request = one.attempt.send(reply)
                still.append(one)
            except StopIteration as stop:
                yield stop.value
        live = still
