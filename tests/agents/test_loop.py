"""The loop: what is said to the model, in which order, what is counted, and how an episode ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from skillbench.agents.actions import Action
from skillbench.agents.arithmetic import Arithmetic
from skillbench.agents.attempts import play
from skillbench.agents.budget import Budget, Meter
from skillbench.agents.calculator import Calculator
from skillbench.agents.endings import NOT_JUDGED, Ending
from skillbench.agents.environment import Observation
from skillbench.agents.loop import Rules, attempt
from skillbench.agents.offers import Limits, Offer, make_offer
from skillbench.agents.templates import AgentPrompts
from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.answers import read_answer
from skillbench.models.sampling import Sampling
from skillbench.models.scripted import ScriptedChat
from skillbench.records import Episode, Failure, Skill, Task, Usage

TASK = Task("t1", "t1", 'How many are {"k": 1} and {{ braces }} and 6 times 7?')
SKILLS = (
    Skill("s1", "stock", "Balance of things.", "SECRET-BODY-ONE: add what comes in."),
    Skill("s2", "money", "Sums of money.", "SECRET-BODY-TWO: price times pieces."),
)
LIMITS = Limits(listing_chars=1000, skill_chars=1000, context_chars=1000)
OFFER = make_offer(SKILLS, LIMITS, in_context=False)
ENVIRONMENT = Arithmetic(name="arithmetic", calculator=Calculator(200, 30, 100, 1024), answers="number")

Said = str | ChatReply


def act(tool: str, text: str) -> str:
    return json.dumps({"thought": "t", "tool": tool, "input": text})


def assess(decision: str = "NOT_NEEDED") -> str:
    return f"SUBGOAL: s\nEVIDENCE: e\nCAPABILITY: c\nDECISION: {decision}\nNEXT_ACTION: finish with 1"


FINISH = act("finish", "42")


def budget(**changes: float) -> Budget:
    values: dict[str, Any] = {
        "max_actions": 20,
        "max_calls": 40,
        "max_tokens": 10**6,
        "max_seconds": 1e6,
        "announce_at": 0,
        **changes,
    }
    return Budget(**values)


def rules(csi: bool = False, environment: Any = ENVIRONMENT, **caps: float) -> Rules:
    return Rules("direct", 42, csi, budget(**caps), Sampling(0.0, 1.0, 100), environment, AgentPrompts())


class Player:
    """Plays one episode with a list of replies, the last of which repeats; keeps the requests."""

    def __init__(self, *said: Said, usage: Usage = Usage(1, 50, 10, 0.5, 0.25)) -> None:  # noqa: B008
        self.said, self.usage, self.requests = list(said), usage, list[ChatRequest]()

    def __call__(self, setup: Rules, offer: Offer = OFFER, task: Task = TASK) -> Episode:
        attempting = attempt(task, offer, setup, Meter(setup.budget))
        try:
            request = next(attempting)
            while True:
                self.requests.append(request)
                request = attempting.send(self._reply(len(self.requests) - 1))
        except StopIteration as stop:
            episode = stop.value
            assert isinstance(episode, Episode)
            return episode

    def _reply(self, number: int) -> ChatReply:
        said = self.said[min(number, len(self.said) - 1)]
        if isinstance(said, ChatReply):
            return said
        answer = read_answer(said)
        return ChatReply(answer.outcome, answer.text, answer.raw, "m", self.usage, answer.detail)

    def seen(self, number: int) -> str:
        """All that the model sees with request ``number``."""
        return "\n".join(message.content for message in self.requests[number].messages)

    def last(self, number: int) -> str:
        return self.requests[number].messages[-1].content


def bad(outcome: str, text: str = "", raw: str = "") -> ChatReply:
    return ChatReply(outcome, text, raw or text, "m", Usage(1, 10, 5, 0.1, 0.1), "detail")


def kinds(episode: Episode, *wanted: str) -> list[str]:
    return [step["kind"] for step in episode.steps if not wanted or step["kind"] in wanted]


def steps(episode: Episode, kind: str) -> list[Mapping[str, Any]]:
    return [step for step in episode.steps if step["kind"] == kind]


def test_a_plain_episode() -> None:
    player = Player(act("calculator", "6 * 7"), FINISH)
    episode = player(rules())
    assert (episode.task_id, episode.arm, episode.seed) == ("t1", "direct", 42)
    assert (episode.ending, episode.answer) == (Ending.SUBMITTED, "42")
    assert (episode.offered, episode.loaded) == (("s1", "s2"), ())
    assert episode.usage == Usage(2, 100, 20, 1.0, 0.5)
    assert kinds(episode) == ["system", "offer", "prompt", "reply", "action", "prompt", "reply", "action", "end"]
    assert [m.role for m in player.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert player.last(1).startswith("Result: 42\n\nReply with your next action.")
    assert player.requests[0].schema and player.requests[0].seed == 42


def test_messages_only_grow_and_roles_take_turns() -> None:
    player = Player(assess("MATCH stock"), act("calculator", "1 +"), assess(), act("search", "x"), "no", assess(), FINISH)
    player(rules(csi=True))
    for earlier, later in zip(player.requests, player.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
    roles = [message.role for message in player.requests[-1].messages]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]


def test_a11_braces_of_a_task_reach_the_model_unchanged() -> None:
    player = Player(FINISH)
    player(rules())
    assert TASK.prompt in player.last(0)


def test_the_list_shows_names_and_descriptions_only() -> None:
    player = Player(FINISH)
    player(rules())
    assert "- stock: Balance of things." in player.last(0)
    assert "SECRET-BODY" not in player.seen(0)


def test_loading_shows_the_text_once_and_is_no_success() -> None:
    player = Player(
        act("load_skill", "Money"), act("load_skill", "money"), act("load_skill", "`money` "), act("load_skill", "cooking"), FINISH
    )
    episode = player(rules())
    assert episode.loaded == ("s2",)
    assert "SECRET-BODY-TWO" in player.last(1) and "SECRET-BODY-ONE" not in player.seen(4)
    assert "stands above already" in player.last(2)
    assert player.seen(4).count("SECRET-BODY-TWO") == 1
    assert player.last(4).startswith('Error (unknown_skill): there is no skill "cooking"; on offer: stock, money.')
    assert [s["status"] for s in steps(episode, "load")] == ["loaded", "again", "again", "unknown"]
    assert episode.ending == Ending.SUBMITTED


def test_forced_skills_stand_in_the_context_and_are_not_loaded() -> None:
    offer = make_offer(SKILLS, LIMITS, in_context=True)
    player = Player(act("load_skill", "stock"), FINISH)
    episode = player(rules(), offer)
    assert "SECRET-BODY-ONE" in player.last(0) and "SECRET-BODY-TWO" in player.last(0)
    assert "stands above already" in player.last(1)
    assert episode.loaded == () and episode.offered == ("s1", "s2")


def test_csi_loads_first_and_a_further_generation_acts() -> None:
    """No skill text can be in view when the assessment proposes an action, and what it proposes is never carried out."""
    player = Player(assess("PARTIAL_MATCH money"), act("calculator", "6 * 7"), assess("NO_MATCH"), FINISH)
    episode = player(rules(csi=True))
    assert "SECRET-BODY" not in player.seen(0) and "Do not act yet" in player.last(0)
    assert not player.requests[0].schema and player.requests[1].schema
    assert player.last(1).startswith("Skill money, in full:\nSECRET-BODY-TWO")
    assert kinds(episode, "assessment", "load", "action") == ["assessment", "load", "action", "assessment", "action"]
    assert [s["input"] for s in steps(episode, "action")] == ["6 * 7", "42"]
    assert [s["by"] for s in steps(episode, "load")] == ["assessment"]
    assert steps(episode, "assessment")[0]["skill"] == "s2" and steps(episode, "assessment")[1]["skill"] is None
    assert episode.loaded == ("s2",)


def test_csi_says_its_whole_format_at_the_first_check_and_after_a_violation() -> None:
    """Later checks name the lines; what stands behind each label is in the context once, since repeating it doubles the prompt."""
    labels = ("SUBGOAL:", "EVIDENCE:", "CAPABILITY:", "DECISION:", "NEXT_ACTION:")
    player = Player(assess(), act("calculator", "1"), assess(), act("calculator", "2"), "no check", assess(), FINISH)
    player(rules(csi=True))
    assert all(label in player.last(2) and label in player.last(4) for label in labels)
    assert "PARTIAL_MATCH" not in player.last(2) and player.seen(2).count("PARTIAL_MATCH with the name") == 1
    for number in (0, 5):
        for word in (
            "SUBGOAL",
            "EVIDENCE",
            "CAPABILITY",
            "DECISION",
            "NEXT_ACTION",
            "MATCH",
            "PARTIAL_MATCH",
            "NO_MATCH",
            "NOT_NEEDED",
        ):
            assert word in player.last(number)


def test_csi_is_not_mentioned_without_it() -> None:
    player = Player(act("calculator", "1"), FINISH)
    player(rules())
    assert "SUBGOAL" not in player.seen(1) and "heck" not in player.last(1)


def test_csi_reasons() -> None:
    said = []
    for action in (
        act("calculator", "1 + 1"),
        act("calculator", "1 +"),
        act("search", "x"),
        act("calculator", "1 + 1"),
        act("load_skill", "stock"),
        FINISH,
    ):
        said += [assess(), action]
    player = Player(*said)
    episode = player(rules(csi=True))
    reasons = [s["reason"] for s in steps(episode, "assessment")]
    assert reasons == ["start", "new_evidence", "failure", "failure", "routine", "routine"]
    assert "There is new evidence" in player.last(2) and "The last action failed" in player.last(4)


def test_csi_runtime_check_after_every_five_executed_actions() -> None:
    """Not calls, not repeats, not unknown tools: n counts actions that ran, and each multiple is announced once."""
    actions = [act("calculator", str(n)) for n in range(4)] + [act("calculator", "0"), act("search", "x")]
    actions += (
        [act("calculator", "5 +"), act("calculator", "0"), act("calculator", "6")]
        + [act("calculator", str(n)) for n in range(7, 11)]
        + [FINISH]
    )
    said = [text for action in actions for text in (assess(), action)]
    player = Player(*said)
    episode = player(rules(csi=True))
    assert [s["actions"] for s in steps(episode, "check")] == [5, 10]
    at = [n for n in range(len(player.requests)) if "Runtime check after 5 actions" in player.last(n)]
    assert at == [14]  # the assessment after the seventh action, the fifth that ran
    assert not any("Runtime check" in player.last(n) for n in range(14))


def test_csi_violation_goes_back_once_and_is_counted() -> None:
    player = Player("SUBGOAL: x", assess("MATCH money"), FINISH)
    episode = player(rules(csi=True))
    assert player.last(1).startswith("Error (line_count): your reply has 1 non-empty lines, not exactly 5. Reply with five lines")
    assert [s["error"] for s in steps(episode, "violation")] == ["line_count"]
    assert episode.loaded == ("s2",)


def test_csi_second_violation_goes_on_without_a_check() -> None:
    player = Player("x", "y", FINISH)
    episode = player(rules(csi=True))
    assert [s["decision"] for s in steps(episode, "assessment")] == [None]
    assert len(steps(episode, "violation")) == 2
    assert "Go on without the check." in player.last(2)
    assert (episode.ending, episode.loaded, episode.usage.calls) == (Ending.SUBMITTED, (), 3)


def test_csi_leaves_the_last_call_to_the_action() -> None:
    player = Player(FINISH)
    episode = player(rules(csi=True, max_calls=1))
    assert episode.ending == Ending.SUBMITTED and not steps(episode, "assessment")
    player = Player("no check", FINISH)
    episode = player(rules(csi=True, max_calls=2))
    assert episode.ending == Ending.SUBMITTED and len(steps(episode, "violation")) == 1


@pytest.mark.parametrize(
    ("caps", "said", "ending", "calls"),
    [
        ({"max_actions": 3}, [act("calculator", str(n)) for n in range(9)], Ending.ACTIONS_SPENT, 3),
        ({"max_calls": 4}, ["no action"], Ending.CALLS_SPENT, 4),
        ({"max_calls": 4}, [act("calculator", "1")], Ending.CALLS_SPENT, 4),
        ({"max_calls": 4}, [act("search", "1")], Ending.CALLS_SPENT, 4),
        ({"max_tokens": 150}, [act("calculator", str(n)) for n in range(9)], Ending.TOKENS_SPENT, 3),
    ],
)
def test_each_budget_has_its_own_ending(caps: dict[str, float], said: list[str], ending: Ending, calls: int) -> None:
    episode = Player(*said)(rules(**caps))
    assert (episode.ending, episode.answer, episode.usage.calls) == (ending, None, calls)
    assert steps(episode, "end")[0]["detail"].startswith("no submission after")
    assert ending not in NOT_JUDGED


def test_the_seconds_of_its_own_calls_are_a_budget() -> None:
    episode = Player(act("calculator", "1"), usage=Usage(1, 50, 10, 1.5, 0.25))(rules(max_seconds=3.0))
    assert episode.ending == Ending.TIME_SPENT and episode.usage.calls == 2


@pytest.mark.parametrize("cap", [{"max_tokens": 600}, {"max_seconds": 5.0}, {"max_calls": 10}, {"max_actions": 10}])
def test_whatever_runs_out_the_agent_is_told_before(cap: dict[str, float]) -> None:
    """Each call takes 60 tokens and half a second: ten calls. With announce_at=3 the last three carry the announcement."""
    player = Player(*[act("calculator", str(n)) for n in range(20)])
    episode = player(rules(announce_at=3, **cap))
    told = ["Submit your answer now" in player.last(n) for n in range(len(player.requests))]
    assert (episode.usage.calls, told) == (10, [False] * 7 + [True] * 3)


def test_a11_unknown_usage_is_not_free_and_stays_unknown() -> None:
    player = Player(act("calculator", "1"), usage=Usage(1, None, None, 0.0, None))
    episode = player(rules(max_tokens=2000))
    assert episode.ending == Ending.TOKENS_SPENT
    assert episode.usage.prompt_tokens is None and episode.usage.cost_usd is None


def test_a_nearly_spent_budget_is_announced() -> None:
    player = Player(act("calculator", "1"), act("calculator", "2"), act("calculator", "3"), FINISH)
    player(rules(max_calls=5, announce_at=2))
    said = ["left. Submit your answer now" in player.last(n) for n in range(4)]
    assert said == [False, False, False, True]
    assert "Only 17 actions and 2 replies left." in player.last(3)
    assert "Only 1 action and 38 replies left." in _announced(max_actions=3, announce_at=1)


def _announced(**caps: float) -> str:
    player = Player(act("calculator", "1"), act("calculator", "2"), FINISH)
    player(rules(**caps))
    return player.last(2)


def test_a_repeated_action_is_answered_with_its_result_and_not_run() -> None:
    player = Player(
        act("calculator", "48 / 2 = 24"),
        act("calculator", "48 / 2  = 24"),
        act("calculator", "6*7"),
        act("calculator", "6*7"),
        act("calculator", "6*7"),
        FINISH,
    )
    episode = player(rules())
    assert "Send it like this: 48 / 2" in player.last(1)
    assert player.last(2).startswith("You have sent this action 2 times; the result is the same: Error (equals_sign)")
    assert "Send a mended action" in player.last(2)
    assert player.last(5).startswith(
        "You have sent this action 3 times; the result is the same: Result: 42\nUse that result in a new step"
    )
    assert [s["status"] for s in steps(episode, "action")] == ["error", "repeated", "ok", "repeated", "repeated", "ok"]
    assert steps(episode, "action")[-1]["n"] == 3


def test_a04_mistakes_of_form_cost_a_call_and_end_nothing() -> None:
    said = ['{"a": 1', "[]", '"x"', act("search", "x"), f"{FINISH}\n{FINISH}", '{"tool": "finish"}', FINISH]
    episode = Player(*said)(rules())
    assert [s["error"] for s in steps(episode, "violation")] == [
        "not_json",
        "not_an_object",
        "not_json",
        "several_actions",
        "missing_key",
    ]
    assert [s["status"] for s in steps(episode, "action")] == ["unknown_tool", "ok"]
    assert episode.ending == Ending.SUBMITTED and episode.usage.calls == 7


def test_an_answer_that_is_no_number_can_be_mended() -> None:
    player = Player(act("finish", "about the half"), act("finish", "9 * 2"), act("finish", ""), act("finish", "$18.00 a day"))
    episode = player(rules())
    assert [s["error"] for s in steps(episode, "action")] == ["no_number", "several_numbers", "empty_answer", ""]
    assert "Nothing was submitted" in player.last(1)
    assert episode.answer == "$18.00 a day"


def test_a02_reasoning_blocks() -> None:
    """Full block then action; only a closing tag; a draft in the block, then the real one: each counts. An open block does not."""
    for text in (f"<think>a</think>{FINISH}", f"drafts</think>{FINISH}", f"<think>{act('finish', '1')}</think>{FINISH}"):
        episode = Player(text)(rules())
        assert (episode.answer, episode.ending) == ("42", Ending.SUBMITTED)
        assert steps(episode, "reply")[0]["raw"] == text
    player = Player(f"<think>{act('finish', '1')}", FINISH)
    episode = player(rules())
    assert episode.answer == "42" and steps(episode, "violation")[0]["error"] == "incomplete"
    assert player.requests[1].messages[2].content == "(no answer)"


@pytest.mark.parametrize("outcome", ["empty", "reasoning_only", "incomplete", "declined", "length"])
def test_a03_a11_unusable_replies_are_told_and_counted(outcome: str) -> None:
    player = Player(bad(outcome, raw="raw"), FINISH)
    episode = player(rules())
    assert player.last(1).startswith(f"Error ({outcome}): your reply")
    assert [s["error"] for s in steps(episode, "violation")] == [outcome]
    assert episode.ending == Ending.SUBMITTED


@pytest.mark.parametrize("outcome", ["malformed", "rate_limited", "server_error", "connection", "timeout", "refused", "budget"])
def test_a01_a03_no_answer_of_a_model_is_infrastructure(outcome: str) -> None:
    episode = Player(act("calculator", "1"), bad(outcome, raw="<html>"))(rules())
    assert episode.ending == Ending.INFRASTRUCTURE and episode.ending in NOT_JUDGED
    assert steps(episode, "end")[0]["detail"] == f"{outcome}: detail"
    assert steps(episode, "reply")[-1]["raw"] == "<html>"


def test_a11_a_full_context_is_its_own_ending_and_is_judged() -> None:
    episode = Player(bad("overflow"))(rules())
    assert episode.ending == Ending.CONTEXT_OVERFLOW and episode.ending not in NOT_JUDGED


class Broken:
    """An environment whose tool fails in a way that it should not."""

    name = "broken"
    tools = ENVIRONMENT.tools

    def __init__(self, error: Exception) -> None:
        self._error = error

    def start(self, task: Task) -> Broken:
        return self

    def run(self, action: Action) -> Observation:
        raise self._error

    def describe(self) -> dict[str, Any]:
        return {}


def test_a_fault_of_the_harness_ends_its_episode_alone() -> None:
    episode = Player(FINISH)(rules(environment=Broken(KeyError("x"))))
    assert episode.ending == Ending.CRASHED and episode.ending in NOT_JUDGED
    assert steps(episode, "end")[0]["detail"] == "KeyError: 'x'"
    with pytest.raises(SkillbenchError):
        Player(FINISH)(rules(environment=Broken(SkillbenchError("mend me"))))


def test_an_offer_that_failed_is_recorded_and_the_agent_goes_on_alone() -> None:
    offer = make_offer((), LIMITS, False, Failure("capabilities", "no JSON"))
    player = Player(FINISH)
    episode = player(rules(), offer)
    assert steps(episode, "offer")[0]["failure"] == "no JSON"
    assert "Skills on offer: none." in player.last(0) and episode.ending == Ending.SUBMITTED


def test_side_by_side_or_one_by_one_gives_the_same_episodes() -> None:
    def say(request: ChatRequest) -> str:
        number = int(request.messages[1].content.split("number ")[1].split()[0])
        turn = sum(m.role == "assistant" for m in request.messages)
        return act("calculator", f"{number} + {turn}") if turn < number else act("finish", str(number))

    def all_of(at_once: int) -> dict[str, Episode]:
        setup = rules()
        tasks = [Task(f"t{n}", f"t{n}", f"number {n} is asked for") for n in range(9)]
        starts = [lambda t=t: attempt(t, OFFER, setup, Meter(setup.budget)) for t in tasks]  # type: ignore[misc]
        return {e.task_id: e for e in play(starts, ScriptedChat(reply=say), at_once)}

    alone = all_of(1)
    assert len(alone) == 9 and all(e.ending == Ending.SUBMITTED for e in alone.values())
    for at_once in (2, 4, 50):
        assert all_of(at_once) == alone


class Endpoint(ScriptedChat):
    """Answers each request apart; ``peak`` is the most that it had at once."""

    answers_apart = True
    open = peak = 0
    guard = threading.Lock()

    def complete(self, requests: Any, on_reply: Any = None) -> list[ChatReply]:
        with self.guard:
            self.open += len(requests)
            self.peak = max(self.peak, self.open)
        time.sleep(0.002)
        with self.guard:
            self.open -= len(requests)
            return super().complete(requests, on_reply)


def test_an_endpoint_gets_each_request_alone_and_the_episodes_are_the_same() -> None:
    def say(request: ChatRequest) -> str:
        number = int(request.messages[1].content.split("number ")[1].split()[0])
        turn = sum(m.role == "assistant" for m in request.messages)
        return act("calculator", f"{number} + {turn}") if turn < number else act("finish", str(number))

    setup, tasks = rules(), [Task(f"t{n}", f"t{n}", f"number {n} is asked for") for n in range(9)]

    def all_of(llm: ScriptedChat, at_once: int) -> dict[str, Episode]:
        starts = [lambda t=t: attempt(t, OFFER, setup, Meter(setup.budget)) for t in tasks]  # type: ignore[misc]
        return {e.task_id: e for e in play(starts, llm, at_once)}

    endpoint = Endpoint(reply=say)
    assert all_of(endpoint, 4) == all_of(ScriptedChat(reply=say), 4)
    assert 2 <= endpoint.peak <= 4


def test_an_error_in_one_thread_ends_the_run_and_stops_the_others() -> None:
    def say(request: ChatRequest) -> str:
        if "number 3" in request.messages[1].content:
            raise SkillbenchError("the cache cannot be read")
        return act("calculator", str(sum(m.role == "assistant" for m in request.messages)))

    setup, endpoint = rules(max_actions=1000, max_calls=1000), Endpoint(reply=say)
    tasks = [Task(f"t{n}", f"t{n}", f"number {n} is asked for") for n in range(5)]
    starts = [lambda t=t: attempt(t, OFFER, setup, Meter(setup.budget)) for t in tasks]  # type: ignore[misc]
    with pytest.raises(SkillbenchError, match="the cache cannot be read"):
        list(play(starts, endpoint, 5))
    time.sleep(0.1)
    asked = endpoint.calls
    time.sleep(0.1)
    assert endpoint.calls == asked < 1000


def test_at_most_so_many_run_side_by_side() -> None:
    sizes = []

    class Counting(ScriptedChat):
        def complete(self, requests: Any, on_reply: Any = None) -> list[ChatReply]:
            sizes.append(len(requests))
            return super().complete(requests, on_reply)

    setup = rules()
    starts = [lambda n=n: attempt(Task(f"t{n}", f"t{n}", "x"), OFFER, setup, Meter(setup.budget)) for n in range(7)]  # type: ignore[misc]
    assert len(list(play(starts, Counting(reply=lambda request: FINISH), 3))) == 7
    assert sizes == [3, 3, 1]
