from __future__ import annotations

import json

import pytest
from scripted_llm import FunctionLLM, reply

from skillbench.errors import SkillbenchError
from skillbench.models.outcomes import OUTCOMES, TRANSPORT
from skillbench.planning.asking import Generation, is_transport
from skillbench.planning.skilldreamer import EXPLICIT_ONLY, WITHOUT_CI, SkillDreamerPlanner, clean_skill
from skillbench.records import Failure, Query, Usage

QUERIES = [Query("q1", "first task"), Query("q2", "second {task}"), Query("q3", "third task")]


def planner(**changes) -> SkillDreamerPlanner:
    settings = {
        "capabilities": True,
        "pseudo_skills": True,
        "implicit": True,
        "max_capabilities": 5,
        "max_anchors": 12,
        "capability_prompt": "capabilities",
        "skill_prompt": "pseudo_skill",
        "query_skill_prompt": "pseudo_skill_from_query",
        "capability_generation": Generation(512, 0.0, 1.0, 7),
        "skill_generation": Generation(400, 0.5, 0.9, 8),
        "keep_partial": False,
        "queries_at_once": 64,
    }
    return SkillDreamerPlanner(**{**settings, **changes})


def dream(prompt: str, request) -> str:
    """Two capabilities for each task, named after its first word; a pseudo skill that repeats its capability."""
    if request.schema:
        task = prompt.rsplit("Task:", 1)[1].split()[0]
        return json.dumps({"capabilities": [f"{task} one", f"{task} two"], "anchors": [task]})
    return f"---\nname: x\n---\n{prompt.rsplit('Capability: ', 1)[-1].strip()}"


def test_capabilities_and_pseudo_skills_belong_together():
    llm = FunctionLLM(dream)
    plans = list(planner().plan(QUERIES, llm))
    assert [p.query_id for p in plans] == ["q1", "q2", "q3"]
    assert plans[0].capabilities == ("first one", "first two")
    assert plans[0].pseudo_skills == ("---\nname: x\n---\nfirst one", "---\nname: x\n---\nfirst two")
    assert plans[0].anchors == ("first",)
    assert plans[0].usage == Usage(3, 30, 15, 1.5, 0.75)
    assert plans[0].model == "scripted-1" and plans[0].notes == () and plans[0].failure is None
    assert llm.batches == [3, 6]


def test_requests_carry_the_settings_and_only_ci_has_a_schema():
    llm = FunctionLLM(dream)
    list(planner().plan(QUERIES[:1], llm))
    ci, psg = llm.requests[0], llm.requests[1]
    assert (ci.max_tokens, ci.temperature, ci.top_p, ci.seed, bool(ci.schema)) == (512, 0.0, 1.0, 7, True)
    assert (psg.max_tokens, psg.temperature, psg.top_p, psg.seed, psg.schema) == (400, 0.5, 0.9, 8, "")
    assert [m.role for m in ci.messages] == ["user"]


def test_a_setting_left_open_is_the_llms_own():
    llm = FunctionLLM(dream)
    own = planner(capability_generation=Generation(None, None, None, 7), skill_generation=Generation(10, 0.0, None, 7))
    list(own.plan(QUERIES[:1], llm))
    shown = [(r.max_tokens, r.temperature, r.top_p) for r in llm.requests[:2]]
    assert shown == [(99, 0.25, 0.5), (10, 0.0, 0.5)]


def test_ci_reads_the_query_alone_and_psg_the_capability_alone():
    llm = FunctionLLM(dream)
    list(planner().plan(QUERIES, llm))
    assert "second {task}" in llm.prompts[1] and "first task" not in llm.prompts[1]
    assert "first one" in llm.prompts[3] and "first task" not in llm.prompts[3]


def test_plans_come_out_part_by_part():
    llm = FunctionLLM(dream)
    stream = planner(queries_at_once=2).plan(QUERIES, llm)
    assert next(stream).query_id == "q1"
    assert llm.batches == [2, 4]
    assert [p.query_id for p in stream] == ["q2", "q3"]
    assert llm.batches == [2, 4, 1, 2]


def test_no_ci_writes_one_pseudo_skill_from_the_query():
    llm = FunctionLLM(lambda prompt, request: "a skill")
    plan = next(planner(capabilities=False).plan(QUERIES, llm))
    assert (plan.capabilities, plan.anchors, plan.pseudo_skills, plan.notes) == ((), (), ("a skill",), (WITHOUT_CI,))
    assert "first task" in llm.prompts[0] and not llm.requests[0].schema


def test_no_psg_stops_after_ci():
    llm = FunctionLLM(dream)
    plan = next(planner(pseudo_skills=False).plan(QUERIES[:1], llm))
    assert plan.capabilities == ("first one", "first two") and plan.pseudo_skills == ()
    assert llm.batches == [1]


def test_neither_ci_nor_psg_is_refused():
    with pytest.raises(SkillbenchError, match="method=direct"):
        planner(capabilities=False, pseudo_skills=False)


def test_explicit_only_changes_the_prompt_and_is_recorded():
    llm = FunctionLLM(dream)
    plan = next(planner(implicit=False).plan(QUERIES[:1], llm))
    next(planner().plan(QUERIES[:1], llm))
    assert plan.notes == (EXPLICIT_ONLY,)
    explicit, everything = (p for p, r in zip(llm.prompts, llm.requests, strict=True) if r.schema)
    assert explicit != everything


def test_A11_a_cut_ci_reply_counts_only_if_its_json_is_complete():
    whole = reply(json.dumps({"capabilities": ["a"], "anchors": ["x"]}) + " and mo", "length")
    llm = FunctionLLM(lambda prompt, request: whole if request.schema else "skill")
    plan = next(planner().plan(QUERIES[:1], llm))
    assert plan.failure is None and plan.notes == ("text after the JSON was cut",)
    llm = FunctionLLM(lambda prompt, request: reply('{"capabilities": ["a", "b', "length"))
    plan = next(planner().plan(QUERIES[:1], llm))
    assert plan.failure.stage == "capabilities" and plan.failure.reason.startswith("cut at 512 tokens")
    assert llm.batches == [1]


def test_A11_a_cut_pseudo_skill_is_kept_with_a_note():
    llm = FunctionLLM(lambda prompt, request: dream(prompt, request) if request.schema else reply("half a ski", "length"))
    plan = next(planner().plan(QUERIES[:1], llm))
    assert plan.pseudo_skills == ("half a ski",) * 2
    assert plan.notes == ("pseudo skill 1, 2 cut at 400 tokens",)


@pytest.mark.parametrize("outcome", [o for o in OUTCOMES if o not in ("ok", "length")])
def test_each_bad_outcome_of_ci_is_its_own_recorded_failure(outcome):
    bad = reply("", outcome, "detail\nof it")
    plan = next(planner().plan(QUERIES[:1], FunctionLLM(lambda prompt, request: bad)))
    assert plan.pseudo_skills == () and plan.capabilities == ()
    assert outcome in plan.failure.reason and "detail of it" in plan.failure.reason
    assert is_transport(plan.failure) == (outcome in TRANSPORT)
    assert plan.failure.stage == ("transport" if outcome in TRANSPORT else "capabilities")


def fail_second_skill(outcome: str):
    def answer(prompt, request):
        return reply("", outcome) if "first two" in prompt else dream(prompt, request)

    return answer


def test_one_failed_pseudo_skill_fails_the_plan():
    plans = list(planner().plan(QUERIES, FunctionLLM(fail_second_skill("empty"))))
    assert plans[0].failure.stage == "pseudo_skills" and plans[0].failure.reason == "pseudo skill 2: empty"
    assert plans[0].pseudo_skills == () and plans[0].capabilities == ("first one", "first two")
    assert plans[1].failure is None
    plan = next(planner().plan(QUERIES, FunctionLLM(fail_second_skill("timeout"))))
    assert is_transport(plan.failure) and plan.failure.reason == "pseudo skill 2: pseudo_skills: timeout"


def test_keep_partial_goes_on_without_the_failed_capability():
    plan = next(planner(keep_partial=True).plan(QUERIES, FunctionLLM(fail_second_skill("empty"))))
    assert plan.failure is None and plan.capabilities == ("first one",) and len(plan.pseudo_skills) == 1
    assert plan.notes == ("capability 2 dropped: pseudo skill 2: empty",)
    everything = FunctionLLM(lambda prompt, request: dream(prompt, request) if request.schema else reply("", "empty"))
    assert next(planner(keep_partial=True).plan(QUERIES, everything)).failure.stage == "pseudo_skills"


def test_keep_partial_waits_for_what_failed_in_transport():
    """A capability that no model answered for is asked for again on a resume; it is not dropped for good."""
    plan = next(planner(keep_partial=True).plan(QUERIES, FunctionLLM(fail_second_skill("timeout"))))
    assert plan.failure == Failure("transport", "pseudo skill 2: pseudo_skills: timeout") and not plan.pseudo_skills


def test_a_failure_of_content_is_recorded_before_one_of_transport():
    def answer(prompt, request):
        if request.schema:
            return dream(prompt, request)
        return reply("", "timeout" if "first one" in prompt else "reasoning_only")

    plan = next(planner().plan(QUERIES[:1], FunctionLLM(answer)))
    assert plan.failure.stage == "pseudo_skills" and "reasoning_only" in plan.failure.reason


def test_blank_pseudo_skill_is_a_failure():
    llm = FunctionLLM(lambda prompt, request: dream(prompt, request) if request.schema else "```\n```")
    assert next(planner().plan(QUERIES[:1], llm)).failure.reason == "pseudo skill 1: empty"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("  a\n", "a"),
        ("```yaml\n---\nname: x\n---\nbody\n```", "---\nname: x\n---\nbody"),
        ("```markdown\nbody that was cu", "body that was cu"),
        ("```python\nprint()\n```", "```python\nprint()\n```"),
        ("a\n```\ncode\n```", "a\n```\ncode\n```"),
        ("", ""),
    ],
)
def test_only_a_fence_around_the_whole_is_removed(text, clean):
    assert clean_skill(text) == clean


def test_prompt_hashes_follow_the_switches():
    assert set(planner().prompt_hashes()) == {"capabilities", "pseudo_skill"}
    assert set(planner(pseudo_skills=False).prompt_hashes()) == {"capabilities"}
    assert set(planner(capabilities=False).prompt_hashes()) == {"pseudo_skill_from_query"}


@pytest.mark.parametrize(
    "bad", [(0, 0.0, 1.0, 1), (1, -0.1, 1.0, 1), (1, 0.0, 0.0, 1), (1, 0.0, 1.1, 1), (1, float("nan"), 1.0, 1)]
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(SkillbenchError):
        Generation(*bad)
