"""Fill in the middle: a prompt and a suffix as code models are trained to read them, where their tokens are known."""

from __future__ import annotations

from collections.abc import Callable

from paceline.errors import InvalidRequest

# The marks, and how a prompt is written with them: {prefix}, {suffix}. By Qwen (and CodeGemma), StarCoder, Granite,
# DeepSeek, Code Llama, Codestral.
FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>",
    ),
    (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>"),
    (("<fim-prefix>", "<fim-suffix>", "<fim-middle>"), "<fim-prefix>{prefix}<fim-suffix>{suffix}<fim-middle>"),
    (
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        "<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>",
    ),
    (("▁<PRE>", "▁<SUF>", "▁<MID>"), "▁<PRE> {prefix} ▁<SUF>{suffix} ▁<MID>"),
    (("[PREFIX]", "[SUFFIX]"), "[SUFFIX]{suffix}[PREFIX]{prefix}"),
)


def fill_in_middle(is_token: Callable[[str], bool], prefix: str, suffix: str) -> str:
    """The prompt. Raises InvalidRequest where the vocabulary has no tokens for it."""
    for marks, form in FORMS:
        if all(map(is_token, marks)):
            before, _, after = form.partition("{prefix}")
            parts = [before.replace("{suffix}", suffix), prefix, after.replace("{suffix}", suffix)]
            return "".join(parts)
    raise InvalidRequest.at(
        "suffix", "needs a model that fills in the middle: this one's vocabulary has no tokens for it; leave it out."
    )
