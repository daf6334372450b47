"""The reader of the docs (`tests/documents.py`) on a small page of its own."""

from __future__ import annotations

from tests.documents import anchors, blocks, commands, inline_code, links, slug

PAGE = """\
# A *page*, with `code` & more
[one](a.md#x) and `[not](this.md)` ![two](b.svg) [a [nested] text](c.md "title")

## Twice
## Twice

<!-- [three](comment.md) -->
```
A=1 paceline serve MODEL \\
  --port 9000   # why
# [four](block.md)
```

```console
$ make test ARGS='-k docs' && echo done
output
$ python - <<'END'
print(1)
END
```
"""


def test_links_are_those_of_the_text() -> None:
    assert links("page.md", PAGE) == ["a.md#x", "b.svg", "c.md"]


def test_anchors_are_named_as_github_names_them() -> None:
    assert anchors("page.md", PAGE) == {"a-page-with-code--more", "twice", "twice-1"}
    assert slug("`paceline cache ls`, `paceline cache clear`") == "paceline-cache-ls-paceline-cache-clear"


def test_commands_are_joined_split_and_stripped_of_output() -> None:
    first, second = blocks("page.md", PAGE)
    [serve] = commands(first)
    assert (serve.variables, serve.words) == ({"A": "1"}, ("paceline", "serve", "MODEL", "--port", "9000"))
    assert serve.where == "page.md:9"
    make, echo, python = commands(second)
    assert make.words == ("make", "test", "ARGS=-k docs")
    assert (echo.words, echo.output) == (("echo", "done"), "output")
    assert python.here_document == "print(1)"


def test_inline_code_has_its_line() -> None:
    assert list(inline_code("page.md", PAGE)) == [("page.md:1", "code"), ("page.md:2", "[not](this.md)")]
