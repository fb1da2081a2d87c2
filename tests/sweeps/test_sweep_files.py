"""sweeps/*.yaml and their Hydra twins: both parse, mean the same jobs, and every job composes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.skillbench_sweeper import ComposedOnce
from skillbench import config as configuration
from skillbench.config import conf_dir, plain
from skillbench.judging.published import load_published
from tests.cli import REPOSITORY, environment

wandb = pytest.importorskip("wandb")
FILES = sorted((REPOSITORY / "sweeps").glob("*.yaml"))
EXPERIMENTS = sorted(p.stem for p in (conf_dir() / "experiment").glob("*.yaml"))
SEARCHES = {"weights_search"}  # a Bayesian search has no list of jobs; its twin is a grid over the same ranges
TOP_LEVEL = {
    "program",
    "name",
    "description",
    "method",
    "metric",
    "parameters",
    "command",
    "run_cap",
    "early_terminate",
}  # of W&B's sweep schema


@pytest.fixture(autouse=True)
def hydra_reads_each_file_once() -> Iterator[None]:
    configuration.register_resolvers()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir().resolve()), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        hydra.config_loader = ComposedOnce(hydra.config_loader)
        yield


def composed(*overrides: str) -> DictConfig:
    return compose("config", list(overrides), return_hydra_config=True)


def checked(overrides: list[str]) -> dict[str, Any]:
    """The resolved config of a command line, with stand-ins for values that are the user's."""
    config = composed(*overrides)
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    missing = [f"{key}={'http://127.0.0.1:1/v1' if 'url' in key else 'x'}" for key in OmegaConf.missing_keys(config)]
    if missing:
        return checked([*overrides, *missing])
    return plain(config)


def values(parameter: dict[str, Any]) -> list[Any]:
    """What W&B may choose for a parameter: all values of a grid, the ends and the middle of a range."""
    if "values" in parameter:
        return list(parameter["values"])
    return (
        [parameter["value"]]
        if "value" in parameter
        else [parameter["min"], (parameter["min"] + parameter["max"]) / 2, parameter["max"]]
    )


def command_lines(sweep: dict[str, Any]) -> Iterator[list[str]]:
    """Every command line, made by W&B's own functions, as a W&B agent makes it."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    names = list(sweep["parameters"])
    for chosen in itertools.product(*(values(sweep["parameters"][name]) for name in names)):
        arguments = create_sweep_command_args({"args": {name: {"value": value} for name, value in zip(names, chosen, strict=True)}})
        line: list[str] = []
        for word in create_sweep_command(list(sweep["command"])):
            line += arguments["args_no_hyphens"] if word == "${args_no_hyphens}" else [word]
        yield line


def loaded(path: Path) -> dict[str, Any]:
    from wandb.sdk.launch.sweeps.utils import load_sweep_config

    sweep = load_sweep_config(str(path))
    assert sweep is not None
    return sweep


def test_there_are_the_stated_sweeps_each_with_its_twin() -> None:
    names = {path.stem for path in FILES}
    assert names == {"alpha_sensitivity", "beta_gamma", "candidates", "seeds", "backbones_datasets", "arms_seeds", "weights_search"}
    assert names <= set(EXPERIMENTS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_w_and_b_takes_the_file(path: Path) -> None:
    from wandb.apis.public.sweeps import _validate_config_and_fill_distribution

    sweep = loaded(path)
    assert _validate_config_and_fill_distribution(sweep)["parameters"].keys() == sweep["parameters"].keys()
    assert sweep.keys() <= TOP_LEVEL and sweep["method"] in ("grid", "random", "bayes")
    assert sweep["metric"]["goal"] == "maximize" and sweep["metric"]["name"].split("/")[0] in ("retrieval", "agent")
    assert sweep["command"][:3] == ["${interpreter}", "-m", "skillbench"] and sweep["command"][-1] == "${args_no_hyphens}"
    for parameter in sweep["parameters"].values():
        assert parameter.keys() <= {"values", "value", "min", "max", "distribution"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_h04_every_command_line_composes(path: Path) -> None:
    """No word begins with a hyphen, every swept key is one of the config, and the value asked for is the one that is there."""
    for line in command_lines(loaded(path)):
        words = line[3:]
        assert line[:3] == ["${interpreter}", "-m", "skillbench"] and not any(word.startswith("-") for word in words)
        resolved = checked(words)
        for word in words:
            key, _, value = word.partition("=")
            found = resolved
            for part in key.split("."):
                found = found[part]
            target = str(found.get("_target_")) if isinstance(found, dict) else ""
            names = {"name": found.get("name"), "task": target.rpartition(".")[2]} if isinstance(found, dict) else {}
            assert (
                value in (str(found), *map(str, names.values()))
                or yaml.safe_load(value) == found
                or (key, value) in (("tracker", "wandb"), ("dataset", "part"))
            )


def twin_jobs(name: str) -> set[frozenset[str]]:
    """The jobs of a Hydra twin, by Hydra's own parser."""
    params = composed(f"experiment={name}").hydra.sweeper.get("params") or {}
    axes = []
    for key, value in params.items():
        override = OverridesParser.create().parse_override(f"{key}={value}")
        each = override.sweep_string_iterator() if override.is_sweep_override() else [override.get_value_element_as_str()]
        axes.append([f"{key}={element}" for element in each])
    return {frozenset(job) for job in itertools.product(*axes)}


@pytest.mark.parametrize("path", [p for p in FILES if p.stem not in SEARCHES], ids=lambda p: p.stem)
def test_the_twin_means_the_same_jobs(path: Path) -> None:
    """Same points, and the same config at each, but for the tracker."""
    sweep = loaded(path)
    swept = set(sweep["parameters"])
    lines = {frozenset(w for w in line if w.partition("=")[0] in swept): line[3:] for line in command_lines(sweep)}
    assert lines.keys() == twin_jobs(path.stem)
    for job, line in list(lines.items())[:: max(1, len(lines) // 3)]:
        theirs, ours = checked([w for w in line if w != "tracker=wandb"]), checked([f"experiment={path.stem}", *job])
        assert theirs == ours


def test_the_search_and_its_twin_cover_the_same_ranges() -> None:
    ranges = loaded(REPOSITORY / "sweeps" / "weights_search.yaml")["parameters"]
    for job in twin_jobs("weights_search"):
        for word in job:
            key, _, value = word.partition("=")
            assert ranges[key]["min"] <= float(value) <= ranges[key]["max"]
    assert checked(["experiment=weights_search"])["dataset"]["part"] == "validation"


# ---------------------------------------------------------------------------------------------------------------- presets


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_item_4_every_job_of_every_preset_composes(name: str) -> None:
    jobs = sorted(map(sorted, twin_jobs(name)))
    for job in jobs[:: max(1, len(jobs) // 6)]:
        resolved = checked([f"experiment={name}", *job])
        for word in job:
            key, _, value = word.partition("=")
            if isinstance(resolved.get(key), dict) and "name" in resolved[key]:
                assert resolved[key]["name"] == value
    assert name == "none" or composed(f"experiment={name}").hydra.mode is None or len(jobs) > 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_presets_hold_differences_only(name: str) -> None:
    """No value that the defaults have anyway; only the keys that belong to a preset."""
    node = yaml.safe_load((conf_dir() / "experiment" / f"{name}.yaml").read_text()) or {}
    assert set(node) <= {"defaults", "hydra"}, "a preset of ours chooses parts and sweeps; it sets no other value"
    assert all(str(k).startswith("override /") for entry in node.get("defaults", []) for k in entry)


def test_a_preset_yields_to_the_command_line() -> None:
    resolved = checked(["experiment=sra_bench", "backbone=bm25", "alpha=7"])
    assert (resolved["dataset"]["name"], resolved["backbone"]["name"], resolved["method"]["name"], resolved["alpha"]) == (
        "sra_bench",
        "bm25",
        "skilldreamer",
        7,
    )


@pytest.mark.parametrize("name", sorted(p.stem for p in (conf_dir() / "ablation").glob("*.yaml")))
def test_ablations_change_one_thing_of_the_method(name: str) -> None:
    def flat(node: Any, path: str = "") -> dict[str, Any]:
        return {
            k: v
            for key, item in node.items()
            for k, v in (flat(item, f"{path}{key}.") if isinstance(item, dict) else {f"{path}{key}": item}).items()
        }

    whole, without = flat(checked(["method=skilldreamer"])), flat(checked(["method=skilldreamer", f"ablation={name}"]))
    changed = {key for key in whole if whole[key] != without[key]} - {"plans"}  # those shipped are of the whole method
    assert whole.keys() == without.keys()
    top = {key.rpartition(".")[2] for key in changed}  # method.planner.implicit repeats method.implicit
    assert (len(top) == 1) == (name != "none"), changed


# -------------------------------------------------------------------------------------------------------- published figures


def test_published_figures_belong_to_presets_and_read_as_stated() -> None:
    published = load_published()
    assert set(published) <= set(EXPERIMENTS)
    rows = {
        (e, f.dataset, f.backbone, f.method, f.metric, f.gain, f.seed): f.value for e, figures in published.items() for f in figures
    }
    assert len(rows) == sum(map(len, published.values())), "a figure stands twice"
    stated = {
        ("main_skilldreamer", "skillusage", "qwen3_0_6b", "direct", "recall@5", False): 52.68,
        ("main_skilldreamer", "skillusage", "qwen3_0_6b", "skilldreamer", "recall@5", False): 60.42,
        ("main_skilldreamer", "skillusage", "qwen3_0_6b", "skilldreamer", "recall@5", True): 7.74,
        ("main_skilldreamer", "skillret", "qwen3_0_6b", "direct", "recall@5", False): 59.14,
        ("main_skilldreamer", "skillret", "qwen3_0_6b", "skilldreamer", "recall@5", False): 66.93,
        ("main_skilldreamer", "skillret", "qwen3_0_6b", "skilldreamer", "completeness@5", True): 9.76,
        ("main_skilldreamer", "skillusage", "skillrouter", "skilldreamer", "recall@5", False): 56.15,
        ("sra_bench", "sra_bench", "qwen3_0_6b", "skilldreamer", "ndcg@5", False): 61.58,
        ("agents", "skillusage", "deepseek_v4_flash", "skilldreamer", "load_rate", False): 77.4,
        ("unified_qwen", "skillusage", "qwen3_6_27b", "skilldreamer", "pass_rate", False): 37.6,
        ("skillret_table", "skillret", "skillret", "direct", "ndcg@10", False): 78.03,
    }
    assert {key: rows[(*key, None)] for key in stated} == stated
    assert rows[("gsm8k_arms", "gsm8k", "", "no_skills", "pass_rate", False, 43)] == 18.75
    # 52.68 → 60.42 and 59.14 → 66.93 are the gains that version 1 states
    assert round(60.42 - 52.68, 2) == 7.74 and round(66.93 - 59.14, 2) == 7.79


def test_published_names_are_choices_of_ours() -> None:
    groups = {g: {p.stem for p in (conf_dir() / g).glob("*.yaml")} for g in ("dataset", "backbone", "llm", "method", "arm")}
    for figures in load_published().values():
        for figure in figures:
            agent = "rate" in figure.metric
            assert figure.dataset in groups["dataset"]
            assert figure.backbone in groups["llm" if agent else "backbone"] | {""}
            assert figure.method in groups["arm" if agent else "method"]
            assert figure.source and -100 <= figure.value <= 100


# ------------------------------------------------------------------------------------------------------------ real processes


def test_a_command_line_of_a_sweep_runs_as_an_agent_would_run_it(
    tmp_path: Path, tiny_folder: Path, plans: Path, own_surroundings: Path
) -> None:
    """The first line of the alpha sweep as a process, as W&B's agent starts it, here with data and outputs of the test."""
    line = next(command_lines(loaded(REPOSITORY / "sweeps" / "alpha_sensitivity.yaml")))
    words = [sys.executable if word == "${interpreter}" else word for word in line]
    more = [
        "dataset=folder",
        f"dataset.root={tiny_folder}",
        "backbone=bm25",
        "k=5",
        "ks=[5]",
        f"plans={plans}",
        f"paths.outputs={tmp_path / 'out'}",
        "paths.cache=null",
    ]
    agent = {"WANDB_RUN_ID": "from-agent", "WANDB_SWEEP_ID": "sweep1", "WANDB_PROJECT": "agents-project", "WANDB_MODE": "offline"}
    done = subprocess.run([*words, *more], env=environment(**agent), cwd=REPOSITORY, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    from tests.tracking.wandb_offline import read_runs

    run = read_runs(tmp_path / "out")[0]
    assert (run.id, run.config["alpha"]) == ("from-agent", 0) and run.summary["retrieval/recall@5"] >= 0
    assert any("retrieval/recall@5" in row for row in run.history), "what a Bayesian search reads"
