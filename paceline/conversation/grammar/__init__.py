"""Structured output: what an answer must look like (`spec`), made ready (`compile`), followed by a row (`matcher`)."""

from paceline.conversation.grammar.compile import Compiled, Grammars
from paceline.conversation.grammar.spec import GrammarSpec, Tool, tool_call_spec

__all__ = ["Compiled", "GrammarSpec", "Grammars", "Tool", "tool_call_spec"]
