"""Loading a local causal language model and its tokenizer with transformers."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillbench.errors import SkillbenchError
from skillbench.models.device import resolve_device, resolve_dtype
from skillbench.models.files import locate

log = logging.getLogger(__name__)

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Which weights to load and how. ``device_map`` (a transformers device map, or empty) spreads them over several GPUs."""

    model: str
    gguf_file: str
    revision: str
    device: str
    dtype: str
    device_map: str | Mapping[str, Any]
    attention: str
    trust_remote_code: bool

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise SkillbenchError(f"llm.dtype is {self.dtype!r}; choose one of {', '.join(DTYPES)}")
        if not self.model:
            raise SkillbenchError("llm.model is empty; give a hub id, a local folder or a GGUF file")


@dataclass(slots=True)
class Loaded:
    """A model in evaluation mode, its tokenizer (left padding) and limits. ``stop_ids`` end a generation."""

    model: Any
    tokenizer: Any
    device: Any
    context: int
    vocabulary: int
    stop_ids: tuple[int, ...]
    dtype: str


def identify(checkpoint: Checkpoint) -> str:
    """Hub id with commit, or SHA-256 of the local files. A hub id with a whole commit as its revision is not looked up."""
    if not _is_hub(checkpoint):
        return locate(_local_name(checkpoint), checkpoint.revision).identity
    is_commit = re.fullmatch(r"[0-9a-f]{40}", checkpoint.revision) is not None
    if checkpoint.gguf_file:
        return f"{checkpoint.model}@{checkpoint.revision if is_commit else _gguf_commit(checkpoint)}:{checkpoint.gguf_file}"
    return f"{checkpoint.model}@{checkpoint.revision}" if is_commit else locate(checkpoint.model, checkpoint.revision).identity


def _gguf_commit(checkpoint: Checkpoint) -> str:
    """The commit that a branch stands for: the hub's cache keeps a file under it. The file is fetched, as loading would do."""
    import huggingface_hub as hub

    try:
        path = Path(hub.hf_hub_download(checkpoint.model, checkpoint.gguf_file, revision=checkpoint.revision))
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        where = f"{checkpoint.gguf_file} of {checkpoint.model} at revision {checkpoint.revision}"
        raise SkillbenchError(
            f"{where} cannot be fetched ({reason}); check the names, or give llm.model= a local folder"
        ) from error
    return path.parts[path.parts.index("snapshots") + 1]


def load(checkpoint: Checkpoint, chat_template: str) -> Loaded:
    """Load weights and tokenizer. ``chat_template`` (Jinja text) replaces the tokenizer's own if it is not empty.

    Sampling defaults that a checkpoint carries (its generation_config) are dropped: a request carries all of them. Raises
    SkillbenchError if something is absent, naming it.
    """
    import transformers

    library: Any = transformers
    began = time.perf_counter()
    device = resolve_device(checkpoint.device)
    dtype = resolve_dtype(checkpoint.dtype, device)
    source, options = _source(checkpoint)
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(source, **options)
        model = library.AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **_placement(checkpoint), **options)
    except (OSError, ImportError, ValueError, KeyError) as error:
        raise SkillbenchError(f"llm.model={checkpoint.model} could not be loaded: {str(error)[:400]}") from error
    model.eval()
    if not checkpoint.device_map:
        model.to(device)
    loaded = _finish(checkpoint, model, tokenizer, chat_template)
    log.info("loaded %s on %s as %s in %.1f s", checkpoint.model, loaded.device, loaded.dtype, time.perf_counter() - began)
    return loaded


def _is_hub(checkpoint: Checkpoint) -> bool:
    return not checkpoint.model.startswith("pkg:") and not Path(checkpoint.model).expanduser().exists()


def _local_name(checkpoint: Checkpoint) -> str:
    if checkpoint.gguf_file and not checkpoint.model.endswith(".gguf"):
        return f"{checkpoint.model.rstrip('/')}/{checkpoint.gguf_file}"
    return checkpoint.model


def _source(checkpoint: Checkpoint) -> tuple[str, dict[str, Any]]:
    """What ``from_pretrained`` is given: a place, and options for GGUF and revision."""
    common: dict[str, Any] = {"trust_remote_code": checkpoint.trust_remote_code}
    if checkpoint.gguf_file and _is_hub(checkpoint):
        return checkpoint.model, {**common, "gguf_file": checkpoint.gguf_file, "revision": checkpoint.revision}
    path = locate(_local_name(checkpoint), checkpoint.revision).path
    if path.suffix == ".gguf":
        return str(path.parent), {**common, "gguf_file": path.name}
    return str(path), common


def _placement(checkpoint: Checkpoint) -> dict[str, Any]:
    options: dict[str, Any] = {} if checkpoint.attention == "auto" else {"attn_implementation": checkpoint.attention}
    return {**options, "device_map": checkpoint.device_map} if checkpoint.device_map else options


def _finish(checkpoint: Checkpoint, model: Any, tokenizer: Any, chat_template: str) -> Loaded:
    import transformers

    make_config: Any = transformers.GenerationConfig
    if chat_template:
        tokenizer.chat_template = chat_template
    if not tokenizer.chat_template:
        raise SkillbenchError(f"llm.model={checkpoint.model} has no chat template; give one with llm.chat_template=FILE.jinja")
    stop_ids = _stop_ids(model.generation_config.eos_token_id, tokenizer.eos_token_id)
    if not stop_ids:
        raise SkillbenchError(f"llm.model={checkpoint.model} names no end-of-text token, so its replies could never be complete")
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = stop_ids[0]
    model.generation_config = make_config(eos_token_id=list(stop_ids), pad_token_id=tokenizer.pad_token_id)
    config = model.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    context = min((limit for limit in limits if limit and limit < 1e9), default=2**31)
    vocabulary = model.get_output_embeddings().weight.shape[0] if model.get_output_embeddings() is not None else config.vocab_size
    return Loaded(model, tokenizer, model.device, context, vocabulary, stop_ids, str(model.dtype).removeprefix("torch."))


def _stop_ids(*sources: int | list[int] | None) -> tuple[int, ...]:
    ids = [i for source in sources if source is not None for i in (source if isinstance(source, list) else [source])]
    return tuple(dict.fromkeys(ids))
