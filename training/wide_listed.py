"""Keys as people list them in prose: quoted, bare, in backticks, in any mixture; each as it is spelled, and once."""

# ruff: noqa: E501  (rows are easier to read than lists)

from __future__ import annotations

from collections.abc import Sequence
from random import Random

MARKS = ("{}", "{}", "{}", '"{}"', '"{}"', "'{}'", "`{}`", "`{}`", "“{}”", "**{}**", "<{}>", "({})", "[{}]", "_{}_")
PLAIN = MARKS[:8]  # of a list that is marked throughout; of a mixed one, most keys
BETWEEN = (", ", ", ", ", ", "; ", " and ", ", also ", " plus ", " / ", " & ", " + ", ", then ", ",", "/", " as well as ", ", and ", " | ", ", besides ")  # fmt: skip
LAST = (" and ", " and ", " and ", ", and ", ", and ", " & ", " plus ", " as well as ", " and also ", ", and finally ", ", lastly ", ", ")  # fmt: skip
CALLED = ("the key {}", "a {} field", "a key called {}", "one called {}", "the {}", "a {}", "its {}", "the field {}")
ROWS = ("- {}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}", "{}", "{},", "  {}", "+ {}", "-> {}", "[ ] {}")


def _marked(name: str, mark: str) -> str:
    return mark.replace("{}", name) if not (mark == "_{}_" and "_" in name) else name


def listed(names: Sequence[str], rng: Random, types: Sequence[str] = (), block: bool = True) -> str:
    """The manner is drawn for the list or, in half of them, for every key and every gap; `types` are told or not.

    With `block` it may be lines of its own, which begin with a line break.
    """
    mixed = rng.random() < 0.5
    mark = rng.choice(PLAIN)
    typed = types and rng.random() < 0.22
    shown = []
    for at, name in enumerate(names):
        how = (rng.choice(PLAIN) if rng.random() < 0.8 else rng.choice(MARKS)) if mixed else mark
        if mixed and " " in name:  # where would it begin?
            how = rng.choice(('"{}"', "'{}'", "`{}`"))
        one = _marked(name, how)
        if typed and (not mixed or rng.random() < 0.6):
            one += rng.choice((" ({})", " ({})", ": {}", " = {}", " as {}") if mixed else (" ({})",)).format(types[at])
        elif mixed and how in ('"{}"', "'{}'", "`{}`") and rng.random() < 0.12:
            one = rng.choice(CALLED).replace("{}", one)
        shown.append(one)
    layout = rng.random()
    if block and layout < 0.14:
        row = rng.choice(ROWS)
        lines = (row.replace("{n}", str(at)).replace("{}", one) for at, one in enumerate(shown, 1))
        return "\n" + "\n".join(lines) + "\n"
    if layout < 0.2:
        return rng.choice(("[{}]", "({})", "{{{}}}")).format(", ".join(shown))
    if layout < 0.27 and not any(" " in one for one in shown):
        return rng.choice((" ", "/", " / ", "; ", ",", " + ", " | ", " & ")).join(shown)
    if mixed and layout < 0.65:
        text, gaps = shown[0], (", ", ", ", rng.choice(BETWEEN), rng.choice(BETWEEN))
        for at, one in enumerate(shown[1:], 2):
            text += rng.choice(LAST if at == len(shown) and rng.random() < 0.7 else gaps) + one
        return text
    if layout < 0.72:
        return ", ".join(shown)
    if layout < 0.77:
        return rng.choice((" and ", " and ", ", and ", " plus ")).join(shown)
    head, last = ", ".join(shown[:-1]), shown[-1]
    return f"{head}{rng.choice(LAST)}{last}" if head else last
