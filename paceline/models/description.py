"""What a model is, by its files: for lists of models that are not loaded. No MLX."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.models.files import WEIGHTS, context_length, mtp_prefixes, other_purpose, read_config


@dataclass(frozen=True, slots=True)
class Description:
    family: str
    context_length: int
    size: int  # bytes of all its files
    quantization: str | None
    sees: bool  # takes images
    hears: bool  # has an audio tower; Paceline serves its text and images
    drafts: bool  # has an MTP head for speculative decoding
    chats: bool  # has a chat template
    calls_tools: bool  # which mentions tools
    files: tuple[tuple[str, int], ...]  # names and sizes
    refusal: str | None = None  # why it is not served


def describe(folder: Path) -> Description:
    """Raises LoadError."""
    config = read_config(folder)
    files = tuple((file.name, file.stat().st_size) for file in sorted(folder.iterdir()) if file.is_file())
    template = _template(folder)
    return Description(
        family=str(config["model_type"]),
        context_length=context_length(config),
        size=sum(size for _, size in files),
        quantization=_quantization(config),
        sees=bool(config.get("vision_config")),
        hears=bool(config.get("audio_config")),
        drafts=_has_head(folder, config),
        chats=bool(template),
        calls_tools="tools" in template,
        files=files,
        refusal=other_purpose(config),
    )


def _quantization(config: dict[str, Any]) -> str | None:
    found = config.get("quantization") or config.get("quantization_config")
    if not isinstance(found, dict):
        return None
    mode = found.get("mode", found.get("quant_method"))
    bits = found.get("bits")
    return f"{bits}-bit" if isinstance(bits, int) and mode in (None, "affine") else str(mode or "quantized")


def _template(folder: Path) -> str:
    for name in ("chat_template.jinja", "chat_template.json", "tokenizer_config.json"):
        try:
            text = (folder / name).read_text(encoding="utf-8")
            found = text if name.endswith(".jinja") else json.loads(text).get("chat_template")
        except (OSError, ValueError, AttributeError):
            continue
        if found:
            return found if isinstance(found, str) else json.dumps(found)
    return ""


def _has_head(folder: Path, config: Mapping[str, Any]) -> bool:
    """By the index of the weights, or the header of the only file."""
    try:
        index = folder / "model.safetensors.index.json"
        if index.is_file():
            names = list(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        else:
            with next(folder.glob(WEIGHTS)).open("rb") as stream:
                names = list(json.loads(stream.read(int.from_bytes(stream.read(8), "little"))))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return False
    return any(name.startswith(mtp_prefixes(config)) for name in names)
