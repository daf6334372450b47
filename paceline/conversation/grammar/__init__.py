"""Structured output: what a request specifies (`spec`), its limits, and llguidance's grammars (`compile`)."""

from paceline.conversation.grammar.compile import Compiled, Grammars
from paceline.conversation.grammar.spec import GrammarSpec, Tool, tool_call_spec

__all__ = ["Compiled", "GrammarSpec", "Grammars", "Tool", "tool_call_spec"]
