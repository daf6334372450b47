"""The curves of a training run as a picture: `python -m training.curves CURVE.json OUT.svg`.

`training.train` leaves a curve: at every look, the step, the seconds, the rate and the training loss of each kind of
row. A line here is the mean over kinds, smoothed over five looks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 168, 16, 40
SMOOTH = 5  # looks
LINES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # what a line is called: its color, and its kinds begin so
    "text": ("#555555", ("1024 text",)),
    "long texts, 16k": ("#7a4fb5", ("16384 wide", "16384 hidden")),
    "long texts, 4k": ("#2f6fb0", ("4096 wide", "4096 hidden")),
    "facts, many forms": ("#2a8a5a", ("1024 wide",)),
    "tools, many forms": ("#b5651d", ("1024 wide_tools",)),
    "pictures": ("#c0392b", ("1024 wide_picture", "1024 picture_groups", "1024 picture_word")),
    "talk and JSON": ("#b58900", ("1024 wide_talk", "1024 wide_json")),
}


def series(looks: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> list[tuple[float, float]]:
    """(step, loss): the mean of the kinds that a look has, over the last looks."""
    found = []
    for look in looks:
        losses = [look["losses"][kind] for kind in kinds if kind in look["losses"]]
        if losses:
            found.append((float(look["step"]), fmean(losses)))
    return [
        (step, fmean(loss for _, loss in found[max(0, place - SMOOTH + 1) : place + 1]))
        for place, (step, _) in enumerate(found)
    ]


def picture(looks: Sequence[Mapping[str, Any]]) -> str:
    drawn = {name: series(looks, kinds) for name, (_, kinds) in LINES.items()}
    drawn = {name: points for name, points in drawn.items() if points}
    if not drawn:
        raise ValueError("the curve has none of the kinds that are drawn")
    last = max(step for points in drawn.values() for step, _ in points)
    most = max(loss for points in drawn.values() for _, loss in points) * 1.05

    def across(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def down(loss: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * loss / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for loss in range(int(most) + 1):
        y = down(loss)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#333333">{loss}</text>')
    for quarter in range(5):
        step = last * quarter / 4
        parts.append(
            f'<text x="{across(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#333333">'
            f"{step:,.0f}</text>"
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle" fill="#333333">'
        "step; up: training loss a token</text>"
    )
    label = 0.0
    for name, points in sorted(drawn.items(), key=lambda item: -item[1][-1][1]):
        color = LINES[name][0]
        line = "L".join(f"{across(step):.1f} {down(loss):.1f}" for step, loss in points)
        label = max(down(points[-1][1]) + 4, label + 14)  # labels do not overlap
        parts.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{label:.1f}" fill="{color}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.curves", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("curve", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    given.out.write_text(picture(json.loads(given.curve.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
