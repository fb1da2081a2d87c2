"""Cross-encoders and yes/no rerankers: tiny random models of the real architectures against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from method_toys import ids, retriever, table_index

from skillbench.errors import SkillbenchError
from skillbench.records import Query, Skill
from skillbench.retrieval.methods import Direct
from skillbench.retrieval.pair_scorers import PREFIX, SUFFIX, CrossEncoderScorer, YesNoScorer
from skillbench.retrieval.rerank import CrossRerank
from skillbench.retrieval.skill_text import DocumentText

DOCUMENT = DocumentText("{name} | {description} | {body}")
INSTRUCTION = "Judge the skill"
SKILLS = [
    Skill("a", "pdf", "read tables", "use camelot"),
    Skill("b", "csv", "parse rows with quotes and a much longer description " * 3, "x"),
    Skill("c", "x", "", "body only"),
    Skill("d", "日本", "zażółć", "🎉"),
]
PAIRS = [(q, s) for q in ("read a pdf", "merge the two ledgers of the charity, please") for s in SKILLS]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    """A random Qwen3ForCausalLM with a byte-level tokenizer that knows the chat tokens, yes and no."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["yes no yes no the document meets the requirements"] * 20, trainer)
    folder = tmp_path_factory.mktemp("qwen")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>").save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.5,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def scorer(folder, **changes) -> YesNoScorer:
    values = {
        "model": str(folder),
        "revision": "main",
        "device": "cpu",
        "dtype": "float32",
        "instruction": INSTRUCTION,
        "separator": "\n",
        "query_chars": 0,
        "document": DOCUMENT,
        "max_length": 1024,
        "batch_tokens": 4096,
        "score_decimals": 6,
        "trust_remote_code": False,
    }
    return YesNoScorer(**{**values, **changes})


def direct_probability(folder, query: str, skill: Skill, limit: int = 10_000) -> float:
    """P(yes) / (P(yes) + P(no)) of one pair, unpadded, by the model card's recipe."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(),
    )
    head = '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'  # noqa: E501
    tail = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    text = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {skill.name} | {skill.description} | {skill.body}"
    before, body, after = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (head, text, tail))
    tokens = before + body[: limit - len(before) - len(after)] + after
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1].double()
    chances = torch.softmax(logits, dim=0)
    yes, no = (chances[tokenizer.convert_tokens_to_ids(word)].item() for word in ("yes", "no"))
    return yes / (yes + no)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_scores_are_the_log_odds_of_yes_against_no(qwen):
    found = scorer(qwen).score(PAIRS)
    expected = [direct_probability(qwen, query, skill) for query, skill in PAIRS]
    assert sigmoid(found) == pytest.approx(expected, abs=1e-5)
    assert np.ptp(found) > 0.1 and found.dtype == np.float64


def test_E04_a_pairs_score_does_not_depend_on_its_batch(qwen):
    together = scorer(qwen, batch_tokens=100_000).score(PAIRS)
    assert np.abs(scorer(qwen, batch_tokens=1).score(PAIRS) - together).max() < 1e-4
    assert np.abs(scorer(qwen).score(PAIRS[::-1])[::-1] - together).max() < 1e-4
    alone = [scorer(qwen).score([pair])[0] for pair in PAIRS[:3]]
    assert np.abs(np.array(alone) - together[:3]).max() < 1e-4


def test_E08_a_cut_keeps_the_suffix(qwen):
    long = Skill("long", "n", "d", "word " * 2000)
    limit = 300
    own = scorer(qwen, max_length=limit)
    (prompt,) = own._prompts([own.user_text("read a pdf", long)])
    tokenizer = own._load()[1]
    suffix = tokenizer.encode(SUFFIX, add_special_tokens=False)
    assert len(prompt) == limit and prompt[-len(suffix) :] == suffix
    assert tokenizer.decode(prompt).startswith(PREFIX)
    expected = direct_probability(qwen, "read a pdf", long, limit)
    assert sigmoid(own.score([("read a pdf", long)])) == pytest.approx([expected], abs=1e-5)


def test_no_room_for_a_document_is_refused(qwen):
    with pytest.raises(SkillbenchError, match="leaves no room"):
        scorer(qwen, max_length=20).score(PAIRS[:1])


def test_the_prompt_is_qwen3_rerankers_and_skillrouters_differs_in_its_separator(qwen):
    own = scorer(qwen, separator="\n\n", query_chars=4, document=DocumentText("{name} | {description} | {body}", 4, 3))
    assert own.user_text("read a pdf", SKILLS[0]) == "<Instruct>: Judge the skill\n\n<Query>: read\n\n<Document>: pdf | read | use"


def test_E07_an_empty_list_of_pairs_loads_nothing():
    assert scorer("/nowhere").score([]).shape == (0,)


def test_a_tokenizer_without_yes_is_refused(qwen, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    bare = Tokenizer(models.WordLevel({"<unk>": 0, "no": 1}, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    Qwen3ForCausalLM.from_pretrained(qwen).save_pretrained(tmp_path)
    PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>", pad_token="<unk>").save_pretrained(tmp_path)
    with pytest.raises(SkillbenchError, match="no token 'yes'"):
        scorer(tmp_path).score(PAIRS[:1])


@pytest.mark.parametrize("build", [scorer, lambda folder: cross_scorer(folder)])
def test_a_model_that_is_not_there_is_one_line(build, tmp_path):
    with pytest.raises(SkillbenchError, match="no such file or folder"):
        build(tmp_path / "gone").score(PAIRS[:1])
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SkillbenchError, match="could not be loaded"):
        build(tmp_path).score(PAIRS[:1])


def test_describe_names_weights_and_instruction(qwen):
    described = scorer(qwen).describe()
    assert described["weights"].startswith("sha256:") and described["instruction"] == INSTRUCTION
    assert (described["device"], described["dtype"], described["document"]) == ("cpu", "float32", DOCUMENT.template)


def test_release_frees_and_the_scorer_works_again(qwen):
    own = scorer(qwen)
    before = own.score(PAIRS[:2])
    own.release()
    assert own._loaded is None
    assert own.score(PAIRS[:2]).tolist() == before.tolist()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp("bert"), 1)


def make_bert(folder, labels: int):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = (
        "read a pdf merge the two ledgers of charity please tables use camelot csv parse rows with quotes body only x | ,".split()
    )
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(words)]
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def cross_scorer(folder, **changes) -> CrossEncoderScorer:
    values = {
        "model": str(folder),
        "revision": "main",
        "device": "cpu",
        "dtype": "float32",
        "prompt": "",
        "query_chars": 0,
        "document": DOCUMENT,
        "max_length": 0,
        "batch_size": 3,
        "trust_remote_code": False,
    }
    return CrossEncoderScorer(**{**values, **changes})


def test_cross_encoder_scores_are_the_raw_logits(bert):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModelForSequenceClassification.from_pretrained(bert).eval()
    expected = []
    for query, skill in PAIRS:
        batch = tokenizer(query, DOCUMENT(skill), truncation="longest_first", max_length=64, return_tensors="pt")
        with torch.no_grad():
            expected.append(model(**batch).logits.item())
    found = cross_scorer(bert).score(PAIRS)
    assert found == pytest.approx(expected, abs=1e-4) and np.ptp(found) > 0.1
    assert cross_scorer(bert, batch_size=1).score(PAIRS) == pytest.approx(expected, abs=1e-4)
    assert cross_scorer(bert, max_length=8).score(PAIRS) != pytest.approx(expected, abs=1e-4)


def test_a_classifier_with_several_outputs_is_refused(tmp_path):
    with pytest.raises(SkillbenchError, match="has 2 outputs"):
        cross_scorer(make_bert(tmp_path, 2)).score(PAIRS[:1])


class TableScorer:
    """Scores from a table of skill ids."""

    def __init__(self, **scores: float) -> None:
        self.scores, self.pairs, self.released = scores, [], False

    def score(self, pairs):
        self.pairs.extend((q, s.id) for q, s in pairs)
        return np.array([self.scores[s.id] for _, s in pairs])

    def describe(self):
        return {"kind": "table"}

    def release(self):
        self.released = True


INDEX = {"red fox": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}, "blue whale": {"d": 0.9, "a": 0.1}}
QUERIES = [Query("q1", "red fox"), Query("q2", "blue whale")]


def test_cross_rerank_orders_the_head_and_keeps_the_tail():
    table = TableScorer(a=0.1, b=0.5, c=0.5, d=9.0)
    method = CrossRerank("rerank_cross", Direct("direct"), table, 3)
    found = list(method.rank(QUERIES, {}, retriever(table_index(INDEX)), 4))
    assert ids(found[0]) == ("b", "c", "a", "d")
    assert ids(found[1]) == ("d", "b", "a", "c")
    assert table.pairs[:3] == [("red fox", "a"), ("red fox", "b"), ("red fox", "c")]
    rows = {r["skill_id"]: r for r in found[0].trace}
    assert rows["b"] == {"skill_id": "b", "first_rank": 2, "score": 0.5, "rank": 1}
    assert not method.needs_llm and not method.needs_plans and method.describe() == {"kind": "table"}
    method.release()
    assert table.released


def test_M09_cross_rerank_is_the_same_at_every_k():
    table = TableScorer(a=0.1, b=0.5, c=0.7, d=9.0)
    lists = [
        ids(next(CrossRerank("x", Direct("d"), table, 3).rank(QUERIES, {}, retriever(table_index(INDEX)), k))) for k in (1, 2, 4)
    ]
    assert lists == [("c",), ("c", "b"), ("c", "b", "a", "d")]


def test_E07_a_score_that_is_not_finite_is_refused():
    table = TableScorer(a=float("nan"), b=0.5, c=0.7, d=9.0)
    with pytest.raises(SkillbenchError, match="not a finite number"):
        next(CrossRerank("x", Direct("d"), table, 3).rank(QUERIES, {}, retriever(table_index(INDEX)), 2))
