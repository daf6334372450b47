"""Where templates run: jinja2's sandbox with what chat templates expect, and limits on time and size.

A template comes with a checkpoint that anybody may have written, and runs on a caller's thread, which cannot be
stopped from outside. So it counts while it runs: every turn of a loop, every call and every join. What is not
bounded: one operation of Python's own on values below the limits (a sort, a search), and what a template keeps
in variables beyond `MOST_JOINED` characters in all.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from threading import local
from typing import Any

from jinja2 import nodes
from jinja2.environment import Template
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

SECONDS = 1.0  # of the thread's own time: a busy machine makes nobody's template fail
LARGEST = 32_000_000  # characters of a rendering, and of any one text in it
MOST_JOINED = 16 * LARGEST  # characters that a rendering may put together on its way
LONGEST_LIST = 1_000_000
LARGEST_BITS = 10_000  # of a number

# Widths that are huge or not to be seen, in a format for `%` and in one for `format`.
_PADDED = re.compile(r"%[-+ #0]*(?:\([^)]*\))?[-+ #0]*(?:\d*\.)?(?:\*|\d{7})|\{[^{}]*(?:[^{}]\{|\d{7})")
_BOUNDED_FILTERS = ("batch", "center", "format", "indent", "slice", "truncate", "wordwrap")


class LimitExceeded(Exception):
    """A rendering took too long or grew too large."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Thread-safe. `prepare` once a template, `render` once a conversation."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        self._running = local()
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=self._said
        )
        del self.globals["lipsum"]
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
            "dict": _Dict(),
            "namespace": _Namespace,
        }
        self.filters |= {name: self._bounded(self.filters[name]) for name in _BOUNDED_FILTERS}
        self.filters |= {"tojson": self._bounded(_tojson), "replace": self._replace, "join": self._join}

    def prepare(self, source: str) -> Template:
        """Raises `TemplateError` or `RecursionError` where the source is no template."""
        tree = _Counting(self).visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def render(self, template: Template, variables: Mapping[str, Any]) -> str:
        """Raises `LimitExceeded`, and whatever the template makes of its variables."""
        budget = self._running.budget = _Budget()
        try:
            pieces = []
            for piece in template.generate(dict(variables)):
                budget.step()
                budget.say(len(piece))
                pieces.append(piece)
            return "".join(pieces)
        finally:
            self._running.budget = None

    # -- what templates do, counted

    @property
    def _budget(self) -> _Budget:
        """Of the rendering on this thread. Jinja also computes constants, when it compiles: they count for nothing."""
        return getattr(self._running, "budget", None) or _Budget()

    def counted(self, items: Iterable[Any], weight: int) -> Iterator[Any]:
        """A loop's items; `weight` is what a turn of the loop writes at most of the template's own text."""
        budget = self._budget
        for item in items:
            budget.step()
            budget.make(weight)
            yield item

    def joined(self, *values: Any) -> str:
        """The template's `~`."""
        texts = [str(value) for value in values]
        self._budget.make(sum(map(len, texts)))
        return "".join(texts)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = self._budget
        budget.step()
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", None)
        if isinstance(owner, str) and name == "replace" and len(args) in (2, 3):
            return self._replace(owner, *args)
        if isinstance(owner, str) and name == "join" and len(args) == 1:
            return self._join(args[0], owner)
        if isinstance(owner, str):
            _check_widths(args, kwargs)
        result = super().call(context, function, *args, **kwargs)
        if isinstance(result, str):
            budget.make(len(result))
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "+":
                self._budget.make(_length(left) + _length(right))
                _check_list(len(left) + len(right) if isinstance(left, list) and isinstance(right, list) else 0)
            case "*":
                self._check_product(left, right)
            case "**":
                _check_bits(_bits(left) * right if isinstance(right, int) else 0)
            case "%" if isinstance(left, str):
                _check_format(left)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_format(value.__self__)
        return wrapped

    def _said(self, value: Any) -> Any:
        if isinstance(value, str):
            self._budget.make(len(value))
        return value

    def _check_product(self, left: Any, right: Any) -> None:
        for value, times in ((left, right), (right, left)):
            if isinstance(times, int):
                self._budget.make(_length(value) * max(times, 0))
                _check_list(len(value) * times if isinstance(value, list | tuple) else 0)
        _check_bits(_bits(left) + _bits(right))

    # -- filters

    def _replace(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        text, old, new = str(value), str(old), str(new)
        times = text.count(old) if count is None or count < 0 else min(count, text.count(old))
        self._budget.make(len(text) + times * max(len(new) - len(old), 0))
        return text.replace(old, new, times)

    def _join(self, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
        items = value if attribute is None else map(make_attrgetter(self, attribute), value)
        texts = [str(item) for item in items]
        self._budget.make(sum(map(len, texts)) + len(str(d)) * len(texts))
        return str(d).join(texts)

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def bounded(value: Any, *args: Any, **kwargs: Any) -> Any:
            if function.__name__ == "do_format":
                _check_format(str(value))
            else:
                _check_widths(args, kwargs)
            result = function(value, *args, **kwargs)
            if isinstance(result, str):
                self._budget.make(len(result))
            return result

        return bounded


class _Budget:
    """What one rendering has used up."""

    CHECK_EVERY = 64  # steps
    LARGE = 100_000  # characters, which take as long as many steps

    def __init__(self) -> None:
        self._deadline = time.thread_time() + SECONDS
        self._steps = self._said = self._made = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps % self.CHECK_EVERY == 0:
            self._check_time()

    def make(self, size: int) -> None:
        """Called before a text of this size is made, where that can be known."""
        self._made += size
        if size > LARGEST or self._made > MOST_JOINED:
            raise LimitExceeded(f"it puts together more than {LARGEST} characters")
        if size > self.LARGE:
            self._check_time()

    def say(self, size: int) -> None:
        self._said += size
        if self._said > LARGEST:
            raise LimitExceeded(f"it writes more than {LARGEST} characters")

    def _check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise LimitExceeded(f"it takes longer than {SECONDS:g} s")


class _Counting(NodeTransformer):
    """Puts the counting into a template: around what its loops run over, and in place of `~`."""

    def __init__(self, environment: Sandbox) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        weight = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        weight += sum(len(const.value) for const in node.find_all(nodes.Const) if isinstance(const.value, str))
        node.iter = self._call("counted", [node.iter, nodes.Const(weight)], node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._call("joined", node.nodes, node.lineno)

    def _call(self, name: str, args: Sequence[nodes.Node], line: int) -> nodes.Call:
        call = nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)
        call.set_lineno(line)
        call.set_environment(self._environment)
        return call


class _Generation(Extension):
    """`{% generation %}` marks what the assistant says, for training; here it is only its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _Dict:
    """`dict` without its attributes, which lead to the interpreter's insides; as transformers has it."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)


class _Namespace(Namespace):
    """A namespace that takes no underscored names; as transformers has it."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        names = dict(*rest, **kwargs)
        for name in names:
            _check_name(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no name that begins with an underscore, as {name!r} does")


def _raise_exception(message: Any = "") -> None:
    raise TemplateError(str(message))


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own escapes what HTML would misread."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _check_widths(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    if any(isinstance(value, int) and value > LONGEST_LIST for value in (*args, *kwargs.values())):
        raise LimitExceeded(f"it asks for a width or a count of more than {LONGEST_LIST}")


def _check_format(text: str) -> None:
    if _PADDED.search(text):
        raise LimitExceeded("it formats with a width that is too large or not constant")


def _check_list(length: int) -> None:
    if length > LONGEST_LIST:
        raise LimitExceeded(f"it makes a list of more than {LONGEST_LIST} items")


def _check_bits(bits: int) -> None:
    if bits > LARGEST_BITS:
        raise LimitExceeded("it computes a number that is too large")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0
