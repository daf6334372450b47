from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from jinja2.exceptions import SecurityError, TemplateError

from paceline.conversation.sandbox import LARGEST, LimitExceeded, Sandbox

LONG = "a" * 1000
GROWING = "{% set ns = namespace(x='aaaaaaaaaa') %}{% for a in range(99) %}"


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox()


def render(sandbox: Sandbox, source: str, **variables: Any) -> str:
    return sandbox.render(sandbox.prepare(source), variables)


# -- what chat templates expect


@pytest.mark.parametrize(
    "source, expected",
    [
        ("{% for x in [1, 2] %}\n  {% if x %}\n{{ x }}\n  {% endif %}\n{% endfor %}", "1\n2\n"),
        ("{% for x in 'abc' %}{% if x == 'a' %}{% continue %}{% endif %}{{ x }}{% break %}{% endfor %}", "b"),
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{{ {'b': 1, 'a': [2]} | tojson(indent=1, sort_keys=true) }}", '{\n "a": [\n  2\n ],\n "b": 1\n}'),
        ("{{ {'b': 1} | tojson(separators=(',', ':')) }}", '{"b":1}'),
        ("{% generation %}a{{ 1 }}{% endgeneration %}", "a1"),
        ("{% set ns = namespace(x=1) %}{% for a in 'ab' %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}", "3"),
        ("{% for a in 'xy' %}{{ loop.index ~ loop.length ~ loop.last ~ loop.previtem }}{% endfor %}", "12False22Truex"),
        ("{% for a in nothing %}x{% else %}none{% endfor %}{{ nothing }}", "none"),
        ("{% for a in [[1, [2]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}", "12"),
        ("{{ 'a' ~ 1 ~ nothing ~ none }}", "a1None"),
        ("{{ ['a', 'b'] | join(', ') }}{{ [{'x': 1}, {'x': 2}] | join('-', 'x') }}{{ '+'.join('ab') }}", "a, b1-2a+b"),
        ("{{ 'aXaX' | replace('X', 'y') }}{{ 'aXaX'.replace('X', '', 1) }}", "ayayaaX"),
        ("{{ 'a\nb' | indent(2) }}{{ '%s-%d' % ('a', 1) }}{{ '{}'.format(1) }}{{ '%s' | format(2) }}", "a\n  ba-112"),
        ("{{ '* 12345678 %s %5d %%' % ('a', 1) }}", "* 12345678 a     1 %"),
        ("{{ '{{}} * {a} {b:3}'.format(a=1, b=2) }}", "{} * 1   2"),
        ("{% macro f(x) %}{{ x | tojson }}{% endmacro %}{{ f(9000000) }}", "9000000"),
        ("{{ '%d' | format(9000000) }}", "9000000"),
        ("{{ strftime_now('%Y') | length }}{{ dict(a=1).a }}", "41"),
    ],
)  # fmt: skip
def test_what_chat_templates_use_is_there(sandbox: Sandbox, source: str, expected: str) -> None:
    assert render(sandbox, source) == expected


def test_a_template_may_raise(sandbox: Sandbox) -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        render(sandbox, "{{ raise_exception('roles must alternate') }}")


# -- limits


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'aaaaaaaaaaaaaaaa' }}{% endfor %}{% endfor %}",
        "{% set x %}{% for a in range(999) %}{% for b in range(999) %}" + LONG + "{% endfor %}{% endfor %}{% endset %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        GROWING + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        GROWING + "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        GROWING + "{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}{{ ns.x }}",
        GROWING + "{% set ns.x = ns.x | replace('a', ns.x) %}{% endfor %}{{ ns.x }}",
        GROWING + "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}{{ ns.x }}",
        GROWING + "{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=9) %}{% for a in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{{ 'a' * 10 ** 10 }}",
        "{{ [1] * 10 ** 8 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ ('a' * 1000000) | list | join('a' * 1000000) }}",
        "{{ ('a' * 1000000).join(('a' * 1000000) | list) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '%.9999999f' % 1 }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ 'a'.center(10 ** 9) }}",
        "{{ 'a' | center(10 ** 9) }}",
        "{{ 'a\nb' | indent(10 ** 9) }}",
        "{{ [1] | tojson(indent=10 ** 9) }}",
    ],
)  # fmt: skip
def test_a_template_that_would_take_for_ever_or_all_memory_is_stopped(sandbox: Sandbox, source: str) -> None:
    template = sandbox.prepare(source)
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            sandbox.render(template, {})
        assert tracemalloc.get_traced_memory()[1] < 512 << 20
    finally:
        tracemalloc.stop()


def test_endless_recursion_is_an_error_and_not_a_crash(sandbox: Sandbox) -> None:
    with pytest.raises(RecursionError):
        render(sandbox, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


def test_a_long_conversation_is_within_the_limits(sandbox: Sandbox) -> None:
    source = "{% set ns = namespace(x='') %}{% for m in messages %}{% set ns.x = ns.x + m %}{{ m }}{% endfor %}"
    messages = ["word " * 400] * 500
    assert render(sandbox, source, messages=messages) == "".join(messages)
    with pytest.raises(LimitExceeded, match=str(LARGEST)):
        render(sandbox, "{% for m in messages %}{{ m }}{% endfor %}", messages=["a" * 1_000_000] * 40)


def test_renderings_side_by_side_have_a_budget_each(sandbox: Sandbox) -> None:
    template = sandbox.prepare("{% for m in messages %}{{ m }}{% endfor %}")
    with ThreadPoolExecutor(4) as pool:
        sizes = pool.map(lambda _: len(sandbox.render(template, {"messages": ["a" * 1_000_000] * 20})), range(8))
        assert set(sizes) == {20_000_000}


# -- the sandbox


@pytest.mark.parametrize(
    "source, error",
    [
        ("{{ messages.append(1) }}", SecurityError),
        ("{{ messages.__class__.__mro__ }}", SecurityError),
        ("{{ namespace(__class__=1) }}", SecurityError),
        ("{% set ns = namespace() %}{% set ns._x = 1 %}", SecurityError),
        ("{% include 'x' %}", TypeError),
        ("{{ lipsum() }}", TemplateError),
    ],
)
def test_a_template_gets_at_nothing_but_its_variables(sandbox: Sandbox, source: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        render(sandbox, source, messages=[])
