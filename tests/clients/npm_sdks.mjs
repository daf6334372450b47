// OpenAI's and Anthropic's SDKs from npm: `node npm_sdks.mjs SERVER MODEL`.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [server, model] = process.argv.slice(2);
const parameters = {
  type: "object",
  properties: { city: { enum: ["Paris", "Oslo"] } },
  required: ["city"],
  additionalProperties: false,
};
const messages = [{ role: "user", content: "What is the weather in Paris?" }];

const openai = new OpenAI({ baseURL: `${server}/v1`, apiKey: "x" });
let tokens = 0;
const options = { stream: true, stream_options: { include_usage: true } };
for await (const chunk of await openai.chat.completions.create({ model, messages, max_tokens: 16, ...options }))
  tokens = chunk.usage?.completion_tokens ?? tokens;
assert(tokens > 0);
const completion = await openai.chat.completions.create({
  model,
  messages,
  tools: [{ type: "function", function: { name: "weather", parameters } }],
  tool_choice: { type: "function", function: { name: "weather" } },
});
assert(JSON.parse(completion.choices[0].message.tool_calls[0].function.arguments).city);
const response = await openai.responses.create({ model, input: "Hello", max_output_tokens: 16 });
assert(response.usage.output_tokens > 0);

const anthropic = new Anthropic({ baseURL: server, apiKey: "x" });
const stream = anthropic.messages.stream({
  model,
  messages,
  max_tokens: 512,
  tools: [{ name: "weather", input_schema: parameters }],
  tool_choice: { type: "tool", name: "weather" },
});
const message = await stream.finalMessage();
assert(message.content.find((block) => block.type === "tool_use").input.city);
console.log("streams and tool calls");
