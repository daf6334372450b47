"""A model's files, found or downloaded and checked, and the context length in its config.json. No MLX."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from paceline.errors import LoadError

WEIGHTS = "model*.safetensors"  # what mlx-lm reads; many repositories have the same weights under other names too
MAX_HEADER = 100_000_000  # bytes: safetensors' own limit
SAMPLES, SAMPLE = 32, 4096  # samples of a weight file for its fingerprint, and bytes of each
EMBEDDED = Path(__file__).parent / "embedded"  # models that the package carries, by their names
# The model of `paceline serve` without a name: the package's, also where a folder has this name.
DEFAULT_MODEL = "paceline-mini"
DEFAULT_FOLDER = EMBEDDED / DEFAULT_MODEL
DEFAULT_DESCRIPTION = "a small demonstration model trained by this project, with no knowledge to rely on"
WANTED = ["*.json", WEIGHTS, "*.model", "*.tiktoken", "*.txt", "*.jinja"]


def resolve(source: str) -> Path:
    """A folder, the name of an embedded model, or an id to download."""
    return find(source) or download(source)


def download(source: str) -> Path:
    """A Hugging Face id, from the cache as far as it is there. The hub's library draws progress bars."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    log_in = "log in with `hf auth login` or set HF_TOKEN"
    try:
        return Path(snapshot_download(source, allow_patterns=WANTED))
    except GatedRepoError as error:
        raise LoadError(f"{source} is gated: accept its terms on its page at the hub, then {log_in}.") from error
    except RepositoryNotFoundError as error:
        raise LoadError(
            f"{source} is no folder here, and the hub has no such model, or does not show it to you: check the name; "
            f"if it is private, {log_in}."
        ) from error
    except LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, HfHubHTTPError):
            raise LoadError(
                f"{source} is not cached whole, and the hub answers: {one_line(error.__cause__)}"
            ) from error
        raise LoadError(f"{source} is neither a folder here nor cached, and the hub cannot be reached.") from error
    except Exception as error:  # the network's are those of whatever library the hub's uses
        raise LoadError(f"{source} is no folder here, and cannot be downloaded: {one_line(error)}") from error


def find(source: str) -> Path | None:
    """The folder on this machine; None for an id to download. Raises LoadError if it is neither."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if not folder.exists() and source in embedded():
        return EMBEDDED / source
    if folder.exists():
        raise LoadError(f"{source} is a file; give the folder that holds config.json and the weights.")
    if source.startswith((".", "/", "~")) or source.count("/") != 1:
        carried = "" if "/" in source else f" and none of the models that Paceline carries ({', '.join(embedded())})"
        raise LoadError(
            f"There is no folder {source}, and it is no Hugging Face id (which looks like owner/name){carried}."
        )
    return None


def embedded() -> list[str]:
    """The names of the models in the package."""
    return sorted(config.parent.name for config in EMBEDDED.glob("*/config.json"))


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise LoadError(f"{folder} has no config.json, so it is no model folder.")
    try:
        config = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LoadError(f"{path} cannot be read: {one_line(error)}") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise LoadError(f"{path} names no model_type.")
    return config


# What stands before the names of an MTP head: as conversions and sidecars leave it, and as families have it.
MTP_PREFIXES = ("language_model.mtp.", "model.mtp.", "mtp.")
OWN_MTP_PREFIXES = {
    "deepseek_v3": "model.layers.{layers}.",  # a layer past the last one
    "glm4_moe": "model.layers.{layers}.",
    "mimo": "model.mtp_layers.0.",
}


def mtp_prefixes(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What the names of an MTP head's tensors may begin with, in the files of a model with this configuration."""
    text = config.get("text_config") or config
    own = OWN_MTP_PREFIXES.get(config.get("model_type", ""))
    layers = text.get("num_hidden_layers") or 0
    return MTP_PREFIXES if own is None else (own.format(layers=layers), *MTP_PREFIXES)


OTHER_HEADS = {
    "ForSequenceClassification": "a classifier or cross-encoder",
    "ForTokenClassification": "a classifier of tokens",
    "ForQuestionAnswering": "a model that marks answers",
    "ForMaskedLM": "an encoder",
}
# Of BERT's family, by `model_type`.
ENCODERS = frozenset(
    [
        "albert",
        "bert",
        "camembert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "modernbert",
        "mpnet",
        "new",
        "nomic_bert",
        "roberta",
        "xlm-roberta",
    ]
)


def other_purpose(config: dict[str, Any]) -> str | None:
    """What the model is, if it writes no text, and what to use instead."""
    named = config.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    found = [f"{what} ({name})" for name in names for ending, what in OTHER_HEADS.items() if name.endswith(ending)]
    if not found and config["model_type"] in ENCODERS:
        found = [f"an encoder of BERT's family ({config['model_type']})"]
    if not found:
        return None
    return (
        f"{found[0]}, and only models that write text are served. Those give embeddings and scores, too: use a "
        "Qwen3-Embedding for /v1/embeddings, a Qwen3-Reranker in its original form for /v1/rerank and /v1/score"
    )


def check_weights(folder: Path) -> list[Path]:
    """Check that all weight files are there and complete, by their headers and sizes."""
    index = folder / "model.safetensors.index.json"
    files = sorted(folder.glob(WEIGHTS))
    if index.is_file():
        try:
            names = set(json.loads(index.read_text())["weight_map"].values())
            missing = sorted(name for name in names if fnmatch(name, WEIGHTS) and not (folder / name).is_file())
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise LoadError(f"{index} is damaged: {one_line(error)}. Download it again.") from error
        if missing:
            raise LoadError(f"{folder} lacks {len(missing)} of its weight files, {missing[0]} first.")
    if not files:
        raise LoadError(f"{folder} has no {WEIGHTS} weights.")
    for file in files:
        read_header(file)
    return files


def check_draft_files(source: str) -> None:
    """Check a draft model's files if it is on this machine."""
    try:
        folder = find(source)
        if folder is not None:
            read_config(folder)
            check_weights(folder)
    except LoadError as error:
        raise LoadError(f"The draft model cannot be used. {error}") from error


def read_header(file: Path) -> dict[str, Any]:
    """What a safetensors file holds, by tensor, and that it is whole. Raises LoadError."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > size - 8:
                raise ValueError("its header is cut off")
            if length > MAX_HEADER:
                raise ValueError(f"its header has {length} bytes")
            header: dict[str, Any] = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        ends = [entry["data_offsets"][1] for entry in header.values()]
        if 8 + length + max(ends, default=0) != size:
            raise ValueError(f"it should have {8 + length + max(ends, default=0)} bytes and has {size}")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise LoadError(f"{file} is damaged: {one_line(error)}. Download it again.") from error
    return header


def one_line(error: BaseException, limit: int = 240) -> str:
    """A library's error in one line: some name the cause in the second, and go on for pages."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else f"{text[:limit]}..."


def fingerprint(folder: Path, *more: str) -> str:
    """A name for a checkpoint by its contents: its configuration and samples of every weight file."""
    digest = hashlib.sha256("\n".join(more).encode())
    digest.update((folder / "config.json").read_bytes())
    for file in sorted(folder.glob(WEIGHTS)):
        size = file.stat().st_size
        digest.update(f"{file.name}/{size}".encode())
        with file.open("rb") as weights:
            for place in range(SAMPLES):
                weights.seek(place * max(size - SAMPLE, 0) // (SAMPLES - 1))
                digest.update(weights.read(SAMPLE))
    return digest.hexdigest()[:32]


# -- context length

UNDECLARED = 32768  # for a model that declares none: recurrent ones need no limit
NAMES = ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions")
GEMMA = ("gemma3", "gemma3_text", "gemma3n", "gemma3n_text")
YARN = ("yarn", "deepseek_yarn", "telechat3-yarn")


def context_length(config: Mapping[str, Any]) -> int:
    """Prompt and output together. For YaRN the original length times the factor counts; other kinds of scaling
    (Llama 3, LongRoPE) declare the scaled length."""
    return _stretched(config) or UNDECLARED


def longest_context(config: Mapping[str, Any]) -> int | None:
    """The most that may be set; None: any. Linear and dynamic scaling do not say whether the declared length includes
    their factor, so the product is allowed too, as in vLLM. Gemma 3 declares the product."""
    most = _stretched(config)
    scaling = _scaling(config)
    if most is None or _type(scaling) not in ("linear", "dynamic") or str(_text(config).get("model_type")) in GEMMA:
        return most
    return max(most, int(most * _factor(scaling)))


def _stretched(config: Mapping[str, Any]) -> int | None:
    declared = _declared(config)
    scaling = _scaling(config)
    original = scaling.get("original_max_position_embeddings")
    if declared is None or _type(scaling) not in YARN or not isinstance(original, int):
        return declared
    return max(declared, int(original * _factor(scaling)))


def _declared(config: Mapping[str, Any]) -> int | None:
    text = _text(config)
    for name in NAMES:
        value = text.get(name, config.get(name))
        if isinstance(value, int) and value > 0:
            return value
    return None


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) and text else config


def _scaling(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("rope_scaling", "rope_parameters"):
        found = _text(config).get(name, config.get(name))
        if isinstance(found, Mapping):
            return found
    return {}


def _type(scaling: Mapping[str, Any]) -> Any:
    return scaling.get("rope_type") or scaling.get("type")


def _factor(scaling: Mapping[str, Any]) -> float:
    factor = scaling.get("factor")
    return float(factor) if isinstance(factor, (int, float)) and factor >= 1 else 1.0
