"""Trains a model by a plan of phases, and leaves a checkpoint that the next run goes on from.

    python -m training.train --name paceline-mini --data DIR --plan training/plan.json --phases 0,1 --save CHECKPOINT

A plan's phase has `seconds` (of training, without compiling) or a `part` of what `--seconds` leaves, `rate` (of the
learning rates, first and last; `"curve": "cosine"` bends the way between them) and `groups`: steps of one row length
each, taken by `share`, with rows from `files` by their shares. Files lie in the data folder, or in the phase's `data`
inside it. A phase with `until` ends as soon as the stages it names are made, in `until_data` if
there is one.
A file's `on` and `off` weigh the tokens that its mask says to predict, and the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training import checkpoint
from training import model as models
from training.batches import Inputs, Pool, Sampler, describe
from training.examine import examine
from training.export import export, exported, special_ids
from training.grow import grown
from training.loss import head_loss
from training.model import Model, Rotation, Rows, counting, positions_of
from training.optim import Optimizer
from training.shapes import SHAPES

MTP_WEIGHT = 0.3  # of the head's loss, all depths together
WARM_UP = 150  # steps
Save = Callable[[], None]


def roughened(pictures: Tensor) -> Tensor:
    """Pictures a little darker or lighter, with some noise: what is drawn by a script is too clean."""
    like = pictures[:, :1, :1, :1].float()
    light = 1 + 0.08 * torch.randn_like(like)
    grain = 6 * torch.randn(pictures.shape, device=pictures.device) * torch.rand_like(like)
    return (pictures.float() * light + grain).clamp(0, 255).round()


class Trainer:
    def __init__(self, model: Model, optimizer: Optimizer, picture_token: int, end_token: int) -> None:
        self.model, self.optimizer = model, optimizer
        self.picture_token, self.end_token = picture_token, end_token
        self.device = model.table.device
        # One for all graphs: they run one after the other, and each keeps nothing there that another needs.
        self.memory = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def losses(self, pool: Pool, inputs: Inputs, on: Tensor, off: Tensor, deep: int) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a step, every token's own (rows, tokens - 1), and which of them count by the mask.

        `on` and `off` weigh the tokens of every row of the pool; `deep` rows also train the head's deeper guesses.
        """
        model, rows = self.model, inputs.rows
        tokens = pool.tokens[rows].long()
        mask = pool.loss[rows].float()
        embeddings = model.embed(tokens)
        if len(inputs.picture):
            sides = [side // model.shape.eye.patch // model.shape.eye.merge for side in pool.size]
            embeddings = model.with_pictures(embeddings, roughened(pool.pictures[inputs.picture]), inputs.place)
            positions = positions_of(tokens, self.picture_token, *sides)
        else:
            positions = counting(len(rows), pool.length, self.device)
        rotation = model.rotation(positions)
        hidden = model(embeddings, rotation)
        weights = mask * on[rows, None] + (1 - mask) * off[rows, None]
        weights = weights * (tokens != self.picture_token)
        weights = weights / weights.sum()

        def ahead(x: Tensor, by: int) -> Tensor:
            return torch.cat([x[:, by:], torch.zeros_like(x[:, :by])], 1)

        loss, each = head_loss(hidden, model.table, ahead(tokens, 1), ahead(weights, 1))
        if model.shape.mtp:
            following, target, weight = ahead(embeddings, 1), ahead(tokens, 2), ahead(weights, 2)
            loss = loss + MTP_WEIGHT * self._head(hidden, following, rotation, target, weight, deep)
        return loss, each[:, :-1], mask[:, 1:]

    def _head(
        self, hidden: Tensor, following: Tensor, rotation: Rotation, target: Tensor, weight: Tensor, deep: int
    ) -> Tensor:
        """The MTP head's loss: on half of the rows, which teaches it enough, and on a few at depth 2 and 3 too."""
        mtp, table = self.model.mtp, self.model.table
        rows = Rows(*hidden.shape[:2])
        state = mtp(following.flatten(0, 1), hidden.flatten(0, 1), rotation, rows).reshape(hidden.shape)
        some = max(1, rows.count // 2)

        def guess(state: Tensor, count: int) -> Tensor:
            part = weight[:count] / (weight[:count].sum() + 1e-6)
            return head_loss(state[:count], table, target[:count], part)[0]

        if not deep:
            return guess(state, some)
        few = Rows(deep, rows.length)
        turned = tuple(part[: deep * rows.length] for part in rotation)
        given = (following[:deep].flatten(0, 1), hidden[:deep].flatten(0, 1), (turned[0], turned[1]), few)
        states = [state.reshape(deep, rows.length, -1) for state in mtp.deeper(*given, 3)]
        return (4 * guess(state, some) + guess(states[1], deep) + guess(states[2], deep)) / 6


class Recorded:
    """Steps of one shape: a CUDA graph of everything from the rows to the updated weights, or plain calls on a CPU."""

    def __init__(self, trainer: Trainer, pool: Pool, count: int, pictures: int, deep: int) -> None:
        self.trainer, self.pool, self.deep = trainer, pool, deep
        device = trainer.device
        self.inputs = Inputs.empty(count, pictures, device)
        self.on = torch.ones(len(pool.tokens), device=device)
        self.off = torch.zeros(len(pool.tokens), device=device)
        self.sums = torch.zeros(len(pool.names), 2, device=device)
        self.graph: Any = None

    def weigh(self, files: dict[str, dict[str, float]]) -> None:
        for name, rows in self.pool.rows.items():
            at = torch.from_numpy(rows).to(self.on.device)
            self.on[at] = float(files.get(name, {}).get("on", 1))
            self.off[at] = float(files.get(name, {}).get("off", 0))

    def _step(self) -> None:
        trainer, pool = self.trainer, self.pool
        loss, each, mask = trainer.losses(pool, self.inputs, self.on, self.off, self.deep)
        loss.backward()
        trainer.optimizer.step()
        both = torch.stack([(each.detach() * mask).sum(1), mask.sum(1)], 1)
        self.sums.index_add_(0, pool.kinds[self.inputs.rows], both)

    def __call__(self) -> None:
        if self.trainer.device.type != "cuda":
            self._clear()
            self._step()
            return
        if self.graph is None:
            self.record()
        self.graph.replay()

    def _clear(self) -> None:
        for weight in self.trainer.model.parameters():
            weight.grad = None

    def record(self) -> None:
        """Makes the graph. Its trial runs change no weights."""
        rate = self.trainer.optimizer.rate.clone()
        count = self.trainer.optimizer.count.clone()
        self.trainer.optimizer.rate.zero_()  # warming up must not train
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._clear()
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self._clear()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.trainer.memory):
            self._step()
        self.graph = graph
        self.trainer.optimizer.rate.copy_(rate)
        self.trainer.optimizer.count.copy_(count)
        self.sums.zero_()


class Run:
    def __init__(self, trainer: Trainer, data: Path, seed: int) -> None:
        self.trainer, self.data, self.seed = trainer, data, seed
        self.folder = data  # of the phase
        self.pools: dict[tuple[str, ...], Pool] = {}
        self.steps: dict[tuple[Any, ...], tuple[Recorded, Sampler]] = {}
        self.step = 0
        self.begun = time.monotonic()
        self.curve: list[dict[str, Any]] = []

    def use(self, folder: Path) -> None:
        """Rows of another folder. The graphs read the old ones' memory: both go."""
        if folder != self.folder:
            self.folder = folder
            self.pools.clear()
            self.steps.clear()
            self.trainer.model.zero_grad(set_to_none=True)
            gc.collect()
            if self.trainer.device.type == "cuda":
                torch.cuda.empty_cache()
                self.trainer.memory = torch.cuda.graph_pool_handle()

    def group(self, group: dict[str, Any]) -> tuple[Recorded, Sampler]:
        names = tuple(group["files"])
        if names not in self.pools:
            self.pools[names] = open_pool(self.folder, names, self.trainer.device)
            print("pool", self.pools[names].length, describe(self.pools[names]), flush=True)
        pool = self.pools[names]
        see = self.trainer.model.shape.eye is not None and len(pool.pictures) > 0
        key = (names, group["rows"], group.get("pictures", 0), group.get("deep", 0))
        if key not in self.steps:
            pictures = group.get("pictures", 0) if see else 0
            recorded = Recorded(self.trainer, pool, group["rows"], pictures, group.get("deep", 0))
            # Without a tower pictures are placeholders like any token, and no limit.
            limit = pictures if see else 10**9
            self.steps[key] = (recorded, Sampler(pool, group["rows"], limit, self.seed))
        return self.steps[key]

    def phase(self, phase: dict[str, Any], until: float, save: Save | None = None, every: float = 1e9) -> None:
        """`save` is called every so many seconds."""
        groups = phase["groups"]
        folder = self.data / phase.get("data", "")
        if self.steps and not made(folder, [name for group in groups for name in group["files"]]):
            print(f"{folder} is not made: on with the rows there are", flush=True)
            folder = self.folder
        self.use(folder)
        ready = [self.group(group) for group in groups]
        optimizer = self.trainer.optimizer
        for group, (recorded, sampler) in zip(groups, ready, strict=True):
            recorded.weigh(group["files"])
            recorded.inputs.fill(recorded.pool, sampler.take(_shares(group)))
            if self.trainer.device.type == "cuda" and recorded.graph is None:
                start = time.monotonic()
                recorded.record()
                print(f"recorded {recorded.pool.length} in {time.monotonic() - start:.1f} s", flush=True)
        shares = np.array([group.get("share", 1.0) for group in groups])
        rng = np.random.default_rng(self.seed + self.step)
        left = until - time.monotonic()
        seconds = left * phase["part"] if "part" in phase else min(float(phase["seconds"]), left)
        first, last = phase["rate"]
        begun = shown = saved = time.monotonic()
        tokens = taken = 0
        while (now := time.monotonic() - begun) < seconds and taken < phase.get("steps", 10**9):
            progress = max(now / seconds, taken / phase.get("steps", 10**9))
            if phase.get("curve") == "cosine":
                progress = (1 - math.cos(math.pi * progress)) / 2
            warm = min(1.0, (self.step + 1) / WARM_UP)
            optimizer.rate.fill_(warm * (first + (last - first) * progress))
            at = int(rng.choice(len(groups), p=shares / shares.sum()))
            recorded, sampler = ready[at]
            recorded.inputs.fill(recorded.pool, sampler.take(_shares(groups[at])))
            recorded()
            self.step += 1
            taken += 1
            tokens += recorded.inputs.rows.numel() * recorded.pool.length
            if taken % 25 == 0:
                if self.trainer.device.type == "cuda":
                    torch.cuda.synchronize()  # the clock must not run ahead of the device
                if "until" in phase and made(self.data / phase.get("until_data", ""), phase["until"]):
                    break
            if time.monotonic() - shown > phase.get("every", 20):
                shown = time.monotonic()
                self._show(ready, tokens / (shown - begun))
            if save is not None and time.monotonic() - saved > every:
                save()
                saved = time.monotonic()
        self._show(ready, tokens / (time.monotonic() - begun))

    def _show(self, ready: list[tuple[Recorded, Sampler]], speed: float) -> None:
        parts = []
        sums: dict[str, tuple[float, float]] = {}  # of a kind and length, whatever the group
        for recorded, _ in ready:
            for name, (total, count) in zip(recorded.pool.names, recorded.sums.tolist(), strict=True):
                if count:
                    before = sums.get(key := f"{recorded.pool.length} {name}", (0.0, 0.0))
                    sums[key] = before[0] + total, before[1] + count
                    parts.append(f"{name} {total / count:.3f}")
            parts.append("/")
            recorded.sums.zero_()
        losses = {key: round(total / count, 4) for key, (total, count) in sums.items()}
        norm, rate = self.trainer.optimizer.norm.item(), self.trainer.optimizer.rate.item()
        seconds = round(time.monotonic() - self.begun, 1)
        self.curve.append({"step": self.step, "seconds": seconds, "rate": round(rate, 4), "losses": losses})
        print(
            f"step {self.step} rate {rate:.3f} norm {norm:.2f} {speed / 1e6:.2f} M/s | {'  '.join(parts)}", flush=True
        )


def open_pool(data: Path, stages: Sequence[str], device: torch.device, wait: float = 600) -> Pool:
    """The stages' rows. Data may still be made while training begins: the index names a file when it is whole."""
    until = time.monotonic() + wait
    while time.monotonic() < until and not made(data, stages):
        time.sleep(1)
    files = {stage: sorted(data.glob(f"{stage}.npz")) + sorted(data.glob(f"{stage}-[0-9]*.npz")) for stage in stages}
    missing = [stage for stage, paths in files.items() if not paths]
    if missing:
        raise SystemExit(f"no data for {', '.join(missing)} in {data}")
    return Pool(files, device, _index(data).get("kinds", []))


def made(data: Path, stages: Sequence[str]) -> bool:
    return all(stage in _index(data) for stage in stages)


def _index(data: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((data / "index.json").read_text())
    except (FileNotFoundError, ValueError):  # not there yet, or just being written
        return {}
    return index


def _shares(group: dict[str, Any]) -> dict[str, float]:
    return {name: float(file["share"]) for name, file in group["files"].items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", choices=SHAPES, default="paceline-mini")
    parser.add_argument("--data", type=Path, required=True, help="folder of stages and tokenizer/")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--phases", default="", help="numbers of the plan's phases, all unless told")
    parser.add_argument("--save", type=Path, required=True, help="checkpoint, in numbered parts; resumed if there")
    parser.add_argument("--start", type=Path, help="an exported folder whose weights to begin with, grown if smaller")
    parser.add_argument("--light", type=Path, help="also a checkpoint with optimizer state in bf16, to travel")
    parser.add_argument("--export", type=Path, help="also the folder in Hugging Face layout, whenever it saves")
    parser.add_argument("--every", type=float, default=1e9, help="seconds between exports on the way")
    parser.add_argument("--curve", type=Path, help="losses on the way, as JSON")
    parser.add_argument("--held", default="", help="stages to examine the model on at the end")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop training after so long")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--plain", action="store_true", help="do not compile")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device(options.device)
    model = Model(SHAPES[options.name], torch.bfloat16 if device.type == "cuda" else torch.float32).to(device)
    plan = json.loads(options.plan.read_text())
    optimizer = Optimizer(model, **plan.get("optimizer", {}))
    ids = special_ids(options.data / "tokenizer")
    trainer = Trainer(model, optimizer, ids["<|image_pad|>"], ids["<|im_end|>"])
    run = Run(trainer, options.data, options.seed)
    if list(options.save.parent.glob(f"{options.save.name}.[0-9][0-9]")):
        state = checkpoint.load(options.save)
        model.load_state_dict(state["model"])
        optimizer.load(state["optimizer"])
        run.step = state["step"]
        print(f"resumed at step {run.step}", flush=True)
    elif options.start:
        model.load_state_dict(grown(exported(options.start), model))
    run.seed += run.step  # rows in another order than the run before
    if device.type == "cuda" and not options.plain:
        models.fuse(plan["tokens"])  # of every step, whatever its rows' length

    def leave() -> None:
        if options.export:  # whole or not at all, for whoever copies it meanwhile
            new, old = (options.export.with_name(options.export.name + end) for end in (".new", ".old"))
            weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
            export(weights, model.shape, options.data / "tokenizer", new)
            if options.export.exists():
                options.export.rename(old)
            new.rename(options.export)
            shutil.rmtree(old, ignore_errors=True)
        if options.curve:
            options.curve.write_text(json.dumps(run.curve) + "\n")

    wanted = [int(number) for number in options.phases.split(",") if number] or range(len(plan["phases"]))
    try:
        for number in wanted:
            print(f"phase {number} after {time.monotonic() - begun:.0f} s", flush=True)
            run.phase(plan["phases"][number], begun + options.seconds, leave, options.every)
    finally:  # what was learnt before something went wrong is worth as much
        state = {"model": model.state_dict(), "optimizer": optimizer.state(), "step": run.step}
        if run.step:
            checkpoint.save(state, options.save)
            if options.light:
                checkpoint.save(state | {"optimizer": _light(state["optimizer"])}, options.light)
            leave()
            print(f"saved step {run.step} after {time.monotonic() - begun:.0f} s", flush=True)
    for stage in options.held.split(",") if options.held else ():
        examine(trainer, open_pool(options.data, [stage], device, wait=20))


def _light(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _light(part) for name, part in value.items()}
    return value.to(torch.bfloat16) if value.ndim else value


if __name__ == "__main__":
    main()
