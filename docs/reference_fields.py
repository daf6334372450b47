"""Tables of request fields, of refused fields with their reasons, and of paths that are not implemented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from paceline.server.anthropic.schema import UNSUPPORTED_IN_MESSAGES, MessagesBody
from paceline.server.common.fields import FORMATS, GUIDED, UNSUPPORTED
from paceline.server.common.unknown_fields import HARMLESS
from paceline.server.http.openapi import body_schema
from paceline.server.not_implemented import NOT_IMPLEMENTED
from paceline.server.ollama import schema as ollama
from paceline.server.openai.embeddings import UNSUPPORTED_IN_EMBEDDINGS, EmbeddingBody
from paceline.server.openai.responses.schema import UNSUPPORTED_IN_RESPONSES, ResponsesBody
from paceline.server.openai.schema import (
    UNSUPPORTED_IN_CHAT,
    UNSUPPORTED_IN_COMPLETIONS,
    ChatBody,
    CompletionBody,
)

ENDPOINTS: Mapping[str, tuple[frozenset[str], Mapping[str, tuple[Any, ...]]]] = {
    "chat": (frozenset(ChatBody.model_fields), UNSUPPORTED_IN_CHAT),
    "completions": (frozenset(CompletionBody.model_fields), UNSUPPORTED_IN_COMPLETIONS),
    "responses": (frozenset(ResponsesBody.model_fields), UNSUPPORTED_IN_RESPONSES),
    "messages": (frozenset(MessagesBody.model_fields), UNSUPPORTED_IN_MESSAGES),
    "embeddings": (frozenset(EmbeddingBody.model_fields), UNSUPPORTED_IN_EMBEDDINGS),
    "Ollama": (
        frozenset(ollama.ChatBody.model_fields) | frozenset(ollama.GenerateBody.model_fields),
        ollama.UNSUPPORTED_IN_OLLAMA,
    ),
}

_HERE = "not part of this API"
_SAMPLER = "not built: no sampler of this kind"
_CHAT = "use the chat API"
REASONS: Mapping[str, str] = {
    "functions": "OpenAI's old form of `tools`; use `tools`",
    "function_call": "OpenAI's old form of `tool_choice`; use `tool_choice`",
    "audio": "the server generates no audio",
    "modalities": "the server generates text only",
    "prediction": _HERE,
    "web_search_options": "the server runs no tools",
    "suffix": "fill in the middle is in completions",
    "use_beam_search": "not built: beam search does not fit a batch with one sampler per sequence",
    "length_penalty": "belongs to beam search",
    "include_stop_str_in_output": _HERE,
    "allowed_token_ids": _HERE,
    "bad_words": _HERE,
    "logits_processors": "code from a request is never run",
    "truncate_prompt_tokens": _HERE,
    "chat_template": "chat only, with `--trust-request-chat-template`",
    "documents": "not built: put the documents into a message",
    "continue_final_message": "chat only; in messages a last message of the assistant's is continued",
    "return_token_ids": _HERE,
    "return_tokens_as_token_ids": "chat and completions only",
    "add_generation_prompt": _CHAT,
    "include_reasoning": _CHAT,
    "thinking_token_budget": "messages have `thinking.budget_tokens`",
    "thinking_budget": "messages have `thinking.budget_tokens`",
    "mm_processor_kwargs": "not built: image sizes are the model's own; `max_image_pixels` limits them",
    "vllm_xargs": "arguments for vLLM's own plug-ins",
    "logprob_token_ids": "chat and completions only",
    "kv_transfer_params": "one process prefills and decodes",
    "truncation_side": "the end of a prompt is what is asked",
    "use_activation": "embeddings are always normalized",
    "embed_dtype": "embeddings are float32",
    "endianness": "embeddings are little-endian",
    "prompt_embeds": "not built: a prompt is text or token ids",
    "grammar": "each API has its own field for a format",
    "json_schema": "each API has its own field for a format",
    "grammar_lazy": "not built; with `tools`, a format applies to the final text only",
    "repeat_penalty": "Ollama has it in `options`",
    "repeat_last_n": "Ollama has it in `options`",
    "n_predict": "use the API's own limit",
    "typical_p": "Ollama has it in `options`",
    "top_n_sigma": _HERE,
    "dry_multiplier": _HERE,
    "xtc_probability": _HERE,
    "mirostat": _SAMPLER,
    "mirostat_tau": _SAMPLER,
    "mirostat_eta": _SAMPLER,
    "dynatemp_range": _SAMPLER,
    "samplers": "the order of samplers is fixed",
    "n_probs": "use `logprobs` and `top_logprobs`",
    "t_max_predict_ms": "not built; the server has `--request-timeout`",
    "top_a": _SAMPLER,
    "tfs": _SAMPLER,
    "tfs_z": _SAMPLER,
    "smoothing_factor": _SAMPLER,
    "reasoning_format": "reasoning is always parsed into its own field; `--reasoning-parser none` turns that off",
    "best_of": "only `n` answers are generated",
    "add_special_tokens": "the chat template, or the tokenizer's own rule, decides",
    "tools": "use the chat API: a completion has no chat template",
    "tool_choice": "use the chat API: a completion has no chat template",
    "reasoning_effort": "responses have `reasoning.effort`; a completion has no chat template",
    "messages": _CHAT,
    "input_type": "not built: put the instruction into the text",
    "task": "not built: put the instruction into the text",
    "instruction": "put the instruction into the text",
    "normalize": "embeddings are always normalized",
    "stream": "an embedding is not streamed",
    "specprefill": "embeddings and scores need the whole text",
    "specprefill_keep_pct": "embeddings and scores need the whole text",
    "prompt": "not built: the server stores no prompt templates",
    "context_management": "not built; `truncation` drops the oldest steps",
    "moderation": "there is no moderation model",
    "service_tier": "there are no tiers; `priority` orders requests",
    "n": "a response has one answer; use chat",
    "max_tokens": "the field is `max_output_tokens`",
    "max_completion_tokens": "the field is `max_output_tokens`",
    "response_format": "the field is `text.format`",
    "logprobs": "responses: ask for it in `include`; Ollama: use chat",
    "top_logprobs": "use chat",
    "echo": "chat and completions only",
    "prompt_logprobs": "chat and completions only",
    "container": "the server runs no code",
    "mcp_servers": "the server runs no tools",
    "speed": "there is one speed",
    "inference_geo": "the model runs where the server is",
    "compaction": "not built: it would change the prompt and invalidate the prefix cache",
    "thread": "not built: send the whole conversation",
    "template": "the template is set at start (`--chat-template`)",
    "context": "send the history in `messages`",
    "truncate": "a prompt that is too long is refused, not cut",
    "shift": "a full context ends the answer",
    "width": "the server generates no images",
    "height": "the server generates no images",
    "steps": "the server generates no images",
}


def fields_table(model: type[BaseModel], *, without: type[BaseModel] | None = None) -> str:
    schema = body_schema(model)["requestBody"]["content"]["application/json"]["schema"]
    skipped = set() if without is None else set(without.model_fields)
    required = schema.get("required", ())
    lines = ["| field | type | |", "|---|---|---|"]
    for name, shape in schema["properties"].items():
        if name in skipped:
            continue
        kind = _kind(shape) + (", required" if name in required else "")
        lines.append(f"| `{name}` | {kind} | {shape['description']} |")
    return "\n".join(lines)


def refused() -> dict[str, dict[str, tuple[Any, ...]]]:
    """By field: the endpoints that refuse it, each with the values that it accepts."""
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for endpoint, (known, own) in ENDPOINTS.items():
        honoured = known | {*GUIDED, *FORMATS}
        for name, harmless in {**UNSUPPORTED, **own}.items():
            if name in own or name not in honoured:
                found.setdefault(name, {})[endpoint] = harmless
    return found


def refused_table() -> str:
    lines = ["| field | refused by | accepted values | why |", "|---|---|---|---|"]
    for name, endpoints in sorted(refused().items()):
        where = "all" if len(endpoints) == len(ENDPOINTS) else ", ".join(endpoints)
        values = [_value(value) for value in next(iter(endpoints.values())) if value is not None]
        lines.append(f"| `{name}` | {where} | {', '.join(values)} | {REASONS[name]} |")
    for name, harmless in ollama.UNSUPPORTED_OPTIONS.items():
        shown = ", ".join(_value(value) for value in harmless if value is not None)
        reason = REASONS.get(name, "not built: penalties apply to every token")
        lines.append(f"| `options.{name}` | Ollama | {shown} | {reason} |")
    return "\n".join(lines)


def harmless_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(HARMLESS))


def paths_table() -> str:
    lines = ["| path | the 404 says |", "|---|---|"]
    lines += [f"| `/v1/{name}` | {reason} |" for name, reason in sorted(NOT_IMPLEMENTED.items())]
    return "\n".join(lines)


def _value(value: Any) -> str:
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    return f"`{shown or str(value)}`".replace("'", '"')


def _kind(shape: Mapping[str, Any]) -> str:
    """A JSON schema in one or two words."""
    if "anyOf" in shape:
        kinds = [_kind(inner) for inner in shape["anyOf"] if inner.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in shape or "const" in shape:
        return " or ".join(f"`{value}`" for value in shape.get("enum", [shape.get("const")]))
    if "$ref" in shape:
        return "object"
    kind = shape.get("type")
    if kind == "array":
        return f"list of {_plural(_kind(shape.get('items', {})))}"
    if kind in ("integer", "number") and ("minimum" in shape or "maximum" in shape):
        low, high = shape.get("minimum"), shape.get("maximum")
        if low is not None and high is not None and -1e6 < low < high < 1e6:
            return f"{kind}, {low} to {high}"
        return kind if low is None or low < -1e6 else f"{kind}, at least {low}"
    return {"string": "text", None: "any"}.get(kind, str(kind))


def _plural(kind: str) -> str:
    return {"text": "texts", "any": "values", "integer": "integers", "object": "objects"}.get(kind, kind)
