"""Is an error MLX's way to say that there is no memory? It has no type for it, only words, which differ by device."""

from __future__ import annotations

SIGNS = (
    "out of memory",
    "outofmemory",
    "unable to allocate",
    "cannot allocate memory",
    "failed to allocate",
    "bad_alloc",
    "[malloc]",
    "malloc_or_wait",
    "insufficient memory",
    "maximum allowed buffer size",
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Looks at what caused it, too."""
    seen = 0
    while error is not None and seen < 8:
        if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in SIGNS):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False
