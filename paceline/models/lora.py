"""LoRA adapters of a model: their factors are stacked, and each row of a pass takes those of its own adapter.

A linear layer that some adapter changes becomes one of a subclass with the same parameters, as RowGatedDelta does. In a
pass without adapters it does what it did before. Factors have the type that the model computes in, and the second one
is multiplied by the adapter's scale at load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from paceline.errors import LoadError
from paceline.models.files import one_line
from paceline.models.lora_files import Factors, LoraFiles, module_path
from paceline.types import Lora

LINEAR = (nn.Linear, nn.QuantizedLinear)


class _Rows:
    """The slot of each row of the current pass; None: the base model reads all of them."""

    slots: mx.array | None = None


@dataclass(slots=True)
class _Stack:
    """Factors of one layer by slot: (slots, inputs, rank) and (slots, rank, outputs). Slot 0 and others' are zeros."""

    ranks: tuple[int, ...]
    a: mx.array
    b: mx.array

    @property
    def nbytes(self) -> int:
        return self.a.nbytes + self.b.nbytes


class _Inlet:
    """What adapters add to a layer. Not a module's attribute: those count as parameters."""

    def __init__(self, rows: _Rows, stack: _Stack) -> None:
        self.rows = rows
        self.stack = stack

    def added(self, x: mx.array, y: mx.array) -> mx.array:
        slots, stack = self.rows.slots, self.stack
        if slots is None:
            return y
        rows = x if x.ndim == 3 else x.reshape(slots.shape[0], -1, x.shape[-1])
        change = _products(_products(rows, stack.a, slots), stack.b, slots)
        return y + change.reshape(y.shape).astype(y.dtype)


class _LoraLinear:
    """In front of a layer's own class, as long as some adapter changes the layer."""

    lora: _Inlet

    def __call__(self, x: mx.array) -> mx.array:
        return self.lora.added(x, super().__call__(x))  # type: ignore[misc]


def _products(rows: mx.array, factors: mx.array, slots: mx.array) -> mx.array:
    """Each row's product with the factor of its slot."""
    if rows.dtype != mx.float32 and mx.default_device() == mx.cpu:  # there gather_mm takes nothing else
        return rows @ factors[slots]
    return mx.gather_mm(rows, factors, rhs_indices=slots)


class Loras:
    """The adapters of one model, on the thread that owns MLX. `loaded[i]` has slot i + 1."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._rows = _Rows()
        self._changed: dict[str, nn.Module] = {}  # by `module_path`
        self.loaded: list[Lora] = []

    @property
    def nbytes(self) -> int:
        return sum(stack.nbytes for stack in self._stacks().values())

    @contextmanager
    def reading(self, slots: mx.array | None) -> Iterator[None]:
        """For the passes inside: the slot of each row, (rows,). None: no row has an adapter."""
        self._rows.slots = slots
        try:
            yield
        finally:
            self._rows.slots = None

    def nbytes_with(self, files: LoraFiles, dtype: mx.Dtype) -> int:
        """What all adapters would hold with this one. Raises LoadError if it is not for this model."""
        self._layers(files)
        return sum(
            (len(self.loaded) + 2) * max(ranks) * (inputs + outputs) * dtype.size
            for inputs, outputs, ranks in self._sizes(files)
        )

    def _sizes(self, files: LoraFiles) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        stacks = self._stacks()
        for path in {**stacks, **files.factors}:
            stack, new = stacks.get(path), files.factors.get(path)
            ranks = () if stack is None else stack.ranks
            if new is not None:
                yield new.inputs, new.outputs, (*ranks, new.rank)
            elif stack is not None:
                yield stack.a.shape[1], stack.b.shape[2], ranks

    def _stacks(self) -> dict[str, _Stack]:
        return {path: part.lora.stack for path, part in self._changed.items()}

    def add(self, name: str, files: LoraFiles, dtype: mx.Dtype, digest: str | None = None) -> Lora:
        """Load an adapter. If it raises, nothing has changed. `digest`: that of the files, if it is known."""
        layers = self._layers(files)
        digest, tensors = digest or files.digest(), _load(files)
        stacks, places = self._stacks(), len(self.loaded) + 1
        grown: dict[str, _Stack] = {}
        for path in {**stacks, **files.factors}:
            stack = stacks.get(path)
            if path in files.factors:
                factors = files.factors[path]
                a, b = _read(files, tensors, factors, dtype)
                if stack is None:
                    ranks = (0,) * places
                    blank = mx.zeros((places, factors.inputs, 0), dtype), mx.zeros((places, 0, factors.outputs), dtype)
                    stack = _Stack(ranks, *blank)
                grown[path] = _appended(stack, factors.rank, a, b)
            elif stack is not None:
                inputs, outputs = stack.a.shape[1], stack.b.shape[2]
                grown[path] = _appended(stack, 0, mx.zeros((inputs, 0), dtype), mx.zeros((0, outputs), dtype))
            mx.eval(grown[path].a, grown[path].b)
        for path, stack in grown.items():
            if path in self._changed:
                self._changed[path].lora.stack = stack
            else:
                _wrap(layers[path], _Inlet(self._rows, stack))
                self._changed[path] = layers[path]
        lora = Lora(name, str(files.folder), digest, files.rank, len(files.factors), places)
        self.loaded.append(lora)
        return lora

    def remove(self, lora: Lora) -> None:
        """Nothing may use it any more. Those behind it move up. If it raises, nothing has changed."""
        left = [slot for slot in range(len(self.loaded) + 1) if slot != lora.slot]
        stacks = {path: _taken(stack, left) for path, stack in self._stacks().items()}
        mx.eval([(stack.a, stack.b) for stack in stacks.values() if stack is not None])
        for path, stack in stacks.items():
            if stack is None:
                _unwrap(self._changed.pop(path))
            else:
                self._changed[path].lora.stack = stack
        self.loaded.remove(lora)
        lora.slot = 0
        for slot, other in enumerate(self.loaded, 1):
            other.slot = slot

    def _layers(self, files: LoraFiles) -> dict[str, nn.Module]:
        """The layers that an adapter changes."""
        known: dict[str, nn.Module] = {module_path(path): part for path, part in self._module.named_modules() if path}
        found = {}
        for path, factors in files.factors.items():
            part = known.get(path)
            if part is None:
                raise LoadError(f"{files.weights}: the tensor {factors.a} is for {path}, which this model has not.")
            if not isinstance(part, LINEAR):
                kind = type(part).__name__
                raise LoadError(
                    f"{files.weights}: the tensor {factors.a} is for {path}, a {kind}: adapters are served for linear "
                    "layers only."
                )
            sizes = _sizes_of(part)
            if sizes != (factors.inputs, factors.outputs):
                raise LoadError(
                    f"{files.weights}: the tensors {factors.a} and {factors.b} are for a layer of {factors.inputs} "
                    f"inputs and {factors.outputs} outputs; this model's {path} has {sizes[0]} and {sizes[1]}."
                )
            found[path] = part
        return found


def _sizes_of(part: Any) -> tuple[int, int]:
    outputs, inputs = part.weight.shape
    return (inputs * 32 // part.bits if isinstance(part, nn.QuantizedLinear) else inputs), outputs


def _wrap(part: nn.Module, inlet: _Inlet) -> None:
    part.__class__ = type(type(part).__name__, (_LoraLinear, type(part)), {})
    part.lora = inlet


def _unwrap(part: nn.Module) -> None:
    part.__class__ = type(part).__bases__[1]
    del part.lora


def _load(files: LoraFiles) -> Mapping[str, mx.array]:
    try:
        tensors: Any = mx.load(str(files.weights))
    except (RuntimeError, ValueError, OSError) as error:
        raise LoadError(f"{files.weights} cannot be read: {one_line(error)}") from error
    return tensors


def _read(
    files: LoraFiles, tensors: Mapping[str, mx.array], factors: Factors, dtype: mx.Dtype
) -> tuple[mx.array, mx.array]:
    found = []
    sizes = (factors.inputs, factors.rank), (factors.rank, factors.outputs)
    for name, size in zip((factors.a, factors.b), sizes, strict=True):
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != (size[::-1] if files.layout == "PEFT" else size):
            raise LoadError(f"{files.weights} has changed while it was read.")
        tensor = tensor.astype(mx.float32)
        if not mx.isfinite(tensor).all().item():
            raise LoadError(f"{files.weights}: the tensor {name} holds numbers that are not finite.")
        found.append(tensor.T if files.layout == "PEFT" else tensor)
    a, b = found
    return a.astype(dtype), (factors.scale * b).astype(dtype)


def _appended(stack: _Stack, rank: int, a: mx.array, b: mx.array) -> _Stack:
    """With one slot more; ranks are padded with zeros, which add nothing."""
    ranks = (*stack.ranks, rank)
    return _Stack(
        ranks,
        mx.concatenate([_padded(stack.a, 2, max(ranks)), _padded(a[None], 2, max(ranks))]),
        mx.concatenate([_padded(stack.b, 1, max(ranks)), _padded(b[None], 1, max(ranks))]),
    )


def _taken(stack: _Stack, slots: list[int]) -> _Stack | None:
    """These slots, with the rank that they need; None: they change nothing."""
    ranks = tuple(stack.ranks[slot] for slot in slots)
    most = max(ranks)
    if not most:
        return None
    taken = mx.array(slots)
    return _Stack(ranks, mx.contiguous(stack.a[taken, :, :most]), mx.contiguous(stack.b[taken, :most]))


def _padded(array: mx.array, axis: int, size: int) -> mx.array:
    widths = [(0, size - array.shape[each] if each == axis else 0) for each in range(array.ndim)]
    return mx.pad(array, widths)
