"""Where templates run: jinja2's sandbox with the functions of chat templates, and limits on time and size.

jinja2's ImmutableSandboxedEnvironment, which transformers and mlx-lm use as it is, keeps a template away from the
interpreter, but bounds neither time nor memory. A request brings a template only with
`--trust-request-chat-template`. But the checkpoint's template may come from anybody, and a request chooses what an
honest one runs over: with thousands of messages, a template that joins its text in a loop takes the square of their
length, on a thread that cannot be stopped from outside. So a rendering counts its loop iterations, calls and joins
while it runs.

Not bounded: one operation of Python's on values below the limits (a sort, a search), and what a template keeps in
variables within `MAX_JOINED` characters.
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

SECONDS = 1.0  # of the thread's CPU time, so that a busy machine makes no template fail
LARGEST = 32_000_000  # characters of a rendering, and of any text in it
MAX_JOINED = 16 * LARGEST  # characters of all texts that a rendering makes on its way
LONGEST_LIST = 1_000_000
LARGEST_BITS = 10_000  # of a number

# Widths that are huge or not constant, in formats for `%` and for `format`.
_PADDED = re.compile(r"%[-+ #0]*(?:\([^)]*\))?[-+ #0]*(?:\d*\.)?(?:\*|\d{7})|\{[^{}]*(?:[^{}]\{|\d{7})")
_BOUNDED_FILTERS = ("batch", "center", "format", "indent", "slice", "truncate", "wordwrap")


class LimitExceeded(Exception):
    """A rendering took too long or grew too large."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Thread-safe. `prepare` once per template, `render` once per conversation."""

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
        """Raises `TemplateError` or `RecursionError` if the source is no template."""
        tree = _Counting(self).visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def render(self, template: Template, variables: Mapping[str, Any]) -> str:
        """Raises `LimitExceeded`, and anything that the template raises."""
        budget = self._running.budget = _Budget()
        try:
            pieces, size = [], 0
            for piece in template.generate(dict(variables)):
                budget.step()
                pieces.append(piece)
                size += len(piece)
                _stop_if(size > LARGEST, f"it writes more than {LARGEST} characters")
            return "".join(pieces)
        finally:
            self._running.budget = None

    # -- what templates do, counted

    @property
    def _budget(self) -> _Budget:
        """The budget of the rendering on this thread. Constants that Jinja computes when it compiles have a new one."""
        return getattr(self._running, "budget", None) or _Budget()

    def counted(self, items: Iterable[Any], weight: int) -> Iterator[Any]:
        """A loop's items. `weight` is the most that an iteration writes of the template's own text."""
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
    """What one rendering has used."""

    CHECK_EVERY = 64  # steps
    LARGE = 100_000  # characters, which take as long as many steps

    def __init__(self) -> None:
        self._deadline = time.thread_time() + SECONDS
        self._steps = self._made = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps % self.CHECK_EVERY == 0:
            self._check_time()

    def make(self, size: int) -> None:
        """Called before a text of this size is made, if the size can be known."""
        self._made += size
        if size > LARGEST or self._made > MAX_JOINED:
            raise LimitExceeded(f"it puts together more than {LARGEST} characters")
        if size > self.LARGE:
            self._check_time()

    def _check_time(self) -> None:
        _stop_if(time.thread_time() > self._deadline, f"it takes longer than {SECONDS:g} s")


class _Counting(NodeTransformer):
    """Adds the counting to a template: around the iterables of its loops, and in place of `~`."""

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
    """`{% generation %}` marks the assistant's text for training. Here only its content counts."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _Dict:
    """`dict` without its attributes, which lead to the interpreter; as in transformers."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)


class _Namespace(Namespace):
    """A namespace that takes no underscored names; as in transformers."""

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
    """Without the escapes for HTML of Jinja's own."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _stop_if(exceeded: bool, why: str) -> None:
    if exceeded:
        raise LimitExceeded(why)


def _check_widths(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    widths = [value for value in (*args, *kwargs.values()) if isinstance(value, int)]
    _stop_if(max(widths, default=0) > LONGEST_LIST, f"it asks for a width or a count of more than {LONGEST_LIST}")


def _check_format(text: str) -> None:
    _stop_if(bool(_PADDED.search(text)), "it formats with a width that is too large or not constant")


def _check_list(length: int) -> None:
    _stop_if(length > LONGEST_LIST, f"it makes a list of more than {LONGEST_LIST} items")


def _check_bits(bits: int) -> None:
    _stop_if(bits > LARGEST_BITS, "it computes a number that is too large")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0
