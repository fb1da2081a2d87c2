"""Any OpenAI-compatible endpoint: hosted, vLLM, SGLang, Ollama, llama.cpp."""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.answers import Answer
from skillbench.models.budget import WAIT, Budget, Claim, Limits, Pricing, Tally
from skillbench.models.completion import Completion, read_completion, read_error
from skillbench.models.endpoint import check_base_url, is_loopback, read_key
from skillbench.models.loop_thread import Emit, LoopThread
from skillbench.models.retry import RetryPolicy, read_retry_after
from skillbench.models.sampling import Sampling, draw_seed
from skillbench.models.structured import ENDPOINT_MODES, check_mode, response_format
from skillbench.records import Usage

log = logging.getLogger(__name__)

RAMP_S = 0.001
"""Seconds between the starts of two slots. Slots that start together stay together: each wave then waits for the client's own
work on the whole wave, which at concurrency 64 and 200 ms latency costs a tenth of the throughput."""

OnReply = Callable[[int, ChatReply], None]
Item = tuple[int, ChatReply]

_TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")
_OMITTABLE = ("temperature", "top_p", "seed", "stop")
_NEVER_CONNECTED = ("ConnectError", "ClientConnectorError", "ClientConnectorDNSError", "ClientConnectorCertificateError")
_OWN_FIELDS = frozenset({"model", "messages", "n", "stream", "response_format", *_TOKEN_FIELDS, *_OMITTABLE})


@dataclass(slots=True)
class _Session:
    """What lives on the event loop between calls: the connections, and what guards concurrency and budget."""

    client: Any
    slots: asyncio.Semaphore
    settled: asyncio.Condition


@dataclass(slots=True)
class _Attempt:
    completion: Completion
    retry_after: float | None = None


class OpenAIChat:
    """Chat completions over HTTP with the official SDK, whose own retries are off.

    ``complete`` may be called from any thread, also inside a running event loop; the concurrency limit and the budget hold over all
    calls together. It never raises for a reply: whatever the endpoint does becomes a typed outcome. Requests start in their
    order; one that waits for a retry keeps its slot, which slows the whole down when an endpoint says so.

    base_url, api_key_env: see skillbench.models.endpoint. model: the id that the endpoint knows. revision: a label of your own
    (file hash, date) for the receipt and the cache key, since an endpoint does not tell which weights it serves.
    structured, strict_schema: see skillbench.models.structured. max_tokens_field: ``max_completion_tokens`` for endpoints that
    refuse ``max_tokens``. omit: request fields not to send (of temperature, top_p, seed, stop). extra_body: further fields of the
    body, such as ``{chat_template_kwargs: {enable_thinking: false}}`` for vLLM. request_timeout_s: one attempt;
    total_timeout_s: one request with all its retries and waits. max_*: see skillbench.models.budget.
    """

    answers_apart = True

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        api_key_env: str,
        revision: str,
        sampling: Sampling,
        structured: str,
        strict_schema: bool,
        max_tokens_field: str,
        omit: Sequence[str],
        extra_body: Mapping[str, Any],
        concurrency: int,
        request_timeout_s: float,
        total_timeout_s: float,
        retry: RetryPolicy,
        max_calls: int | None,
        max_tokens_total: int | None,
        max_cost_usd: float | None,
        max_seconds: float | None,
        price_in: float | None,
        price_out: float | None,
    ) -> None:
        self.name, self.model, self.revision = name, model, revision
        self.base_url = check_base_url(base_url)
        self.api_key_env = api_key_env
        self._key = read_key(api_key_env, self.base_url)
        self.sampling, self.retry = sampling, retry
        self.structured, self.strict_schema = check_mode(structured, ENDPOINT_MODES), strict_schema
        self.max_tokens_field, self.omit, self.extra_body = max_tokens_field, tuple(omit), dict(extra_body)
        self.concurrency, self.request_timeout_s, self.total_timeout_s = concurrency, request_timeout_s, total_timeout_s
        self.pricing = Pricing(price_in, price_out)
        self.limits = Limits(max_calls, max_tokens_total, max_cost_usd, max_seconds)
        self._check()
        self._openai = _import_openai()
        self._budget = Budget(self.limits, self.pricing)
        self._tally = Tally()
        self._served_as: set[str] = set()
        self._rng = random.Random()  # jitter only: must differ between processes, and decides no result
        self._thread = LoopThread()
        self._session: _Session | None = None

    def _check(self) -> None:
        if not self.model:
            raise SkillbenchError("llm.model is empty; give the model id that the endpoint knows")
        if self.concurrency < 1 or min(self.request_timeout_s, self.total_timeout_s) <= 0:
            raise SkillbenchError("llm.concurrency must be 1 or more, llm.request_timeout_s and llm.total_timeout_s above 0")
        if self.max_tokens_field not in _TOKEN_FIELDS:
            raise SkillbenchError(f"llm.max_tokens_field is {self.max_tokens_field!r}; choose one of {', '.join(_TOKEN_FIELDS)}")
        wrong = sorted(set(self.omit) - set(_OMITTABLE))
        if wrong:
            raise SkillbenchError(f"llm.omit: {wrong[0]!r} cannot be left out; choose from {', '.join(_OMITTABLE)}")
        clash = sorted(_OWN_FIELDS & set(self.extra_body))
        if clash:
            raise SkillbenchError(f"llm.extra_body.{clash[0]} is a field with an option of its own; set that instead")

    def complete(self, requests: Sequence[ChatRequest], on_reply: OnReply | None = None) -> list[ChatReply]:
        """Replies in the order of ``requests``. ``on_reply`` runs in the caller's thread, and a slot asks again only after it."""
        replies: dict[int, ChatReply] = {}

        def deliver(item: Item) -> None:
            index, reply = item
            replies[index] = reply
            self._tally.add(reply)
            if on_reply is not None:
                on_reply(index, reply)

        if requests:
            bodies = [self.body(request) for request in requests]
            self._thread.run(lambda emit: self._run(requests, bodies, emit), deliver)
        return [replies[i] for i in range(len(requests))]

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The JSON body that is sent for ``request``."""
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            self.max_tokens_field: request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": draw_seed(request),
        }
        if request.stop:
            fields["stop"] = list(request.stop)
        shape = response_format(self.structured, request.schema, self.strict_schema)
        if shape is not None:
            fields["response_format"] = shape
        return {key: value for key, value in fields.items() if key not in self.omit} | self.extra_body

    def describe(self) -> Mapping[str, Any]:
        """See ChatModel. ``identity`` is what decides a reply and so keys the cache; ``served_as`` are names the endpoint gave."""
        identity = {
            "kind": "openai",
            "model": self.model,
            "revision": self.revision,
            "base_url": self.base_url,
            "structured": self.structured,
            "strict_schema": self.strict_schema,
            "omit": sorted(self.omit),
            "extra_body": self.extra_body,
        }
        return {
            "name": self.name,
            "identity": identity,
            "sampling": asdict(self.sampling),
            "max_tokens_field": self.max_tokens_field,
            "api_key_env": self.api_key_env,
            "concurrency": self.concurrency,
            "request_timeout_s": self.request_timeout_s,
            "total_timeout_s": self.total_timeout_s,
            "retry": {**asdict(self.retry), "outcomes": list(self.retry.outcomes)},
            "limits": asdict(self.limits),
            **asdict(self.pricing),
            "served_as": sorted(self._served_as),
        }

    def stats(self) -> Mapping[str, float]:
        """See skillbench.models.budget.Tally.as_stats."""
        return self._tally.as_stats()

    def release(self) -> None:
        """Close connections and the thread behind them; what the budget has counted stays."""
        atexit.unregister(self.release)
        self._thread.close(self._goodbye)

    async def _goodbye(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.client.close()

    async def _run(self, requests: Sequence[ChatRequest], bodies: Sequence[Mapping[str, Any]], emit: Emit[Item]) -> None:
        session = self._session = self._session or self._connect()
        todo = iter(range(len(requests)))

        async def work(start: float) -> None:
            await asyncio.sleep(start)
            for index in todo:
                async with session.slots:
                    reply = await self._answered(session, requests[index], bodies[index])
                await emit((index, reply))

        async with asyncio.TaskGroup() as group:
            for k in range(min(self.concurrency, len(requests))):
                group.create_task(work(k * RAMP_S))

    def _connect(self) -> _Session:
        for name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai"):  # else each request is a line in the run's log
            if logging.getLogger(name).level == logging.NOTSET:
                logging.getLogger(name).setLevel(logging.WARNING)
        lean = importlib.util.find_spec("aiohttp") is not None  # half the processor time a call; the SDK supports both
        transport = self._openai.DefaultAioHttpClient if lean else self._openai.DefaultAsyncHttpxClient
        http = transport(trust_env=not is_loopback(self.base_url), timeout=self.request_timeout_s)
        client = self._openai.AsyncOpenAI(
            api_key=self._key.reveal(),
            base_url=self.base_url,
            organization="",
            project="",
            max_retries=0,
            timeout=self.request_timeout_s,
            http_client=http,
        )
        atexit.register(self.release)  # else an unfinished run ends in warnings about open connections
        return _Session(client, asyncio.Semaphore(self.concurrency), asyncio.Condition())

    async def _answered(self, session: _Session, request: ChatRequest, body: Mapping[str, Any]) -> ChatReply:
        """Ask until there is an answer that is not retried, or retries, time or budget are used up."""
        deadline = time.monotonic() + self.total_timeout_s
        last: Completion | None = None
        usage, note, retry = Usage(), "", 0
        while True:
            claim = await self._claimed(session, request)
            if not isinstance(claim, Claim):
                note = claim
                break
            attempt, used = await self._attempt(session, claim, body, deadline)
            usage, last = usage + used, attempt.completion
            if last.answer.outcome not in self.retry.outcomes or not last.retryable:
                break
            retry += 1
            wait = self.retry.wait(retry, attempt.retry_after, self._rng)
            given_up = self._given_up(retry, wait, deadline)
            if given_up is not None:
                note = given_up
                break
            log.debug("%s: %s; retry %d in %.1f s", self.name, last.answer.outcome, retry, wait)
            await asyncio.sleep(wait)
        return self._reply(last, usage, note)

    def _given_up(self, retry: int, wait: float, deadline: float) -> str | None:
        """Why there is no further retry (an empty text where none was ever meant), or None to go on."""
        if retry > self.retry.max_retries:
            return f"after {self.retry.max_retries} retries" if self.retry.max_retries else ""
        if time.monotonic() + wait >= deadline:
            return f"no time for another try within llm.total_timeout_s={self.total_timeout_s:g}"
        return None

    async def _claimed(self, session: _Session, request: ChatRequest) -> Claim | str:
        async with session.settled:
            while (verdict := self._budget.ask(request)) == WAIT:
                await session.settled.wait()
        return verdict

    async def _attempt(self, session: _Session, claim: Claim, body: Mapping[str, Any], deadline: float) -> tuple[_Attempt, Usage]:
        began = time.monotonic()
        usage = Usage(1, None, None, 0.0, None)
        try:
            attempt = await self._post(session, body, min(self.request_timeout_s, deadline - began))
            done = attempt.completion
            cost = self.pricing.cost(done.prompt_tokens, done.completion_tokens)
            usage = Usage(1, done.prompt_tokens, done.completion_tokens, time.monotonic() - began, cost)
            return attempt, usage
        finally:
            self._budget.settle(claim, usage)
            async with session.settled:
                session.settled.notify_all()

    async def _post(self, session: _Session, body: Mapping[str, Any], seconds: float) -> _Attempt:
        """One HTTP exchange. Every failure becomes an outcome here, at the border of the request."""
        sdk = self._openai
        try:
            async with asyncio.timeout(seconds):
                return _Attempt(read_completion(await session.client.post("/chat/completions", cast_to=str, body=body)))
        except sdk.APIStatusError as error:
            return _Attempt(read_error(error.status_code, error.response.text), read_retry_after(error.response.headers))
        except Exception as error:  # noqa: BLE001 - the SDK and the transports below it raise many kinds
            return _Attempt(_transport_failure(error, seconds))

    def _reply(self, last: Completion | None, usage: Usage, note: str) -> ChatReply:
        if last is None:
            return ChatReply("budget", "", "", self.model, usage, note)
        if last.model:
            self._served_as.add(last.model)
        answer = last.answer
        detail = "; ".join(part for part in (self._key.redact(answer.detail), note) if part)
        return ChatReply(answer.outcome, answer.text, self._key.redact(answer.raw), self.model, usage, detail)


def _transport_failure(error: Exception, seconds: float) -> Completion:
    """A failure below HTTP, told by the chain of its causes, since transports disagree on the types that they wrap it in.

    Unless the request surely never arrived, its tokens are unknown, not zero.
    """
    chain: list[BaseException] = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    if any(isinstance(link, TimeoutError) for link in chain):
        return Completion(Answer("timeout", "", "", f"no answer within {seconds:.3g} s"))
    tokens = 0 if any(type(link).__name__ in _NEVER_CONNECTED for link in chain) else None
    detail = " ".join(f"{type(chain[-1]).__name__}: {chain[-1]}".split())[:300]
    return Completion(Answer("connection", "", "", detail), tokens, tokens)


def _import_openai() -> Any:
    """Imported when a model is built, not at its first call: it takes most of a second, and an absent SDK must be told early."""
    try:
        import openai
    except ImportError as error:
        raise SkillbenchError(f"llm=openai needs the package openai ({error}); install it with: pip install 'openai>=3'") from error
    return openai
