"""What the model can do, on prompts that it was never trained on: `python -m training.evaluate FOLDER`.

Runs on the CPU through Paceline's own service, in float32, greedy, many prompts in one batch. Prints a Markdown table
and writes it, with sample chats, to `OUT/evaluation.md`; `--docs docs/embedded-model.md` puts it into that page.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paceline import platform
from paceline.conversation.parsing.events import ParsedOutput
from paceline.conversation.parsing.parser import parse_output
from paceline.requests import ChatRequest, Completion, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling, Speculation
from training import heldout, tokenizer
from training.heldout import Prompt
from training.sources import OUT

LONGEST = 192  # tokens of an answer
ROWS = 40  # prompts at a time
BEGIN, END = "<!-- figures: python -m training.evaluate -->", "<!-- end of figures -->"
SAMPLES = (
    "Hello! Who are you?", "What is the capital of Japan?", "Explain why the sky is blue.",
    "Tell me a story about a fox.",
    "What is 7 times 8?", "Name three fruits.", "What does 'harbor' mean?", "I feel tired.",
    "Repeat after me: pace line",
    "Sort these numbers: 31, 4, 15, 9.", "Tell me a joke.", "What is the opposite of heavy?",
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    name: str
    value: str
    goal: str = ""
    prompts: int = 0

    @property
    def row(self) -> str:
        return f"| {self.name} | {self.value} | {self.goal} | {self.prompts or ''} |"


@dataclass
class Report:
    count: int = heldout.COUNT  # prompts a figure
    figures: list[Figure] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)

    def add(self, name: str, value: str, goal: str = "", prompts: int = 0) -> None:
        figure = Figure(name, value, goal, prompts)
        self.figures.append(figure)
        print(figure.row, flush=True)

    def share(self, name: str, right: Sequence[bool], goal: str = "") -> None:
        self.add(name, f"{sum(right) / len(right):.3f}", goal, len(right))

    def text(self) -> str:
        table = ["| figure | value | goal | prompts |", "|---|---|---|---|", *(figure.row for figure in self.figures)]
        if self.samples:
            table += ["", "## Sample chats, unedited", "", *self.samples]
        return "\n".join(table) + "\n"


class Judge:
    """A running service, and the ways in which it is asked."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def complete(self, prompt: Prompt, speculation: Speculation = "off") -> Completion:
        sampling = Sampling(temperature=0.0, max_tokens=LONGEST, speculation=speculation)
        options = {"enable_thinking": True} if prompt.thinks else {}
        tools = list(prompt.chat.tools) or None
        request = ChatRequest(
            _sendable(prompt), sampling, template_options=options, tools=tools, keep_format_tokens=True
        )
        return await self.service.chat(request)

    async def completions(self, prompts: Sequence[Prompt], speculation: Speculation) -> list[Completion]:
        """A wave at a time, as many as run together: a queue of long prompts would only hold memory."""
        done: list[Completion] = []
        for first in range(0, len(prompts), ROWS):
            wave = (self.complete(prompt, speculation) for prompt in prompts[first : first + ROWS])
            done += await asyncio.gather(*wave)
        return done

    def parse(self, prompt: Prompt, completion: Completion) -> ParsedOutput:
        text = completion.choices[0].text
        tools = list(prompt.chat.tools) or None
        return parse_output(text, self.service.answer_format, tools, starts_in_reasoning=prompt.thinks)

    async def answers(self, prompts: Sequence[Prompt], speculation: Speculation = "off") -> list[ParsedOutput]:
        """In order; prompts over one text come one behind the other, so that its prefix is computed once."""
        done = await self.completions(prompts, speculation)
        return [self.parse(prompt, completion) for prompt, completion in zip(prompts, done, strict=True)]

    async def right(self, prompts: Sequence[Prompt]) -> list[bool]:
        answers = await self.answers(prompts)
        return [prompt.right(answer.content.strip()) for prompt, answer in zip(prompts, answers, strict=True)]

    async def acceptance(self, prompts: Sequence[Prompt], depth: int) -> tuple[float, float]:
        """Drafted tokens that were accepted, of all drafted; and tokens said for each step of the model."""
        done = await self.completions(prompts, depth)
        accepted = sum(one.usage.accepted_tokens for one in done)
        rejected = sum(one.usage.rejected_tokens for one in done)
        said = sum(one.usage.completion_tokens for one in done)
        return accepted / max(1, accepted + rejected), said / max(1, said - accepted)


def _sendable(prompt: Prompt) -> list[dict[str, Any]]:
    """The messages with pictures as PNG data addresses."""
    from PIL import Image

    messages = prompt.chat.messages()
    for message in messages:
        if isinstance(message["content"], list):
            for place, part in enumerate(message["content"]):
                if part["type"] == "image":
                    buffer = io.BytesIO()
                    Image.fromarray(part["image"]).save(buffer, "PNG")
                    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
                    message["content"][place] = {"type": "image_url", "image_url": {"url": address}}
    return messages


def _call_fits(prompt: Prompt, answer: ParsedOutput) -> tuple[bool, bool]:
    """(the call parses and matches its tool's schema, it is the right call)."""
    import jsonschema

    name, given = prompt.chat.expect
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in prompt.chat.tools}
    if len(answer.calls) != 1 or answer.calls[0].name not in schemas:
        return False, False
    try:
        arguments = json.loads(answer.calls[0].arguments)
        jsonschema.validate(arguments, schemas[answer.calls[0].name])
    except (ValueError, jsonschema.ValidationError):
        return False, False
    return True, answer.calls[0].name == name and arguments == given


# -- the figures


async def text(judge: Judge, report: Report, out: Path) -> None:
    """Perplexity by token, beside the 5-gram's; the first tokens of a passage are context for both."""
    from training.data import corpus_tokens
    from training.evaluate_ngram import cross_entropy

    words = tokenizer.load(out)
    passages = heldout.passages(heldout.held_corpus(out, words), report.count)
    sampling = Sampling(temperature=0.0, max_tokens=1, prompt_logprobs=0, speculation="off")
    done = await asyncio.gather(
        *(judge.service.generate(GenerateRequest([int(id) for id in row], sampling)) for row in passages)
    )
    skip = 4
    losses = [
        -one.logprob for completion in done for one in (completion.prompt.logprobs or ())[skip:] if one is not None
    ]
    report.add("held-out text, perplexity a token", f"{math.exp(float(np.mean(losses))):.1f}", "", len(passages))
    seen, _ = corpus_tokens(out, "train", words)
    plain = cross_entropy(seen, passages, words.get_vocab_size(), skip=skip)
    report.add("the same, of a 5-gram model with back-off", f"{math.exp(plain):.1f}", "", len(passages))


async def chat(judge: Judge, report: Report, out: Path) -> None:
    prompts = [prompt for prompt in heldout.chat(2 * report.count) if prompt.chat.expect][: report.count]
    report.share("chat: right answers, where there is one", await judge.right(prompts))
    report.share("questions over a short text", await judge.right(heldout.lookup(report.count)))


async def forms(judge: Judge, report: Report, out: Path) -> None:
    report.share("JSON answers, parsed and equal", await judge.right(heldout.json_answers(report.count)), "0.95")
    prompts = heldout.tools(report.count)
    fits = [_call_fits(*pair) for pair in zip(prompts, await judge.answers(prompts), strict=True)]
    report.share("tool calls, parsed and in the schema", [valid for valid, _ in fits], "0.95")
    report.share("tool calls, the right one with the right arguments", [same for _, same in fits])
    report.share("answers after a tool's result", await judge.right(heldout.tool_answers(report.count)))


async def acceptance(judge: Judge, report: Report, out: Path) -> None:
    half = report.count // 2
    sets = (
        ("chat", heldout.chat(report.count), "0.60"),
        ("JSON and tool calls", heldout.json_answers(half) + heldout.tools(half), "0.75"),
    )
    for name, prompts, goal in sets:
        for depth in (1, 2, 3):
            share, pace = await judge.acceptance(prompts, depth)
            label = f"MTP acceptance, {name}, depth {depth}"
            report.add(label, f"{share:.3f} ({pace:.2f} tokens a step)", goal if depth == 1 else "", len(prompts))


async def retrieval(judge: Judge, report: Report, out: Path) -> None:
    words = tokenizer.load(out)
    corpus = heldout.held_corpus(out, words)
    for length in heldout.LENGTHS:
        prompts = heldout.retrieval(length, corpus, words, report.count)
        report.share(
            f"retrieval at {length // 1024}k", await judge.right(prompts), "0.85" if length == 16384 else "0.95"
        )


async def pictures(judge: Judge, report: Report, out: Path) -> None:
    report.share("pictures: shape, color, count", await judge.right(heldout.pictures_one(report.count)), "0.95")
    report.share("two pictures compared", await judge.right(heldout.pictures_two(report.count)), "0.85")
    pairs = heldout.pictures_changed(report.count)
    one = await judge.answers([pair[0] for pair in pairs])
    other = await judge.answers([pair[1] for pair in pairs])
    report.share(
        "the answer changes with the picture", [a.content != b.content for a, b in zip(one, other, strict=True)]
    )
    for kind in ("groups", "position", "word", "emoji"):
        report.share(f"pictures: {kind}", await judge.right(heldout.pictures_other(kind, report.count)))


async def samples(judge: Judge, report: Report, out: Path) -> None:
    for user in SAMPLES:
        sampling = Sampling(temperature=0.0, max_tokens=LONGEST)
        done = await judge.service.chat(ChatRequest([{"role": "user", "content": user}], sampling))
        answer = parse_output(done.choices[0].text, judge.service.answer_format)
        report.samples += [f"> **{user}**", ">", *(f"> {line}" for line in answer.content.strip().splitlines()), ""]


def draft(folder: Path, report: Report, out: Path, window: int | None = None) -> None:
    """Is the chunk with the fact in the fifth that the draft would keep?"""
    from mlx_lm.utils import load_tokenizer

    from training.evaluate_draft import Draft, chunks_of

    words = tokenizer.load(out)
    chats = load_tokenizer(folder)
    ranker = Draft(folder, window)

    def length(text: str) -> int:
        return len(words.encode(text, add_special_tokens=False).ids)

    values, sentences = [], []
    for prompt in heldout.retrieval(8192, heldout.held_corpus(out, words), words, report.count):
        text = chats.apply_chat_template(
            prompt.chat.messages(), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        kept = ranker.kept(words.encode(text, add_special_tokens=False).ids)
        start = text.index(prompt.fact_text)
        value = start + prompt.fact_text.rindex(prompt.chat.expect)
        end = length(text[: value + len(prompt.chat.expect)])
        values.append(chunks_of(length(text[:value]), end) <= kept)
        sentences.append(chunks_of(length(text[:start]), end) <= kept)
    report.share("draft keeps the fact's value at 8k, in 20% of the chunks", values, "0.90")
    report.share("draft keeps the fact's whole sentence", sentences)


async def same(judge: Judge, report: Report, out: Path) -> None:
    """Paceline's tokens against mlx-lm's (text) and mlx-vlm's (pictures), greedy, alone."""
    from PIL import Image

    from tests.reference import greedy_images, greedy_text

    folder = Path(judge.service.settings.model or "")
    share = max(1, report.count // 8)  # the libraries take their time: mlx-lm reads a prompt token by token here
    texts = [one for one in heldout.chat(share) + heldout.json_answers(share) + heldout.tools(share) if not one.thinks]
    equal = []
    for prompt in texts:
        done = await judge.complete(prompt)
        ids = list(done.choices[0].token_ids)
        equal.append(await asyncio.to_thread(greedy_text, folder, list(done.prompt.token_ids), len(ids)) == ids)
    report.share("same greedy tokens from mlx-lm", equal, "1.0")
    equal = []
    for prompt in heldout.pictures_one(share) + heldout.pictures_two(share):
        done = await judge.complete(prompt)
        ids = list(done.choices[0].token_ids)
        images = [Image.fromarray(picture) for picture in prompt.chat.pictures]
        theirs = await asyncio.to_thread(greedy_images, folder, prompt.chat.messages(), images, len(ids))
        equal.append(theirs.tokens == ids)
    report.share("same greedy tokens from mlx-vlm", equal, "1.0")


FIGURES: dict[str, Callable[[Judge, Report, Path], Awaitable[None]]] = {
    "text": text, "chat": chat, "forms": forms, "acceptance": acceptance, "pictures": pictures, "retrieval": retrieval,
    "same": same, "samples": samples,
}  # fmt: skip


async def run(folder: Path, names: Sequence[str], out: Path, report: Report) -> None:
    settings = Settings(
        model=str(folder),
        dtype="float32",
        max_num_seqs=ROWS,
        queue_timeout=None,
        speculation="off",
        log_level="warning",
    )
    async with Service(settings) as service:
        judge = Judge(service)
        for name in names:
            started = time.perf_counter()
            await FIGURES[name](judge, report, out)
            print(f"({name}: {time.perf_counter() - started:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draft", type=Path, help="folder of the draft model, to judge its ranking of chunks")
    parser.add_argument("--draft-window", type=int, help="tokens that the draft looks back while it reads; all")
    parser.add_argument("--only", nargs="+", choices=[*FIGURES, "draft"], help="default: all")
    parser.add_argument("--count", type=int, default=heldout.COUNT, help="prompts a figure; fewer for a quick look")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the data, where the report goes too")
    parser.add_argument("--report", type=Path, help="default: OUT/evaluation.md")
    parser.add_argument("--docs", type=Path, help="a page to put the report into, between its two marks")
    arguments = parser.parse_args()
    os.environ["TRAINING_DATA"] = str(arguments.out)
    platform.prepare(exact=True)  # before anything imports MLX
    report = Report(arguments.count)
    names = [name for name in FIGURES if arguments.only is None or name in arguments.only]
    if names:
        asyncio.run(run(arguments.folder, names, arguments.out, report))
    if arguments.draft is not None and (arguments.only is None or "draft" in arguments.only):
        draft(arguments.draft, report, arguments.out, arguments.draft_window)
    (arguments.report or arguments.out / "evaluation.md").write_text(report.text(), encoding="utf-8")
    if arguments.docs is not None:
        before, _, behind = arguments.docs.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = behind.partition(END)
        page = f"{before}{BEGIN}\n{report.text()}{END}{after}"
        arguments.docs.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
