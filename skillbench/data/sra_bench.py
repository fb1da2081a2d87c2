"""SRA-Bench (arXiv 2604.24594): 26,262 skills, 5,400 instances of six task families, of which four are questions that rules can
grade.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from skillbench.data.jsonl import Row, UniqueIds, iter_json_array, open_binary, reading
from skillbench.data.source import Place, locate, one_of
from skillbench.errors import SkillbenchError
from skillbench.gold import Check, Qrels
from skillbench.records import PublicData, Query, Skill, Task

SUBSETS = ("theoremqa", "logicbench", "toolqa", "champ", "medcalcbench", "bigcodebench")
QUESTIONS = ("theoremqa", "logicbench", "champ", "medcalcbench")
_NOT_GRADED = {
    "toolqa": "its questions are about tables, graphs and texts (8 external corpora) that are not here",
    "bigcodebench": "its answers are programs, graded by running their unit tests in a sandbox, which is not here",
}
_CORPUS = ("corpus/corpus.json", "corpus/corpus.json.zip")


class SRABench:
    """``corpus/corpus.json`` (or ``.json.zip``, read in place) and ``instances/<subset>.json``.

    ``subset`` is one of the six families, ``questions`` (the four that :meth:`load_checks` can grade), or ``all``. The gallery is
    always the whole corpus. Only ``instance_id`` and
    ``question`` of an instance become public; ``eval_data``, which holds the answer, is read by :meth:`load_checks` alone.
    """

    def __init__(self, *, name: str, root: str | None, repo: str, revision: str, subset: str, allow_missing_gold: bool) -> None:
        self.name = name
        self.allow_missing_gold = allow_missing_gold  # read by the judge alone
        self._root, self._repo, self._revision = root, repo, revision
        chosen = one_of("dataset.subset", subset, ("all", "questions", *SUBSETS))
        self._subsets = {"all": SUBSETS, "questions": QUESTIONS}.get(chosen, (chosen,))
        self._found: Place | None = None

    def load_public(self) -> PublicData:
        """Skills in corpus order; queries by subset, in file order."""
        place = self._place()
        corpus = place.need(*_CORPUS)
        ids = UniqueIds("skill")
        with _open_json(corpus) as stream:
            skills = tuple(_skill(row, ids) for row in iter_json_array(stream, str(corpus)))
        queries = tuple(Query(query_id, row.text("question")) for query_id, row in self._instances())
        return PublicData(self.name, skills, queries, (), f"{place.label}: {corpus.name}, {', '.join(self._subsets)}")

    def load_gold(self) -> Qrels:
        """``skill_annotations`` of every instance; an empty list is a query without gold."""
        return Qrels.binary({query_id: row.identifiers("skill_annotations") for query_id, row in self._instances()})

    def load_tasks(self) -> tuple[Task, ...]:
        """Each instance as a task whose query is itself: the question, and the form of answer that its family asks for.

        The form is a property of the family, never of the instance. Raises SkillbenchError for a family that cannot be graded here.
        """
        self._refuse_ungraded()
        forms = _ANSWER_FORMS
        return tuple(Task(i, i, f"{row.text('question')}\n\n{forms[subset]}") for subset, i, row in self._rows())

    def load_checks(self) -> Mapping[str, Check]:
        """How each instance is graded, by task id, from its ``eval_data``. Called by the judge only.

        Raises SkillbenchError naming file and row for an answer of an unknown kind, and for a family that cannot be graded here.
        """
        self._refuse_ungraded()
        return MappingProxyType({i: _CHECKS[subset](i, row, row.row("eval_data")) for subset, i, row in self._rows()})

    def _refuse_ungraded(self) -> None:
        for subset in self._subsets:
            if subset in _NOT_GRADED:
                raise SkillbenchError(
                    f"dataset.subset={subset} cannot be answered here: {_NOT_GRADED[subset]}; choose dataset.subset=questions, or "
                    f"{', '.join(QUESTIONS)}"
                )

    def _instances(self) -> Iterator[tuple[str, Row]]:
        return ((instance_id, row) for _, instance_id, row in self._rows())

    def _rows(self) -> Iterator[tuple[str, str, Row]]:
        """Subset, instance id and row of every instance."""
        place, ids = self._place(), UniqueIds("instance")
        for subset in self._subsets:
            path = place.need(f"instances/{subset}.json")
            with open_binary(path) as stream:
                for row in iter_json_array(stream, str(path)):
                    yield subset, ids.add(row.identifier("instance_id"), row.where), row

    def _place(self) -> Place:
        if self._found is None:
            patterns = [*_CORPUS, *(f"instances/{subset}.json" for subset in self._subsets)]
            self._found = locate(self._root, self._repo, self._revision, patterns)
        return self._found


_ANSWER_FORMS = {
    "theoremqa": "Answer with a number, a list of numbers such as [2, 3, 4], True or False, or an option such as (a).",
    "logicbench": "Answer with the choice, such as choice_2, where choices are given, else with yes or no.",
    "champ": "Answer with a number, a formula in plain text such as n!/(2^k), yes or no, or a short phrase.",
    "medcalcbench": "Answer with the value alone, in the unit asked for: a number, a date (MM/DD/YYYY), or (17 weeks, 2 days).",
}


def _theoremqa(task_id: str, row: Row, data: Row) -> Check:
    """Tolerance and unordered lists as in TheoremQA's own grader; a whole number has to be met exactly.

    Where the question asks for a percentage, or for thousands, millions or billions, that is the answer's unit: "54.8%" is 54.8.
    """
    answer, kind = data.text("answer").strip(), data.text("answer_type")
    if kind not in _THEOREMQA_KINDS:
        data.fail(f"answer_type '{kind}' is none of {', '.join(_THEOREMQA_KINDS)}")
    grader, options = _THEOREMQA_KINDS[kind]
    unit = _unit_asked_for(row.text("question")) if grader == "number" else {}
    return Check(task_id, grader, answer, MappingProxyType({**options, **unit}))


_PERCENT_ASKED = re.compile(r"\b(?:what|which|as an?|in) per ?cent(?:age)?s?\b", re.IGNORECASE)
_SCALE_ASKED = re.compile(r"\bin (thousand|million|billion)s\b", re.IGNORECASE)


def _unit_asked_for(question: str) -> dict[str, str]:
    """Grader options out of what a question asks for. One that only speaks of percentages ("at 3% interest") asks for none."""
    percent = {"percent": "unit"} if _PERCENT_ASKED.search(question) else {}
    scale = _SCALE_ASKED.search(question)
    return {**percent, **({"scale": scale[1].lower()} if scale else {})}


_LIST = ("number_list", {"rel_tol": "0.04", "ordered": "false"})
_THEOREMQA_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "integer": ("integer", {}),
    "float": ("number", {"rel_tol": "0.04"}),
    "list of integer": _LIST,
    "list of float": _LIST,
    "bool": ("boolean", {}),
    "option": ("option", {}),
}


def _logicbench(task_id: str, row: Row, data: Row) -> Check:
    """BQA is yes or no; MCQA is choice_N, and the texts of the choices stand in the question."""
    kind, answer = data.text("task_type"), data.text("answer").strip()
    if kind == "BQA":
        return Check(task_id, "boolean", answer)
    if kind != "MCQA":
        data.fail(f"task_type '{kind}' is neither BQA nor MCQA")
    texts = {f"choice_{n}": text.strip() for n, text in re.findall(r"^\s*choice_(\d+):(.*)$", row.text("question"), re.MULTILINE)}
    return Check(task_id, "choice", answer, MappingProxyType(texts))


def _champ(task_id: str, row: Row, data: Row) -> Check:
    return Check(task_id, "free_form", data.text("answer").strip())


def _medcalcbench(task_id: str, row: Row, data: Row) -> Check:
    """Decimals within the limits that the set states; whole numbers exactly; dates by day; gestational ages by weeks and days."""
    answer, kind = data.text("answer").strip(), data.text("output_type")
    if "week" in answer.lower():
        return Check(task_id, "weeks_days", answer)
    if kind == "date":
        return Check(task_id, "date", answer)
    if kind == "integer":
        return Check(task_id, "integer", answer)
    if kind != "decimal":
        data.fail(f"output_type '{kind}' is none of decimal, integer, date")
    return Check(task_id, "range", answer, MappingProxyType({"lower": data.text("lower_limit"), "upper": data.text("upper_limit")}))


_CHECKS: Mapping[str, Callable[[str, Row, Row], Check]] = {
    "theoremqa": _theoremqa,
    "logicbench": _logicbench,
    "champ": _champ,
    "medcalcbench": _medcalcbench,
}


def _skill(row: Row, ids: UniqueIds) -> Skill:
    skill_id = ids.add(row.identifier("skill_id"), row.where)
    name = row.text_or_empty("name")
    return Skill(skill_id, name or skill_id, row.text_or_empty("description"), row.text_or_empty("content"))


@contextmanager
def _open_json(path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".zip":
        with open_binary(path) as stream:
            yield stream
        return
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".json") and not n.startswith("__MACOSX/")]
            if len(names) != 1:
                raise SkillbenchError(f"{path}: must hold exactly one .json file, holds {len(names)}")
            with archive.open(names[0]) as stream:
                yield stream
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise SkillbenchError(f"{path}: damaged or unreadable zip file ({error}); fetch it again") from error
