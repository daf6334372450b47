# mypy: ignore-errors
"""lm-eval through the server against mlx-lm's own evaluator on the same weights, task by task.

`python lm_eval_scores.py SERVER MODEL FOLDER` with an interpreter that has lm-eval and mlx-lm; FOLDER is the model that
SERVER serves in float32. Exits with 0, or with what differs: a score, a likelihood, a word of an answer.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

SERVER, MODEL, FOLDER = sys.argv[1:4]
TASKS = Path(__file__).parent / "lm_eval"
THINKING = {"enable_thinking": False}
TOLERANCE = 1e-3  # of a likelihood, which is a sum of float32 logarithms

os.environ |= {"OPENAI_API_KEY": "x", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}


def tasks(folder: Path) -> Path:
    """The tasks with the addresses of their data, which lm-eval wants to be absolute."""
    for task in TASKS.glob("*.yaml"):
        text = task.read_text()
        for name, file in (("CHOICES", "choices.jsonl"), ("WORDS", "words.jsonl")):
            text = text.replace(f": {name}}}", f": {shutil.copy(TASKS / file, folder)}}}")
        (folder / task.name).write_text(text)
    return folder


def evaluated(model, task: str, manager, **options):
    """The scores, and for every document what the model answered."""
    import lm_eval

    found = lm_eval.simple_evaluate(
        model=model,
        tasks=[task],
        task_manager=manager,
        log_samples=True,
        bootstrap_iters=0,
        cache_requests=False,
        **options,
    )
    scores = {name: value for name, value in found["results"][task].items() if isinstance(value, float)}
    samples = sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
    return scores, [sample["resps"] for sample in samples]


def compare(what: str, ours, theirs) -> None:
    (scores, answers), (direct_scores, direct_answers) = ours, theirs
    told = {name: round(value, 3) for name, value in scores.items() if not math.isnan(value)}
    if told != {name: round(value, 3) for name, value in direct_scores.items() if not math.isnan(value)}:
        sys.exit(f"{what}: {scores} here, {direct_scores} from mlx-lm")
    for place, (answer, direct) in enumerate(zip(answers, direct_answers, strict=True)):
        for one, other in zip(answer, direct, strict=True):
            if not same(one[0], other[0]):
                sys.exit(f"{what}, document {place}: {one[0]!r} here, {other[0]!r} from mlx-lm")
    print(what, *(f"{name.split(',')[0]} {value}" for name, value in told.items()))


def same(one, other) -> bool:
    """Texts, or a likelihood and whether it is of the likeliest words."""
    if isinstance(one, str):
        return one == other
    return abs(float(one[0]) - float(other[0])) < TOLERANCE and bool(one[1]) == bool(other[1])


def main() -> None:
    import mlx_lm.evaluate
    from lm_eval import models  # noqa: F401  (registers its own)
    from lm_eval.tasks import TaskManager

    class Direct(mlx_lm.evaluate.MLXLM):
        # mlx-lm lets a model think unless it is told otherwise; here nothing is said unless it is asked for.
        apply_chat_template = mlx_lm.evaluate.chat_template_fn(**THINKING)

    direct = Direct(FOLDER)
    common = {"model": MODEL, "num_concurrent": 4, "max_retries": 1, "tokenizer_backend": "huggingface"}
    completions = common | {"base_url": f"{SERVER}/v1/completions", "tokenizer": FOLDER}
    chat = common | {"base_url": f"{SERVER}/v1/chat/completions", "tokenizer": FOLDER}
    with tempfile.TemporaryDirectory() as folder:
        manager = TaskManager(include_path=str(tasks(Path(folder))), include_defaults=False)
        for task in ("paceline_choices", "paceline_words"):
            ours = evaluated("local-completions", task, manager, model_args=completions)
            compare(f"completions {task}", ours, evaluated(direct, task, manager))
        asked = dict(THINKING) if "enable_thinking" in (direct.tokenizer.chat_template or "") else None
        ours = evaluated(
            "local-chat-completions",
            "paceline_words",
            manager,
            model_args=chat,
            gen_kwargs=asked,
            apply_chat_template=True,
        )
        compare("chat paceline_words", ours, evaluated(direct, "paceline_words", manager, apply_chat_template=True))


if __name__ == "__main__":
    main()
