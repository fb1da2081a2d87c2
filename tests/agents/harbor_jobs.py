"""Writes Harbor job folders as the harness and its agents leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LONG = "# Skill\n\nUse pdftotext, then check the totals against the table."


def use(tool: str, arguments: Mapping[str, Any], result: str | None, error: bool = False) -> dict[str, Any]:
    """A tool call and what came back (None: the log ends before)."""
    return {"tool": tool, "arguments": dict(arguments), "result": result, "error": error}


def messages(calls: Sequence[Mapping[str, Any]], skills: Sequence[str] | None, answer: str = "done", **end: Any) -> str:
    """claude-code's and qwen-code's lines: system, assistant, user, …, result."""
    system: dict[str, Any] = {
        "type": "system",
        "subtype": "init",
        "cwd": "/root",
        "session_id": "s1",
        "tools": ["Bash", "Skill"],
        "model": "m",
    }
    rows = [system | ({"skills": list(skills)} if skills is not None else {})]
    for n, call in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{n}", "name": call["tool"], "input": call["arguments"]}
        rows.append(
            {
                "type": "assistant",
                "message": {"id": f"msg_{n}", "role": "assistant", "content": [{"type": "text", "text": "next"}, block]},
            }
        )
        if call["result"] is not None:
            result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": call["result"]} | (
                {"is_error": True} if call["error"] else {}
            )
            rows.append({"type": "user", "message": {"role": "user", "content": [result]}})
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 50}
    rows.append(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": len(calls),
            "result": answer,
            "total_cost_usd": 0.25,
            "usage": usage,
        }
        | end
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def trajectory(
    steps: Sequence[Sequence[tuple[str, Mapping[str, Any]]]], screens: Sequence[str | None], prompt: str, agent: str = "terminus-2"
) -> str:
    """Steps of tool calls with one screen each."""
    rows: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": prompt}]
    for n, (calls, screen) in enumerate(zip(steps, screens, strict=True)):
        tool_calls = [
            {"tool_call_id": f"call_{n}_{i}", "function_name": name, "arguments": dict(arguments)}
            for i, (name, arguments) in enumerate(calls)
        ]
        row: dict[str, Any] = {"step_id": n + 2, "source": "agent", "message": f"step {n}", "tool_calls": tool_calls}
        rows.append(row | ({} if screen is None else {"observation": {"results": [{"content": screen}]}}))
    final = {"total_prompt_tokens": 900, "total_completion_tokens": 80, "total_cost_usd": 0.5}
    return json.dumps(
        {
            "schema_version": "ATIF-v1.6",
            "session_id": "s",
            "agent": {"name": agent, "version": "2.0.0"},
            "steps": rows,
            "final_metrics": final,
        }
    )


def keys(text: str) -> tuple[str, dict[str, Any]]:
    """A terminus-2 command."""
    return "bash_command", {"keystrokes": text, "duration": 0.1}


def available(*names: str) -> str:
    """What Harbor puts into terminus-2's prompt."""
    skills = "".join(
        f"<skill><name>{n}</name><description>d</description><location>/skills/{n}/SKILL.md</location></skill>" for n in names
    )
    return f"Do the task.\n<available_skills>{skills}</available_skills>"


def trial(
    job: Path,
    name: str,
    *,
    reward: Any = 1.0,
    files: Mapping[str, str] | None = None,
    log: Mapping[str, str] | None = None,
    exception: str | None = None,
    agent: str = "claude-code",
    task_path: str = "",
    tokens: tuple[int | None, int | None, float | None] = (None, None, None),
    result: bool = True,
) -> Path:
    """One trial folder. ``reward=None`` leaves verifier_result null; ``result=False`` leaves no result.json."""
    folder = job / name
    (folder / "agent").mkdir(parents=True)
    (folder / "verifier").mkdir()
    task = name.rpartition("__")[0]
    config = {
        "task": {"path": task_path or f"/data/tasks/{task}"},
        "trial_name": name,
        "agent": {"name": agent, "model_name": "p/m"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    if result:
        document = {
            "id": "u",
            "task_name": task,
            "trial_name": name,
            "config": config,
            "agent_info": {"name": agent, "version": "1", "model_info": {"name": "m", "provider": "p"}},
            "agent_result": dict(zip(("n_input_tokens", "n_output_tokens", "cost_usd"), tokens, strict=True)),
            "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
            "exception_info": None if exception is None else {"exception_type": exception, "exception_message": "it broke\nhere"},
            "started_at": "2026-01-26T02:00:00",
            "finished_at": "2026-01-26T02:10:00",
            "agent_execution": {"started_at": "2026-01-26T02:01:00Z", "finished_at": "2026-01-26T02:03:30Z"},
        }
        (folder / "result.json").write_text(json.dumps(document))
    for part, texts in (("verifier", files), ("agent", log)):
        for file, text in (texts or {}).items():
            (folder / part / file).write_text(text)
    return folder


def finish_job(
    job: Path, rewards: Mapping[str, Sequence[str]], *, planned: int, trials: int, errors: int = 0, finished: bool = True
) -> None:
    """The job's own result.json."""
    part = {
        "n_trials": trials,
        "n_errors": errors,
        "reward_stats": {"reward": {k: list(v) for k, v in rewards.items()}},
        "exception_stats": {},
    }
    stats = {"n_trials": trials, "n_errors": errors, "evals": {"agent__model__tasks": part}}
    times = {"started_at": "2026-01-26T02:00:00", "finished_at": "2026-01-26T03:00:00" if finished else None}
    (job / "result.json").write_text(json.dumps({"id": "j", "n_total_trials": planned, "stats": stats, **times}))
    (job / "config.json").write_text(json.dumps({"job_name": job.name, "n_attempts": 1}))


def export_manifest(folder: Path, skills: Mapping[str, str], top: int = 5) -> None:
    """What task=harbor_export leaves beside a task."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"rank": n, "skill_id": i, "name": name} for n, (name, i) in enumerate(skills.items(), 1)]
    (folder / "manifest.json").write_text(json.dumps({"kind": "skillbench harbor export", "top": top, "skills": rows}))
