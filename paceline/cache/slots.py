"""How many slots a buffer of keys and values has for so many tokens. Plain numbers, for buffers and prices alike."""

from __future__ import annotations

STEP = 256  # slots a buffer grows by
MARGIN = 16  # tokens kept beyond a window so that a rejected draft can be rolled back


def capacity(window: int | None, need: int) -> int:
    """Slots of a buffer that must hold `need` tokens.

    A window's buffer is full-grown as soon as growing step by step would bring it near that: so what a row holds
    depends on how long it is, and hardly on how it came there.
    """
    if window is not None:
        full = _up(window + MARGIN + STEP, STEP)  # room for STEP tokens before the next shift
        return _up(need, STEP) if need <= full - 2 * STEP else max(_up(need, STEP), full)
    return _up(need, STEP if need < 8 * STEP else max(STEP, need // 8 // STEP * STEP))


def _up(need: int, grain: int) -> int:
    return (need + grain - 1) // grain * grain
