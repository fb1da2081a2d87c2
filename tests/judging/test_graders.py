"""Graders: a table of gold answers, predictions and verdicts, and every SRA-Bench instance that is here."""

import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbench.data.sra_bench import SRABench
from skillbench.errors import SkillbenchError
from skillbench.gold import Check
from skillbench.judging.graders import Verdict, check_gold, grade

DATA = Path(__file__).parents[2] / ".." / "shared" / "data" / "sra_bench"

TOLERANT = {"rel_tol": "0.04"}
UNORDERED = {"rel_tol": "0.04", "ordered": "false"}
ORDERED = {"rel_tol": "0.04", "ordered": "true"}
CHOICES = {"choice_1": "He stays at home.", "choice_2": "He goes out", "choice_3": "He goes out and stays"}
LIMITS = {"lower": "23.97619", "upper": "26.50001"}

# grader, options, gold, prediction, right?
ROWS: list[tuple[str, dict[str, str], str, str | None, bool]] = [
    ("exact_number", {}, "29", "$29.00", True),
    ("exact_number", {}, "29", "29 dollars", True),
    ("exact_number", {}, "29", "129", False),
    ("exact_number", {}, "29", "29%", False),
    ("exact_number", {"percent": "unit"}, "29", "29%", True),
    ("exact_number", {}, "-3", "\u22123", True),
    ("exact_number", {}, "-3", "3", False),
    ("exact_number", {}, "0.5", "1/2", True),
    ("exact_number", {}, "1/3", "0.333", False),
    ("exact_number", {}, "29", "none", False),
    ("integer", {}, "11760", "11760", True),
    ("integer", {}, "11760", "11,760", True),
    ("integer", {}, "11760", "The answer is $11{,}760$.", True),
    ("integer", {}, "11760", "\\boxed{11760}", True),
    ("integer", {}, "11760", "11760.0", True),
    ("integer", {}, "11760", "1.176e4", True),
    ("integer", {}, "11760", "11760.4", False),
    ("integer", {}, "11760", "1176", False),
    ("integer", {}, "11760", "111760", False),
    ("integer", {}, "-36", "-36", True),
    ("integer", {}, "-36", "\u221236", True),
    ("integer", {}, "-36", "36", False),
    ("integer", {}, "-36", "- 36 units", True),
    ("integer", {}, "0", "0", True),
    ("integer", {}, "0", "0.0001", False),
    ("integer", {}, "0", "zero", False),
    ("integer", {}, "3628800", "10!", True),
    ("integer", {}, "1024", "2^{10}", True),
    ("integer", {}, "3", "x = 3", True),
    ("integer", {}, "3", "3 or 4", False),
    ("integer", {}, "3", "Answer: 4\nAnswer: 3", True),
    ("integer", {}, "3", "Answer: 3\nAnswer: 4", False),
    ("integer", {}, "3", "<think>Answer: 3", False),
    ("integer", {}, "3", "<think>4</think>3", True),
    ("integer", {}, "3", "", False),
    ("integer", {}, "3", None, False),
    ("integer", {}, "3", "nan", False),
    ("integer", {}, "3", "inf", False),
    ("integer", {}, "60", "60%", False),
    ("integer", {}, "2", "4/2", True),
    ("number", TOLERANT, "1.42", "1.42", True),
    ("number", TOLERANT, "1.42", "1.4", True),
    ("number", TOLERANT, "1.42", "1.47", True),
    ("number", TOLERANT, "1.42", "1.48", False),
    ("number", TOLERANT, "1.42", "1.36", False),
    ("number", TOLERANT, "-1.047", "-\\frac{\\pi}{3}", True),
    ("number", TOLERANT, "-1.047", "\\frac{\\pi}{3}", False),
    ("number", TOLERANT, "0.33", "33%", True),
    ("number", TOLERANT, "0.33", "33", False),
    ("number", TOLERANT, "0.6667", "2/3", True),
    ("number", TOLERANT, "2.7182818", "e", True),
    ("number", TOLERANT, "3e-36", "3 \\times 10^{-36}", True),
    ("number", TOLERANT, "3e-36", "0", False),
    ("number", TOLERANT, "3e-36", "6e-36", False),
    ("number", TOLERANT, "-6e+25", "-6 x 10^25 J", True),
    ("number", TOLERANT, "0.0", "0", True),
    ("number", TOLERANT, "0.0", "0.01", False),
    ("number", TOLERANT, "1898.27", "$1,898.27", True),
    ("number", TOLERANT, "345.0", "345 nm", True),
    ("number", TOLERANT, "4e-05", "0.00004", True),
    ("number", TOLERANT, "22.5", "22 1/2", True),
    ("number", TOLERANT, "22.5", "about 22.5 m/s", True),
    ("number", TOLERANT, "22.5", "The speed is 22.5 m/s in 3 s", True),
    ("number", TOLERANT, "22.5", "At 22.5 m/s it falls for 3 s", False),
    ("number", TOLERANT, "22.5", "The speed: 22.5 m/s (in 3 s)", True),
    ("number", TOLERANT, "3", "The speed is 22.5 m/s in 3 s", False),
    ("number", TOLERANT, "22.5", "I do not know", False),
    ("number", TOLERANT, "54.8", "54.8%", False),
    ("number", {**TOLERANT, "percent": "unit"}, "54.8", "54.8%", True),
    ("number", {**TOLERANT, "percent": "unit"}, "54.8", "54.8 percent of it", True),
    ("number", {**TOLERANT, "percent": "unit"}, "54.8", "0.548", False),
    ("number", {**TOLERANT, "percent": "unit"}, "0.33", "33%", False),
    ("number", TOLERANT, "3.6", "3.6 million", False),
    ("number", {**TOLERANT, "scale": "million"}, "3.6", "3.6 million", True),
    ("number", {**TOLERANT, "scale": "million"}, "3.6", "$3.6M", True),
    ("number", {**TOLERANT, "scale": "million"}, "3.6", "3.6", True),
    ("number", {**TOLERANT, "scale": "million"}, "3.6", "3.6 thousand", False),
    ("number", {**TOLERANT, "scale": "million"}, "3.6", "3,600,000", False),
    ("number", TOLERANT, "70000", "$70K", True),
    ("number", TOLERANT, "300", "300 K", True),
    ("number", TOLERANT, "0.693", "\\ln 2", True),
    ("number", TOLERANT, "0.693", "The result is ln 2.", True),
    ("number", TOLERANT, "0.693", "0.693 (ln 2)", True),
    ("number", TOLERANT, "2", "\\ln 2", False),
    ("number", TOLERANT, "1.386", "2 ln 2", True),
    ("number", TOLERANT, "8", "log_2 8", False),
    ("number", TOLERANT, "2", "ln 2n", False),
    ("number", TOLERANT, "1.57", "1.57 (pi/2)", True),
    ("number", TOLERANT, "-3", "minus 3", True),
    ("number", TOLERANT, "4", "The value of k is 3 or 4", False),
    ("number", TOLERANT, "1.0", "1e999999", False),
    ("number_list", UNORDERED, "[4, 1, 2, 0]", "[4, 1, 2, 0]", True),
    ("number_list", UNORDERED, "[4, 1, 2, 0]", "4 -> 1 -> 2 -> 0", True),
    ("number_list", UNORDERED, "[4, 1, 2, 0]", "[0, 2, 1, 4]", True),
    ("number_list", ORDERED, "[4, 1, 2, 0]", "[0, 2, 1, 4]", False),
    ("number_list", UNORDERED, "[4, 1, 2, 0]", "[4, 1, 2]", False),
    ("number_list", UNORDERED, "[4, 1, 2, 0]", "[4, 1, 2, 1]", False),
    ("number_list", UNORDERED, "[-1, 6]", "6 and -1", True),
    ("number_list", UNORDERED, "[-1, 6]", "(-1, 6)", True),
    ("number_list", UNORDERED, "[-1, 6]", "The eigenvalues are [6, -1].", True),
    ("number_list", UNORDERED, "[-1, 6]", "6", False),
    ("number_list", UNORDERED, "[-1, 6]", "[1, 6]", False),
    ("number_list", UNORDERED, "[-1, 6]", "[-1.02, 6]", False),
    ("number_list", UNORDERED, "[0.333, 0.25]", "[1/3, 1/4]", True),
    ("number_list", UNORDERED, "[0.333, 0.25]", "[0.34, 0.25]", True),
    ("number_list", UNORDERED, "[0.333, 0.25]", "[0.4, 0.25]", False),
    ("number_list", UNORDERED, "[8, -14]", "\\begin{bmatrix} 8 \\\\ -14 \\end{bmatrix}", True),
    ("number_list", UNORDERED, "[8, -14]", "x=8, y=-14", True),
    ("number_list", UNORDERED, "[8, -14]", "[8, b]", False),
    ("number_list", ORDERED, "[1000, 2000]", "[1,000, 2,000]", True),
    ("number_list", ORDERED, "[1000, 2000]", "1,000 and 2,000", True),
    ("number_list", ORDERED, "[1000, 2000]", "[1{,}000; 2{,}000]", True),
    ("number_list", ORDERED, "[100, 200, 300]", "[100,200,300]", True),
    ("boolean", {}, "True", "True", True),
    ("boolean", {}, "True", "yes", True),
    ("boolean", {}, "True", "Therefore, the answer is True.", True),
    ("boolean", {}, "True", "False", False),
    ("boolean", {}, "True", "not true", False),
    ("boolean", {}, "False", "No, because it is true only for n > 3", True),
    ("boolean", {}, "False", "yes or no", False),
    ("boolean", {}, "False", "It cannot be said", False),
    ("boolean", {}, "no", "The answer is no", True),
    ("boolean", {}, "no", "Answer: **No**", True),
    ("boolean", {}, "yes", "no", False),
    ("boolean", {}, "yes", "We get a. So the statement holds: yes\nThank you.", True),
    ("option", {}, "(c)", "(c)", True),
    ("option", {}, "(c)", "C", True),
    ("option", {}, "(c)", "c) 2J", True),
    ("option", {}, "(c)", "The answer is (c) since J_g = 2 J_f.", True),
    ("option", {}, "(c)", "(b)", False),
    ("option", {}, "(c)", "(b) or (c)", False),
    ("option", {}, "(c)", "(a), (b), (c)", False),
    ("option", {}, "(a)", "option a", True),
    ("option", {}, "(a)", "a good question", False),
    ("choice", CHOICES, "choice_2", "choice_2", True),
    ("choice", CHOICES, "choice_2", "Choice 2", True),
    ("choice", CHOICES, "choice_2", "2", True),
    ("choice", CHOICES, "choice_2", "(2)", True),
    ("choice", CHOICES, "choice_2", "he goes out.", True),
    ("choice", CHOICES, "choice_2", "he goes out and stays", False),
    ("choice", CHOICES, "choice_2", "choice_1 or choice_2", False),
    ("choice", CHOICES, "choice_2", "choice_3", False),
    ("choice", CHOICES, "choice_2", "choice_22", False),
    ("choice", CHOICES, "choice_2", "Answer: choice_2, because choice_1 fails", True),
    ("choice", {}, "choice_2", "he goes out", False),
    ("range", LIMITS, "25.2381", "25.24", True),
    ("range", LIMITS, "25.2381", "23.97619", True),
    ("range", LIMITS, "25.2381", "26.50001 mL/min", True),
    ("range", LIMITS, "25.2381", "26.51", False),
    ("range", LIMITS, "25.2381", "23.9", False),
    ("range", LIMITS, "25.2381", "25.2 mL/min/1.73 m^2", True),
    ("range", LIMITS, "25.2381", "25.2%", True),
    ("range", LIMITS, "25.2381", "The GFR is 25.2 mL/min/1.73 m²", True),
    ("range", LIMITS, "25.2381", "GFR 25.2 mL/min/1.73 m²", True),
    ("range", LIMITS, "25.2381", "The GFR is approximately 25.2 mL/min per 1.73 square metres.", True),
    ("range", LIMITS, "25.2381", "$25.2\\ \\text{mL/min/1.73 m}^2$", True),
    ("range", LIMITS, "25.2381", "GFR of 25.2 mL/min/(1.73 m^2)", True),
    ("range", LIMITS, "25.2381", "The GFR is 60 mL/min/1.73 m²", False),
    ("range", {"lower": "1.7", "upper": "1.8"}, "1.73", "The GFR is 25.2 mL/min/1.73 m²", False),
    ("range", LIMITS, "25.2381", "The creatinine clearance is 25.2 mL/min (CKD stage 4)", True),
    ("range", LIMITS, "25.2381", "Creatinine clearance: 25.2 mL/min (CKD stage 4)", True),
    ("range", {"lower": "3.9", "upper": "4.1"}, "4", "The creatinine clearance is 25.2 mL/min (CKD stage 4)", False),
    ("range", LIMITS, "25.2381", "-25.2", False),
    ("range", LIMITS, "25.2381", "normal", False),
    ("range", {"lower": "-4.75", "upper": "-5.25"}, "-5.0", "-5", True),
    ("range", {"lower": "-4.75", "upper": "-5.25"}, "-5.0", "5", False),
    ("date", {}, "05/03/2020", "05/03/2020", True),
    ("date", {}, "05/03/2020", "5/3/2020", True),
    ("date", {}, "05/03/2020", "May 3, 2020", True),
    ("date", {}, "05/03/2020", "2020-05-03", True),
    ("date", {}, "05/03/2020", "03/05/2020", False),
    ("date", {}, "05/03/2020", "05/03/2021", False),
    ("date", {}, "05/03/2020", "in May", False),
    ("weeks_days", {}, "('17 weeks', '2 days')", "17 weeks and 2 days", True),
    ("weeks_days", {}, "('17 weeks', '2 days')", "(17, 2)", True),
    ("weeks_days", {}, "('17 weeks', '2 days')", "17 weeks", False),
    ("weeks_days", {}, "('17 weeks', '0 days')", "17 weeks", True),
    ("weeks_days", {}, "('17 weeks', '2 days')", "2 weeks 17 days", False),
    ("free_form", {}, "n!/(2n)", "ANSWER: (n-1)!/2", True),
    ("free_form", {}, "n!/(2n)", "ANSWER: (n-1)!", False),
    ("free_form", {}, "n(n+1)*2^(n-2)", "ANSWER: n(n+1)2^{n-2}", True),
    ("free_form", {}, "n(n+1)*2^(n-2)", "ANSWER: n(n+1) \\cdot 2^{n-2}", True),
    ("free_form", {}, "n(n+1)*2^(n-2)", "ANSWER: n(n+1)2^{n-1}", False),
    ("free_form", {}, "n!*2^k", "ANSWER: n!2^k", True),
    ("free_form", {}, "No", "ANSWER: No", True),
    ("free_form", {}, "No", "ANSWER: Yes", False),
    ("free_form", {}, "x=2, y=1", "The only solution: \\boxed{(2, 1)}", True),
    ("free_form", {}, "x=2, y=1", "\\boxed{(1, 2)}", False),
    ("free_form", {}, "239", "ANSWER: 239 strings", True),
    ("free_form", {}, "239", "", False),
]


def test_the_table_is_large_enough_and_names_each_row_once() -> None:
    assert len(ROWS) >= 120
    assert len({(g, repr(o), gold, p) for g, o, gold, p, _ in ROWS}) == len(ROWS)
    assert {right for *_, right in ROWS} == {True, False}


@pytest.mark.parametrize(("grader", "options", "gold", "prediction", "right"), ROWS)
def test_table(grader: str, options: dict[str, str], gold: str, prediction: str | None, right: bool) -> None:
    verdict = grade(prediction, Check("t1", grader, gold, options))
    assert verdict.correct is right, verdict


def test_a_verdict_says_why_and_what_was_read() -> None:
    check = Check("t1", "number", "1.42", TOLERANT)
    assert grade("Answer: 1.45 V", check) == Verdict(True, "equal", "1.45")
    assert grade("Answer: 2", check) == Verdict(False, "different", "2")
    assert grade("Answer: none", check) == Verdict(False, "not a number", "none")
    assert grade("  ", check) == Verdict(False, "no answer", "")
    assert grade("2", Check("t1", "range", "1", {"lower": "0", "upper": "1"})).reason == "outside the range"
    assert grade("[1]", Check("t1", "number_list", "[1, 2]", TOLERANT)).reason == "1 numbers, 2 expected"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (Check("t1", "poetry", "1"), "there is no grader 'poetry'"),
        (Check("t1", "integer", "many"), "'many' is not a number"),
        (Check("t1", "exact_number", "many"), "'many' is not a number"),
        (Check("t1", "number", "1"), "needs the option rel_tol"),
        (Check("t1", "range", "1"), "needs the option lower"),
        (Check("t1", "boolean", "maybe"), "is not yes, no, true or false"),
        (Check("t1", "option", "third"), "is not an option"),
        (Check("t1", "choice", "third"), "is not a choice"),
        (Check("t1", "date", "soon"), "is not a date"),
        (Check("t1", "weeks_days", "soon"), "is not weeks and days"),
        (Check("t1", "number_list", "[a]", TOLERANT), "is not a list of numbers"),
    ],
)
def test_g03_gold_that_cannot_be_read_is_an_error(check: Check, message: str) -> None:
    with pytest.raises(SkillbenchError, match=message):
        grade("1", check)


def test_gold_outside_its_own_limits_is_an_error() -> None:
    with pytest.raises(SkillbenchError, match="fails its own grader range"):
        check_gold(Check("t1", "range", "9", {"lower": "0", "upper": "1"}))


@given(st.sampled_from([(g, tuple(o.items()), gold) for g, o, gold, _, _ in ROWS]), st.text(max_size=120))
def test_no_prediction_raises(row: tuple[str, tuple[tuple[str, str], ...], str], prediction: str) -> None:
    grader, options, gold = row
    verdict = grade(prediction, Check("t1", grader, gold, dict(options)))
    assert verdict.correct in (True, False)


@given(
    st.sampled_from(
        [row for row in ROWS if row[3] and not any(m in row[3] for m in ("nswer", "ANSWER", "boxed", "think", "answer"))]
    )
)
def test_a_marker_around_the_answer_changes_no_verdict_for_the_better(row: Any) -> None:
    grader, options, gold, prediction, right = row
    marked = grade(f"Let me see, 12345.\nAnswer: {prediction}", Check("t1", grader, gold, options))
    assert marked.correct is right or (right and "\n" in prediction)


@pytest.mark.parametrize(
    "prediction",
    [
        "9" * 10_000,
        "(" * 10_000,
        "1," * 5000,
        "x=" * 5000,
        "\\frac{" * 3000,
        "and " * 5000,
        "<think>" * 2000,
        "9^" * 5000,
        "- " * 8000,
        "is " * 5000 + "5",
        "is" + " " * 9000 + "x",
        ": " * 8000,
        "$1 " * 5000,
        "1_000" * 3000,
        "minus " * 3000,
        "/1.73 " * 3000,
    ],
)
def test_hostile_predictions_end_quickly(prediction: str) -> None:
    for (grader, options), gold in {(g, tuple(o.items())): gold for g, o, gold, _, _ in ROWS}.items():
        start = time.thread_time()
        grade(prediction, Check("t1", grader, gold, dict(options)))
        assert time.thread_time() - start < 2.0


# ---------------------------------------------------------------------------------------------- the instances of SRA-Bench


def sra(subset: str) -> SRABench:
    if not DATA.is_dir():
        pytest.skip("no sra_bench data beside the repository")
    return SRABench(name="sra_bench", root=str(DATA), repo="", revision="", subset=subset, allow_missing_gold=False)


def test_every_gold_answer_passes_and_a_perturbed_one_fails() -> None:
    checks = sra("questions").load_checks()
    assert Counter(check.grader for check in checks.values()) == {
        "boolean": 205,
        "number": 188,
        "free_form": 150,
        "integer": 132,
        "range": 100,
        "choice": 56,
        "number_list": 28,
        "option": 11,
    }
    for check in checks.values():
        assert check_gold(check) is check
        assert grade(f"I think so.\n\nAnswer: {check.answer}", check).correct, check
        wrong = perturbed(check)
        assert not grade(wrong, check).correct, (check, wrong)
        assert not grade(f"Answer: {wrong}", check).correct, (check, wrong)


def test_the_unit_that_a_question_asks_for_is_the_answers() -> None:
    """What percentage …: 54.8% is 54.8; "in millions": 3.6 million is 3.6; interest of 3% in a question changes nothing."""
    checks = sra("theoremqa").load_checks()
    for task_id, right in (
        ("theoremqa_00089", ("54.8%", "54.8")),
        ("theoremqa_00305", ("31%", "31")),
        ("theoremqa_00239", ("3.6 million", "$3.6M", "3.6")),
        ("theoremqa_00086", ("3.04%", "0.0304")),
    ):
        assert all(grade(text, checks[task_id]).correct for text in right), task_id
    assert [i for i, c in checks.items() if c.options.keys() & {"percent", "scale"}] == [
        "theoremqa_00089",
        "theoremqa_00239",
        "theoremqa_00305",
    ]


def perturbed(check: Check) -> str:
    """A wrong answer of the same form as the gold one."""
    gold = check.answer
    match check.grader:
        case "integer":
            return str(int(gold) + 1)
        case "number":
            return repr(float(gold) * 1.05 or 0.05)
        case "number_list":
            first, *rest = gold.strip("[]").split(",")
            return f"[{', '.join([str(float(first) + 1), *rest])}]"
        case "boolean":
            return {"true": "false", "false": "true", "yes": "no", "no": "yes"}[gold.lower()]
        case "option":
            return {"(a)": "(b)"}.get(gold, "(a)")
        case "choice":
            return {"choice_1": "choice_2"}.get(gold, "choice_1")
        case "range":
            return str(Fraction(check.options["upper"]) + Fraction(1, 1000))
    return perturbed_form(gold.split(", or ")[0].split(" (i.e.")[0])


def perturbed_form(gold: str) -> str:
    if gold in ("Yes", "No"):
        return {"Yes": "No", "No": "Yes"}[gold]
    if gold.startswith("No "):
        return "x = 1"
    if "=" in gold and not gold.startswith("sum"):
        return f"{gold}1"
    if gold == "[-1, 1]":
        return "[-1, 2]"
    if " and " in gold:
        return f"{gold}0"
    number = next((word for word in gold.split() if word.isdigit()), None)
    return str(int(number) + 1) if number else f"({gold}) + 1"


def test_tasks_say_the_form_of_the_answer_and_never_the_answer() -> None:
    data = sra("questions")
    tasks, checks = data.load_tasks(), data.load_checks()
    assert [t.id for t in tasks] == list(checks)
    assert all(t.query_id == t.id for t in tasks)
    forms = {t.id.split("_")[0]: t.prompt.rpartition("\n\n")[2] for t in tasks}
    assert len(set(forms.values())) == len(forms) == 4
    canaries = [replace(check, answer=f"canary{i}") for i, check in enumerate(checks.values())]
    assert not any(c.answer in t.prompt for c, t in zip(canaries, tasks, strict=True))


@pytest.mark.parametrize(
    ("subset", "missing"),
    [("toolqa", "external corpora"), ("bigcodebench", "running their unit tests"), ("all", "external corpora")],
)
def test_families_that_need_more_are_refused_with_what_is_missing(subset: str, missing: str) -> None:
    data = SRABench(name="sra_bench", root=str(DATA), repo="", revision="", subset=subset, allow_missing_gold=False)
    for load in (data.load_tasks, data.load_checks):
        with pytest.raises(SkillbenchError, match=missing):
            load()


@pytest.mark.parametrize(
    ("subset", "data", "message"),
    [
        ("theoremqa", {"answer": "1", "answer_type": "poem"}, "answer_type 'poem' is none of"),
        ("logicbench", {"answer": "yes", "task_type": "XQA"}, "neither BQA nor MCQA"),
        ("medcalcbench", {"answer": "1", "output_type": "poem"}, "none of decimal, integer, date"),
        ("champ", {}, "key 'answer' is missing"),
    ],
)
def test_unknown_kinds_name_file_and_row(tmp_path: Path, subset: str, data: dict[str, str], message: str) -> None:
    import json

    (tmp_path / "instances").mkdir()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "corpus.json").write_text("[]")
    row = {"instance_id": "i1", "dataset": subset, "question": "q", "skill_annotations": [], "eval_data": data}
    (tmp_path / "instances" / f"{subset}.json").write_text(json.dumps([row]))
    with pytest.raises(SkillbenchError, match=f"{subset}.json:1: eval_data: .*{message}"):
        SRABench(name="s", root=str(tmp_path), repo="", revision="", subset=subset, allow_missing_gold=False).load_checks()


def test_medcalc_dates_and_gestational_ages(tmp_path: Path) -> None:
    import json

    rows = [
        {
            "answer": "05/03/2020",
            "output_type": "date",
            "lower_limit": "05/03/2020",
            "upper_limit": "05/03/2020",
            "calculator_id": 13,
        },
        {"answer": "('17 weeks', '2 days')", "output_type": "integer", "lower_limit": "", "upper_limit": "", "calculator_id": 69},
        {"answer": "-4.2", "output_type": "decimal", "lower_limit": "-3.99", "upper_limit": "-4.41", "calculator_id": 9},
    ]
    (tmp_path / "instances").mkdir()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "corpus.json").write_text("[]")
    full = [{"instance_id": f"i{n}", "question": "q", "skill_annotations": [], "eval_data": row} for n, row in enumerate(rows)]
    (tmp_path / "instances" / "medcalcbench.json").write_text(json.dumps(full))
    checks = SRABench(
        name="s", root=str(tmp_path), repo="", revision="", subset="medcalcbench", allow_missing_gold=False
    ).load_checks()
    assert [check.grader for check in checks.values()] == ["date", "weeks_days", "range"]
    assert all(check_gold(check) for check in checks.values())
