"""Several conversations at once, in one process, without a server.

python examples/chat.py [MODEL]
"""

import asyncio
import sys

from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling

QUESTIONS = ["What is a paceline?", "Name three rivers.", "Count to five."]


async def main() -> None:
    settings = Settings(model=sys.argv[1] if len(sys.argv) > 1 else None)
    async with Service(settings) as service:
        requests = [
            ChatRequest([{"role": "user", "content": question}], Sampling(temperature=0, max_tokens=60))
            for question in QUESTIONS
        ]
        answers = await asyncio.gather(*(service.chat(request) for request in requests))
        for question, answer in zip(QUESTIONS, answers, strict=True):
            print(f"\n{question}\n{answer.choices[0].text}  [{answer.usage.completion_tokens} tokens]")


asyncio.run(main())
