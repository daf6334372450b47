"""Structured output in the common batch: what ended by itself fits its schema, and nobody else notices."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import batched
from pathlib import Path

import pytest

from paceline.conversation.grammar import GrammarSpec, Grammars, Tool, tool_call_spec
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine.request import Sampling, Speculation
from tests.conversation.grammar.schemas import complaint, gathered
from tests.engine.stepper import Heard, Stepper, loaded

Tiny = Callable[..., Path]
SCHEMAS = 300
