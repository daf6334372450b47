"""vLLM's fields about the prompt: how it ends, by which template it is written, and what of it the answer tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.errors import InvalidRequest, Unsupported
from paceline.server.openai.logprobs import LEAST, token_label
from paceline.server.openai.schema import ChatBody, SamplingFields
from paceline.server.state import AppState, Tokenizer
from paceline.types import PromptInfo, TokenLogprob


def prompt_options(state: AppState, body: ChatBody) -> dict[str, Any]:
    """Options of the prompt beside those of the template."""
    options: dict[str, Any] = {}
    _refuse_prefixes(body.messages)
    if body.continue_final_message:
        if body.add_generation_prompt:
            raise InvalidRequest.at("continue_final_message", "and add_generation_prompt cannot both be true.")
        options |= {"continue_final_message": True, "add_generation_prompt": False}
    elif body.add_generation_prompt is False:
        options["add_generation_prompt"] = False
    if body.chat_template is not None:
        if not state.settings.trust_request_chat_template:
            raise Unsupported.at(
                "chat_template", "is not taken from requests here: start the server with --trust-request-chat-template."
            )
        options["chat_template"] = body.chat_template
    return options


def _refuse_prefixes(messages: Sequence[Any]) -> None:
    """Others' ways to ask that a message be continued: a new answer would not be what was asked for."""
    for index, message in enumerate(messages):
        for name in ("prefix", "partial"):
            if isinstance(message, Mapping) and message.get(name):
                raise Unsupported.at(f"messages[{index}].{name}", "is not read here: use continue_final_message.")


def echoed(messages: Sequence[Any]) -> str:
    """The last message's text where it is the assistant's: the answer begins with it."""
    last = messages[-1] if messages else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return ""
    content = last.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def tells_of_prompt(body: SamplingFields) -> bool:
    return bool(body.return_token_ids) or body.prompt_logprobs is not None


def prompt_facts(tokenizer: Tokenizer, prompt: PromptInfo, body: SamplingFields) -> dict[str, Any]:
    """What the answer says of the prompt, where it was asked to."""
    facts: dict[str, Any] = {}
    if body.return_token_ids:
        facts["prompt_token_ids"] = list(prompt.token_ids)
    if body.prompt_logprobs is not None:
        most = body.prompt_logprobs
        facts["prompt_logprobs"] = [_scores(tokenizer, entry, most) for entry in prompt.logprobs or ()]
    return facts


def _scores(tokenizer: Tokenizer, entry: TokenLogprob | None, most: int) -> dict[str, Any] | None:
    """By token id, most likely first; the prompt's own token is always there. A rank is known of the likely ones."""
    if entry is None:
        return None
    ranks = {token: place + 1 for place, (token, _) in enumerate(entry.top)}
    shown = dict((*entry.top[:most], (entry.token_id, entry.logprob)))
    return {
        str(token): {
            "logprob": max(logprob, LEAST),
            "rank": ranks.get(token),
            "decoded_token": token_label(tokenizer, token),
        }
        for token, logprob in shown.items()
    }
