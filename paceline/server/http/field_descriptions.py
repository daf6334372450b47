"""What the fields of requests mean, for /openapi.json and docs/reference-fields.md.

A field has one meaning in all APIs unless an entry with its model's name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DESCRIPTIONS: Mapping[str, str] = {
    # -- sampling
    "model": "A served name, or that of a LoRA adapter. Default: the served model.",
    "lora_name": "The adapter's name, which requests give as their model.",
    "lora_path": "The adapter's folder on the server's machine, from the root on.",
    "temperature": "Sampling temperature; 0 is greedy. Default: the model's own, or 1.",
    "top_p": "Nucleus sampling. Default: the model's own, or 1 (off).",
    "top_k": "Sample from this many most likely tokens; 0 and -1: off. Default: the model's own, or off.",
    "min_p": "Drop tokens below this share of the best probability. Default: the model's own, or 0 (off).",
    "repetition_penalty": "Penalty on tokens of the prompt and the answer. Default: the model's own, or 1 (off).",
    "presence_penalty": "Penalty on tokens that the answer already has. Default: 0.",
    "frequency_penalty": "Penalty by how often the answer already has a token. Default: 0.",
    "logit_bias": "Added to logits, by token id (as text).",
    "seed": "Seed of this request's sampling. The same seed gives the same text in any batch.",
    "stop": "A text, or a list of texts, that ends the answer.",
    "stop_token_ids": "Token ids that end the answer.",
    "min_tokens": "The answer does not end before this many tokens. Default: 0.",
    "max_tokens": "Longest answer, in tokens; more than the context is a 400. Default: as far as the context goes.",
    "CompletionBody.max_tokens": "Longest answer; above the context: a 400. 0 with `echo`: scores only. Default: 16.",
    "ignore_eos": "Do not stop at the model's end token.",
    "skip_special_tokens": "Leave special tokens out of the text. Default: true.",
    "typical_p": "Locally typical sampling. Default: 1 (off).",
    "top_n_sigma": "Keep tokens within this many standard deviations of the best logit; 0 and less: off.",
    "xtc_probability": "XTC: probability that it is applied at a token. Default: 0 (off).",
    "xtc_threshold": "XTC: of the tokens at or above this probability, only the least likely is kept. Default: 0.1.",
    "dry_multiplier": "DRY: strength of the penalty. Default: 0 (off).",
    "dry_base": "DRY: the penalty is multiplier * base ^ (length - allowed length). Default: 1.75.",
    "dry_allowed_length": "DRY: tokens that may be repeated without a penalty. Default: 2.",
    "dry_penalty_last_n": "DRY: tokens that are looked back; -1: all. Default: -1.",
    "dry_sequence_breakers": 'DRY: texts that end a repetition. Default: newline, `:`, `"`, `*`.',
    "allowed_token_ids": "Only these tokens are generated.",
    "bad_words": "These words are never generated; at most 64.",
    "repeat_penalty": "llama.cpp's and Ollama's name of `repetition_penalty`.",
    "repeat_last_n": "Window of the penalty. With a penalty it must be -1: the whole prompt and answer.",
    "Options.repeat_last_n": "0: no penalties; -1: over everything. A window is refused if a penalty is set.",
    "n_predict": "llama.cpp's name of `max_tokens`, which wins over it; -1: as far as the context goes.",
    "include_stop_str_in_output": "Keep the stop string at the end of the text.",
    "logprobs": "Return the log probabilities of the answer's tokens.",
    "CompletionBody.logprobs": "Return log probabilities, with this many most likely tokens at each position.",
    "top_logprobs": "This many most likely tokens at each position. Chat: needs `logprobs`.",
    "prompt_logprobs": "Log probabilities of the prompt's tokens, with this many most likely ones, as in vLLM.",
    "logprob_token_ids": "With `logprobs`: the log probabilities of these token ids, not of the most likely ones.",
    "return_tokens_as_token_ids": "Name every token in `logprobs` as `token_id:5`.",
    "return_token_ids": "Return the token ids of the answer and of the prompt.",
    "n": "Number of answers (choices). Default: 1.",
    "best_of": "Must be equal to `n`.",
    # -- engine
    "speculation": '`"off"`, `"auto"`, or a draft length. Default: the server\'s setting.',
    "speculation_method": 'Who drafts: `"mtp"`, `"lookup"`, `"grammar"` or `"draft_model"`. Default: whoever pays.',
    "specprefill": "Prefill a long prompt sparsely, or (false) never. Default: the server's setting.",
    "specprefill_keep_pct": "Share of the prompt that sparse prefill keeps, 0.1 to 1. Default: the server's setting.",
    "cache": "false: this request neither uses nor stores cached prefixes.",
    "cache_prompt": "llama.cpp's name of `cache`.",
    "cache_salt": "Share cached prefixes only with requests that have the same salt.",
    "priority": "Lower is admitted first, with the scheduler policy `priority`. Default: 0.",
    "user": "The user whose share the request counts against, with the scheduler policy `fair`.",
    "stream": "Stream the answer as it is generated.",
    "AnswerBody.stream": "Stream the answer as lines of JSON. Default: true.",
    "stream_options": "`include_usage`: usage in the last chunk; `continuous_usage_stats`: in every chunk.",
    # -- prompt
    "messages": "The conversation.",
    "prompt": "Text, a list of token ids, or a list of either.",
    "GenerateBody.prompt": "One question, in the model's chat template.",
    "EmbeddingsBody.prompt": "The text.",
    "TokenizeBody.prompt": "A text; give this or `messages`.",
    "TokenizeBody.messages": "A conversation, counted with its `tools` and the chat template.",
    "suffix": "Text after the gap: fill in the middle, if the model's vocabulary has the tokens for it.",
    "echo": "The answer begins with the prompt.",
    "ChatBody.echo": "The answer begins with the last message, if that is the assistant's.",
    "truncate_prompt_tokens": "Take only this many of the prompt's last tokens; -1: as many as fit.",
    "chat_template": "A template for this request. Needs `--trust-request-chat-template`.",
    "chat_template_kwargs": "Variables for the chat template.",
    "add_generation_prompt": "false: the prompt ends with the last message.",
    "continue_final_message": "Continue the last message, which must be the assistant's.",
    "add_special_tokens": "Add the tokenizer's special tokens. Default: true.",
    "return_token_strs": "Return each token's text as well.",
    "tokens": "Token ids.",
    "service_tier": "Accepted. There is one tier.",
    "prediction": "A hint about the answer. It is accepted, and has no effect.",
    # -- tools, formats, reasoning
    "tools": "Functions that the model may call.",
    "tool_choice": '`"auto"`, `"none"`, `"required"`, a named function, or `allowed_tools`.',
    "CountBody.tool_choice": "`auto`, `any`, `tool` or `none`; `disable_parallel_tool_use`.",
    "parallel_tool_calls": "false: the answer ends before a second call.",
    "response_format": "`text`, `json_object` (also with a `schema`) or `json_schema`; enforced by a grammar.",
    "structured_outputs": "vLLM's: `json`, `regex`, `choice`, `grammar` (Lark or GBNF) or `json_object`.",
    "grammar": "llama.cpp's: a GBNF grammar for the answer.",
    "json_schema": "llama.cpp's: a JSON schema for the answer.",
    "format": '`"json"`, or a JSON schema; enforced by a grammar.',
    "reasoning_effort": "`none`, `minimal`, `low`, `medium`, `high` or `xhigh`: a template level, or a budget.",
    "enable_thinking": "Passed to the chat template.",
    "thinking_token_budget": "Reasoning tokens, after which the end of the reasoning is forced; -1: no limit.",
    "thinking_budget": "Another name of `thinking_token_budget`.",
    "include_reasoning": "false: reasoning is generated, but not returned.",
    "reasoning": "`effort`, `enabled`, `max_tokens`, `exclude`: aliases of the fields above.",
    "thinking": "`type` and `budget_tokens`: aliases of `enable_thinking` and `thinking_token_budget`.",
    "CountBody.thinking": "`type`: `enabled`, `disabled` or `adaptive`; `budget_tokens`; `display`.",
    "verbosity": "Passed to a chat template that supports it.",
    "think": "true, false, or `low`, `medium`, `high`. Default: the template decides.",
    # -- chat, responses, messages
    "max_completion_tokens": "OpenAI's newer name of `max_tokens`; it wins over that.",
    "max_output_tokens": "Longest answer, in tokens; more than the context is a 400. Default: as far as it goes.",
    "input": "Text, a list of token ids, or a list of either; at most 2,048.",
    "ResponsesBody.input": "Text, or a list of items.",
    "EmbedBody.input": "A text, or a list of texts.",
    "instructions": "A system message that comes first. It is not carried over by `previous_response_id`.",
    "previous_response_id": "A stored response to continue.",
    "store": "false: the response is not stored. Default: true.",
    "background": "Return at once, and run without the client. Needs `store`.",
    "conversation": "The id of a conversation, or an object with one.",
    "include": "`message.output_text.logprobs`, `reasoning.encrypted_content`; others have no effect.",
    "max_tool_calls": "Accepted. It counts tools that the server runs, and there are none.",
    "metadata": "Returned with the response.",
    "MessagesBody.metadata": "`user_id`: the user whose share the request counts against.",
    "text": "`format`: the answer's format; `verbosity`.",
    "ResponsesBody.reasoning": "`effort`, `summary`, `context`.",
    "ResponsesBody.top_logprobs": "This many most likely tokens at each position.",
    "truncation": "`auto`: drop the oldest steps of a conversation that is too long. Default: `disabled`.",
    "safety_identifier": "Accepted and returned.",
    "prompt_cache_key": "Accepted and returned. It is not a `cache_salt`.",
    "system": "The system prompt.",
    "MessagesBody.max_tokens": "Longest answer, in tokens. More than the context means the whole context.",
    "stop_sequences": "Texts that end the answer.",
    "output_config": "`format`: a JSON schema for the answer; `effort`.",
    "output_format": "The older name of `output_config.format`.",
    "context_management": "Edits that clear old content are accepted and not applied; others are refused.",
    # -- embeddings
    "encoding_format": "`float` or `base64` (float32, little-endian). Default: `float`.",
    "dimensions": "Only the first so many numbers, normalized again.",
    "text_1": "One text, or as many as in `text_2`.",
    "text_2": "The texts to compare with.",
    # -- Ollama
    "options": "Sampling options, below.",
    "keep_alive": "Accepted. The model is always loaded.",
    "images": "Images, in base64.",
    "raw": "The prompt without the chat template.",
    "truncate": "Cut a text that is longer than the context. Default: true.",
    "num_predict": "Longest answer, in tokens; 0, less, and more than the context: as far as the context goes.",
    "num_ctx": "Accepted up to the server's context; more is refused.",
    "Options.seed": "Seed of this request's sampling; -1: none.",
    "Options.top_k": "Sample from this many most likely tokens; 0 and less: off.",
    "name": "The older name of `model`.",
}


def describe(model: str, schema: dict[str, Any], *bases: str) -> None:
    """Adds descriptions to the properties of a model's JSON schema, in place. `bases`: its base classes, nearest
    first."""
    for field, shape in schema.get("properties", {}).items():
        description = description_of(field, model, *bases)
        if description is not None:
            shape.setdefault("description", description)


def description_of(field: str, *models: str) -> str | None:
    named = (f"{model}.{field}" for model in models)
    return next((DESCRIPTIONS[name] for name in (*named, field) if name in DESCRIPTIONS), None)
