"""One answer, piece by piece; leaving the loop early frees its place in the batch.

python examples/stream.py [MODEL]
"""

import asyncio
import sys
from contextlib import aclosing

from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling


async def main() -> None:
    settings = Settings(model=sys.argv[1] if len(sys.argv) > 1 else None)
    async with Service(settings) as service:
        request = GenerateRequest("Once upon a time", Sampling(temperature=0.8, seed=7, max_tokens=100))
        async with aclosing(service.stream_generate(request)) as stream:
            async for delta in stream:
                print(delta.text, end="", flush=True)
                if delta.finish_reason:
                    print(f"\n[{delta.finish_reason}, {delta.usage}]")


asyncio.run(main())
