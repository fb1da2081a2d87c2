"""A cache around any chat model, and the one place that decides what stands around a model in a run."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skillbench.interfaces import ChatModel, ChatReply, ChatRequest
from skillbench.models.cache_store import ReplyStore
from skillbench.models.replies import Parsed, extract_json
from skillbench.records import Usage

log = logging.getLogger(__name__)


def open_llm(model: ChatModel, cache_path: Path | None, *, dry_run: bool = False) -> ChatModel:
    """What a run uses: ``model``, with the cache at ``cache_path`` around it unless that is None.

    With ``dry_run`` nothing is called: see skillbench.models.dry_run. Requests that the cache can answer are answered by it and
    are not counted as calls; the file is not written to.
    """
    if dry_run:
        from skillbench.models.dry_run import DryRunChat

        model = DryRunChat(model)
    return model if cache_path is None else CachedChat(model, cache_path, read_only=dry_run)


class CachedChat:
    """Answers from ``path`` what was asked before, and asks ``inner`` for the rest.

    The key is the SHA-256 of the model's identity (``inner.describe()["identity"]``: model, revision or file hash, base URL,
    structured mode, extra body) and of every field of the request but ``cut_ok``. Stored is only a complete reply (``ok``, or
    ``length`` where the request says that cut text will do), and where the request has a schema only one that parses, each
    committed before ``on_reply`` hears of it. A cached reply keeps the usage of its call and has ``cached=True``. Requests that
    are equal within a batch are asked once; the others get the same reply, ``cached``, or without a usage of its own if it
    failed. Use from several threads and processes is safe; two processes that ask the same at the same moment may both call.
    """

    def __init__(self, inner: ChatModel, path: Path, *, read_only: bool = False) -> None:
        self.inner = inner
        self.name, self.sampling = inner.name, inner.sampling
        self.answers_apart = bool(getattr(inner, "answers_apart", False))
        self._store = ReplyStore(Path(path), read_only=read_only)
        self._identity = ""
        self._guard = threading.Lock()
        self._counts = {"cache_hits": 0, "cache_stored": 0, "cache_not_stored": 0, "cache_errors": 0}

    def complete(
        self, requests: Sequence[ChatRequest], on_reply: Callable[[int, ChatReply], None] | None = None
    ) -> list[ChatReply]:
        """See ChatModel. Cached replies are delivered first. Raises SkillbenchError if the cache file cannot be read."""
        keys = [self.key(request) for request in requests]
        found = self._store.get_many(dict.fromkeys(keys))
        replies: dict[int, ChatReply] = {}

        def deliver(index: int, reply: ChatReply) -> None:
            replies[index] = reply
            if on_reply is not None:
                on_reply(index, reply)

        missing: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            if key in found:
                self._count("cache_hits")
                deliver(index, found[key])
            else:
                missing.setdefault(key, []).append(index)
        self._ask(requests, missing, deliver)
        return [replies[i] for i in range(len(requests))]

    def _ask(
        self, requests: Sequence[ChatRequest], missing: Mapping[str, list[int]], deliver: Callable[[int, ChatReply], None]
    ) -> None:
        groups = list(missing.items())

        def on_inner(position: int, reply: ChatReply) -> None:
            key, (first, *others) = groups[position]
            self._keep(key, requests[first], reply)
            deliver(first, reply)
            echo = replace(reply, cached=True) if reply.ok else replace(reply, usage=Usage())
            for index in others:
                self._count("cache_hits")
                deliver(index, echo)

        if groups:
            self.inner.complete([requests[indices[0]] for _, indices in groups], on_inner)

    def _keep(self, key: str, request: ChatRequest, reply: ChatReply) -> None:
        if self._store.read_only or not _is_complete(request, reply):
            self._count("cache_not_stored")
            return
        try:
            self._store.put(key, reply)
            self._count("cache_stored")
        except sqlite3.Error as error:  # a paid-for reply is worth more than the cache: go on, but say and count it
            self._count("cache_errors")
            log.error("%s: a reply could not be stored (%s)", self._store.path, error)

    def _count(self, name: str) -> None:
        with self._guard:
            self._counts[name] += 1

    def key(self, request: ChatRequest) -> str:
        """The cache key of ``request``: 64 hexadecimal digits."""
        if not self._identity:
            self._identity = _canonical(_identity(self.inner))
        fields = asdict(request)
        del fields["cut_ok"]
        return hashlib.sha256(f"{self._identity}\n{_canonical(fields)}".encode()).hexdigest()

    def describe(self) -> Mapping[str, Any]:
        """The inner model's description; a cache changes no reply."""
        return {**self.inner.describe(), "cache": self._store.path.name}

    def stats(self) -> Mapping[str, float]:
        """The inner model's counts; then ``cache_hits``, and replies stored, not fit to be stored, and lost to an error."""
        return {**self.inner.stats(), **self._counts}

    def release(self) -> None:
        """Close the file and release the inner model."""
        self._store.close()
        self.inner.release()


def _is_complete(request: ChatRequest, reply: ChatReply) -> bool:
    is_whole = reply.ok or (request.cut_ok and reply.outcome == "length" and bool(reply.text.strip()))
    return is_whole and (not request.schema or isinstance(extract_json(reply.text), Parsed))


def _identity(model: ChatModel) -> Any:
    described = model.describe()
    return described.get("identity", described)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
