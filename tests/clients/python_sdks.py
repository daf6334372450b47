# mypy: ignore-errors
"""The Python libraries, one function each; run by an interpreter that has them, not by Paceline's.

`python python_sdks.py SERVER MODEL NAME`: exits with 0, or with what went wrong.
"""

from __future__ import annotations

import sys
from typing import Literal  # the Agents SDK looks for it here, in the annotations of tools

SERVER, MODEL, NAME = sys.argv[1:4] if len(sys.argv) > 3 else ("http://127.0.0.1:8000", "tiny", "openai")
KEY = "x"
SHORT = [{"role": "user", "content": "What is the weather in Paris?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": PARAMETERS}}


def openai() -> None:
    import json

    from openai import OpenAI

    client = OpenAI(base_url=f"{SERVER}/v1", api_key=KEY)
    assert MODEL in [model.id for model in client.models.list()]
    answer = client.chat.completions.create(model=MODEL, messages=SHORT, max_tokens=16)
    assert answer.usage.completion_tokens <= 16
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=SHORT, max_tokens=16, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].usage.total_tokens
    first = client.chat.completions.create(
        model=MODEL,
        messages=SHORT,
        tools=[TOOL],
        tool_choice={"type": "function", "function": {"name": "weather"}},
    )
    call = first.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Oslo")
    turns = [
        *SHORT,
        first.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
    ]
    second = client.chat.completions.create(model=MODEL, messages=turns, tools=[TOOL], max_tokens=16)
    details = second.usage.prompt_tokens_details
    print(f"cached {details.cached_tokens} of {second.usage.prompt_tokens}")
    assert details.cached_tokens
    assert client.completions.create(model=MODEL, prompt="Once", max_tokens=4).choices[0].text is not None


def openai_responses() -> None:
    import json

    from openai import OpenAI

    client = OpenAI(base_url=f"{SERVER}/v1", api_key=KEY)
    with client.responses.stream(model=MODEL, input="Hello", max_output_tokens=16) as stream:
        kinds = [event.type for event in stream]
        assert kinds[0] == "response.created", kinds
    tool = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}
    first = client.responses.create(
        model=MODEL, input=SHORT, tools=[tool], tool_choice={"type": "function", "name": "weather"}
    )
    call = next(item for item in first.output if item.type == "function_call")
    assert json.loads(call.arguments)["city"] in ("Paris", "Oslo")
    second = client.responses.create(
        model=MODEL,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}],
        previous_response_id=first.id,
        tools=[tool],
        max_output_tokens=16,
    )
    cached = second.usage.input_tokens_details.cached_tokens
    print(f"cached {cached} of {second.usage.input_tokens}")
    assert cached


def anthropic() -> None:
    from anthropic import Anthropic

    client = Anthropic(base_url=SERVER, api_key=KEY)
    tool = {"name": "weather", "description": "Weather.", "input_schema": PARAMETERS}
    assert client.messages.count_tokens(model=MODEL, messages=SHORT).input_tokens
    with client.messages.stream(model=MODEL, messages=SHORT, max_tokens=16) as stream:
        for _ in stream:
            pass
        stream.get_final_message()
    choice = {"type": "tool", "name": "weather"}
    first = client.messages.create(model=MODEL, messages=SHORT, max_tokens=512, tools=[tool], tool_choice=choice)
    use = next(block for block in first.content if block.type == "tool_use")
    assert use.input["city"] in ("Paris", "Oslo")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "Rain."}
    turns = [
        *SHORT,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(model=MODEL, messages=turns, max_tokens=16, tools=[tool])
    usage = second.usage
    print(f"cached {usage.cache_read_input_tokens} of {usage.cache_read_input_tokens + usage.input_tokens}")
    assert usage.cache_read_input_tokens


def litellm() -> None:
    import litellm

    common = {"model": f"openai/{MODEL}", "api_base": f"{SERVER}/v1", "api_key": KEY, "messages": SHORT}
    assert litellm.completion(**common, max_tokens=16).usage.completion_tokens <= 16
    chunks = list(litellm.completion(**common, max_tokens=16, stream=True))
    assert litellm.stream_chunk_builder(chunks).choices
    choice = {"type": "function", "function": {"name": "weather"}}
    for stream in (False, True):
        answer = litellm.completion(**common, tools=[TOOL], tool_choice=choice, stream=stream)
        if stream:
            answer = litellm.stream_chunk_builder(list(answer))
        assert answer.choices[0].message.tool_calls[0].function.name == "weather"


def langchain_openai() -> None:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    @tool
    def weather(raining: bool) -> str:
        """Tell the weather."""
        return "Rain." if raining else "Sun."

    class Answer(BaseModel):
        raining: bool

    model = ChatOpenAI(model=MODEL, base_url=f"{SERVER}/v1", api_key=KEY, max_tokens=400)
    assert model.invoke("Hello").response_metadata
    assert list(model.stream("Hello"))
    called = model.bind_tools([weather], tool_choice="weather").invoke("Weather?")
    assert called.tool_calls[0]["name"] == "weather"
    results = [weather.invoke(call) for call in called.tool_calls]
    model.bind_tools([weather]).invoke([("user", "Weather?"), called, *results])
    for method in ("json_schema", "function_calling"):
        assert isinstance(model.with_structured_output(Answer, method=method).invoke("Weather?"), Answer)


def langchain_anthropic() -> None:
    from langchain_anthropic import ChatAnthropic
    from langchain_core.tools import tool

    @tool
    def weather(raining: bool) -> str:
        """Tell the weather."""
        return "Rain." if raining else "Sun."

    model = ChatAnthropic(model=MODEL, base_url=SERVER, api_key=KEY, max_tokens=400)
    assert list(model.stream("Hello"))
    called = model.bind_tools([weather], tool_choice="weather").invoke("Weather?")
    results = [weather.invoke(call) for call in called.tool_calls]
    assert results
    model.bind_tools([weather]).invoke([("user", "Weather?"), called, *results])


def instructor() -> None:

    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class Person(BaseModel):
        name: Literal["Ada", "Alan"]
        alive: bool

    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS_STRICT):
        client = instructor.from_openai(OpenAI(base_url=f"{SERVER}/v1", api_key=KEY), mode=mode)
        person = client.chat.completions.create(model=MODEL, messages=SHORT, response_model=Person, max_retries=0)
        assert isinstance(person, Person), mode


def pydantic_ai() -> None:

    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Person(BaseModel):
        name: Literal["Ada", "Alan"]
        alive: bool

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{SERVER}/v1", api_key=KEY))
    for kind in (NativeOutput, ToolOutput):
        result = Agent(model, output_type=kind(Person)).run_sync("Who?")
        assert isinstance(result.output, Person), kind


def llama_index() -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    def weather(raining: bool) -> str:
        """Tell the weather."""
        return "Rain." if raining else "Sun."

    model = OpenAILike(
        model=MODEL,
        api_base=f"{SERVER}/v1",
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8192,
        max_tokens=200,
    )
    messages = [ChatMessage(role="user", content="Weather?")]
    assert model.chat(messages).raw.usage.completion_tokens
    assert list(model.stream_chat(messages))
    assert model.complete("Hello").text is not None
    tool = FunctionTool.from_defaults(weather)
    called = model.chat_with_tools([tool], user_msg="Weather?", tool_required=True)
    assert model.get_tool_calls_from_response(called)[0].tool_name == "weather"


def openai_agents() -> None:
    """Tools and an output type in one agent: the first turn is a forced call, the last one is in the format."""
    from pathlib import Path

    sys.path.remove(str(Path(__file__).resolve().parent))  # there is an agents.py beside this file, too

    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
    from agents import set_tracing_disabled as disable_tracing
    from openai import AsyncOpenAI
    from pydantic import BaseModel

    disable_tracing(True)
    asked = []

    @function_tool
    def weather(city: Literal["Paris", "Oslo"]) -> str:
        """Get the weather in a city."""
        asked.append(city)
        return '{"sky": "sunny", "raining": false}'

    class Weather(BaseModel):
        sky: Literal["sunny", "cloudy"]
        raining: bool

    client = AsyncOpenAI(base_url=f"{SERVER}/v1", api_key=KEY)
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        for choice in ("required", "weather"):
            agent = Agent(
                name="Weather",
                model=kind(model=MODEL, openai_client=client),
                tools=[weather],
                output_type=Weather,
                model_settings=ModelSettings(temperature=0, max_tokens=200, tool_choice=choice),
            )
            asked.clear()
            result = Runner.run_sync(agent, SHORT[0]["content"])
            assert asked and isinstance(result.final_output, Weather), (kind, choice)


if __name__ == "__main__":
    globals()[NAME.replace("-", "_")]()
