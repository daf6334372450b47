"""A long answer is running; a short request comes later. Who is answered when? Works with any OpenAI-compatible server.

python examples/late_request.py http://127.0.0.1:8000/v1 [model]
"""

from __future__ import annotations

import sys
import threading
import time

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="none")
model = sys.argv[2] if len(sys.argv) > 2 else client.models.list().data[0].id
begun = time.perf_counter()


def ask(name: str, tokens: int) -> None:
    first = None
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": f"Say something, {name}."}],
        max_tokens=tokens,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for chunk in stream:
        if first is None and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - begun
    print(f"{name}: first text after {first or 0:.2f} s, done after {time.perf_counter() - begun:.2f} s")


long = threading.Thread(target=ask, args=("long", 400))
long.start()
time.sleep(0.5)
ask("short", 8)
long.join()
