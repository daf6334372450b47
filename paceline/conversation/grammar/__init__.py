"""Structured output: what a request specifies (`spec`), its limits, and llguidance's grammars (`compile`)."""

from paceline.conversation.grammar.compile import Compiled, Grammars
from paceline.conversation.grammar.spec import GrammarSpec, Tool, calls_or_text_spec, tool_call_spec

__all__ = ["Compiled", "GrammarSpec", "Grammars", "Tool", "calls_or_text_spec", "tool_call_spec"]
