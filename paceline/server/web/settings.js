// What a request is sent with: the form, and the request's fields that it stands for.

import { h } from "./dom.js";
import { newId } from "./store.js";

export const DEFAULTS = {
  system: "",
  temperature: "",
  top_p: "",
  top_k: "",
  min_p: "",
  repetition_penalty: "",
  max_tokens: "",
  seed: "",
  stop: "",
  thinking: "",
  speculation: "",
  logprobs: false,
  tools: "",
  schema: "",
};

const EXAMPLE_TOOLS = JSON.stringify([{ type: "function", function: { name: "get_weather", description: "The weather in a city", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }], null, 2);
const EXAMPLE_SCHEMA = JSON.stringify({ type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name", "age"], additionalProperties: false }, null, 2);

const NUMBERS = [
  ["temperature", "Temperature", { min: 0, step: "any" }],
  ["top_p", "Top p", { min: 0, max: 1, step: "any" }],
  ["top_k", "Top k", { min: 0, step: 1 }],
  ["min_p", "Min p", { min: 0, max: 1, step: "any" }],
  ["repetition_penalty", "Repetition penalty", { min: 0, step: "any" }],
  ["max_tokens", "Max tokens", { min: 1, step: 1 }],
  ["seed", "Seed", { step: 1 }],
];

/** The form. `values` is changed as the user writes, and `changed` called. */
export function form(values, changed, defaults = {}) {
  const unique = newId();
  const set = (name, value) => {
    values[name] = value;
    changed(name);
  };
  const labelled = (name, label, control) => {
    control.id = `${unique}-${name}`;
    control.setAttribute("name", name);
    return h("div", { class: "field" }, h("label", { for: control.id }, label), control);
  };
  const area = (name, label, rows, placeholder = "") =>
    labelled(name, label, h("textarea", { rows, placeholder, spellcheck: "false", value: values[name] ?? "", oninput: (event) => set(name, event.target.value) }));
  const select = (name, label, options) =>
    labelled(name, label, h("select", { onchange: (event) => set(name, event.target.value) }, options.map(([value, text]) => h("option", { value, selected: values[name] === value }, text))));
  const numbers = NUMBERS.map(([name, label, limits]) =>
    labelled(name, label, h("input", { type: "number", ...limits, value: values[name] ?? "", placeholder: defaults[name] ?? "default", oninput: (event) => set(name, event.target.value) })));
  const example = (name, text) =>
    h("button", { type: "button", class: "quiet", onclick: (event) => {
      const field = event.target.parentElement.querySelector("textarea");
      field.value = text;
      set(name, text);
    } }, "Example");
  const logprobs = h("input", { type: "checkbox", id: `${unique}-logprobs`, checked: Boolean(values.logprobs), onchange: (event) => set("logprobs", event.target.checked) });
  return h("div", { class: "settings" },
    area("system", "System prompt", 3),
    h("div", { class: "grid" }, numbers),
    labelled("stop", "Stop at (one a line)", h("textarea", { rows: 1, value: values.stop ?? "", oninput: (event) => set("stop", event.target.value) })),
    h("div", { class: "grid" },
      select("thinking", "Thinking", [["", "default"], ["on", "on"], ["off", "off"]]),
      select("speculation", "Speculation", [["", "default"], ["auto", "auto"], ["off", "off"]])),
    h("div", { class: "check" }, logprobs, h("label", { for: logprobs.id }, "Probabilities of tokens (hover)")),
    h("details", { open: Boolean(values.tools) }, h("summary", {}, "Tools"), area("tools", "Definitions (JSON)", 7, "[{\"type\": \"function\", …}]"), example("tools", EXAMPLE_TOOLS)),
    h("details", { open: Boolean(values.schema) }, h("summary", {}, "JSON schema of the answer"), area("schema", "Schema (JSON)", 7, "{\"type\": \"object\", …}"), example("schema", EXAMPLE_SCHEMA)));
}

/** The settings in a few words. */
export function summary(values) {
  const words = [];
  if (values.system) words.push("system prompt");
  if (values.tools?.trim()) words.push("tools");
  if (values.schema?.trim()) words.push("JSON schema");
  for (const name of ["temperature", "max_tokens", "seed"]) if (values[name] !== "" && values[name] != null) words.push(`${name.replace("_", " ")} ${values[name]}`);
  return words.join(" · ");
}

/** The fields of a request. Raises where the user's JSON is none. */
export function fields(values) {
  const made = {};
  for (const [name] of NUMBERS) if (values[name] !== "" && values[name] != null) made[name] = Number(values[name]);
  const stop = (values.stop ?? "").split("\n").filter(Boolean);
  if (stop.length) made.stop = stop;
  if (values.thinking) made.enable_thinking = values.thinking === "on";
  if (values.speculation) made.speculation = values.speculation;
  if (values.logprobs) Object.assign(made, { logprobs: true, top_logprobs: 5 });
  if (values.tools?.trim()) made.tools = parsed(values.tools, "The tools are");
  if (values.schema?.trim()) made.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema: parsed(values.schema, "The schema is") } };
  return made;
}

function parsed(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} not JSON: ${error.message}`);
  }
}
