// One answer: the request that asks for it, its stream, and how it is shown.

import { chat, curl } from "./api.js";
import { button, copy, duration, h, number, setText } from "./dom.js";
import { thumbnail } from "./attachments.js";
import * as health from "./health.js";
import { fields } from "./settings.js";
import { formatted, scored } from "./text.js";

const FORMAT_MS = 80; // at least, between two times that a growing text is laid out
const FORMAT_SHARE = 0.2; // at most, of the time: a text of megabytes is laid out less often

/** The messages of a request, from the nodes of a conversation. */
export function messages(nodes, system) {
  const made = system ? [{ role: "system", content: system }] : [];
  for (const node of nodes) {
    if (node.role === "tool") made.push({ role: "tool", tool_call_id: node.call, content: node.text });
    else if (node.role === "assistant") {
      const calls = (node.calls ?? []).map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
      made.push({ role: "assistant", content: node.text || (calls.length ? null : ""), ...(calls.length ? { tool_calls: calls } : {}) });
    } else made.push({ role: "user", content: userContent(node) });
  }
  return made;
}

function userContent(node) {
  const items = node.attachments ?? [];
  const files = items.filter((item) => item.kind === "file").map((item) => `File ${item.name}:\n\`\`\`\n${item.text}\n\`\`\`\n\n`);
  const text = files.join("") + node.text;
  const pictures = items.filter((item) => item.kind === "picture").map((item) => ({ type: "image_url", image_url: { url: item.url } }));
  return pictures.length ? [...pictures, { type: "text", text }] : text;
}

export function requestBody(model, nodes, settings) {
  return { ...(model ? { model } : {}), messages: messages(nodes, settings.system), ...fields(settings), stream: true, stream_options: { include_usage: true } };
}

/** Streams an answer into `node`; `changed` is called as it grows. Never raises: what went wrong is in `node.error`. */
export async function generate(node, body, signal, changed) {
  const began = performance.now();
  let first = null;
  let last = began;
  Object.assign(node, { text: "", reasoning: "", calls: [], error: null, finish: null, figures: null });
  delete node.tokens;
  try {
    for await (const chunk of chat(body, signal)) {
      const choice = chunk.choices?.[0];
      if (chunk.usage) node.figures = figures(chunk.usage, began, first, last);
      if (!choice) continue;
      const delta = choice.delta ?? {};
      const says = delta.content || delta.reasoning_content || delta.tool_calls || choice.logprobs;
      if (says) {
        last = performance.now();
        first ??= last;
      }
      node.text += delta.content ?? "";
      node.reasoning += delta.reasoning_content ?? "";
      for (const part of delta.tool_calls ?? []) {
        const call = (node.calls[part.index] ??= { id: "", name: "", arguments: "" });
        call.id ||= part.id ?? "";
        call.name += part.function?.name ?? "";
        call.arguments += part.function?.arguments ?? "";
      }
      for (const entry of choice.logprobs?.content ?? []) {
        (node.tokens ??= []).push({ text: entry.token, logprob: entry.logprob, top: (entry.top_logprobs ?? []).map((top) => [top.token, top.logprob]) });
      }
      if (choice.finish_reason) node.finish = choice.finish_reason;
      changed();
    }
  } catch (error) {
    if (signal.aborted) node.finish = "stopped";
    else {
      node.error = error instanceof TypeError ? "The server cannot be reached." : error.message;
      health.check();
    }
  }
  node.figures ??= first === null ? null : { first: first - began, total: performance.now() - began };
  changed();
}

function figures(usage, began, first, last) {
  const generated = usage.completion_tokens;
  const seconds = first === null ? 0 : (last - first) / 1000;
  return {
    first: first === null ? null : first - began,
    total: last - began,
    rate: seconds > 0 && generated > 1 ? (generated - 1) / seconds : null,
    prompt: usage.prompt_tokens,
    generated,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    accepted: usage.completion_tokens_details?.accepted_prediction_tokens ?? 0,
    drafted: (usage.completion_tokens_details?.accepted_prediction_tokens ?? 0) + (usage.completion_tokens_details?.rejected_prediction_tokens ?? 0),
  };
}

/** An answer's element; `update()` shows its growth, and `update(true)` its end. */
export class AnswerView {
  constructor(node, body) {
    this.node = node;
    this.thinking = h("details", { class: "thinking", hidden: true }, h("summary", {}, "Thinking"), (this.thoughts = h("div")));
    this.text = h("div", { class: "text" });
    this.calls = h("div", { class: "calls" });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.figures = h("div", { class: "figures" });
    this.more = h("details", { class: "curl", hidden: !body }, h("summary", {}, "curl"), (this.command = h("div")));
    this.more.addEventListener("toggle", () => {
      if (this.more.open && !this.command.childElementCount) {
        const command = curl(body());
        this.command.append(h("pre", { tabindex: "0" }, command), button("Copy", () => copy(command), { class: "quiet" }));
      }
    });
    this.element = h("div", { class: "answer" }, this.thinking, this.text, this.calls, this.error, this.figures, this.more);
    this.shown = "";
    this.due = null;
    this.took = 0;
    this.update(true);
  }

  update(ended = false) {
    if (ended) {
      clearTimeout(this.due);
      this.due = null;
      this.render(true);
    } else this.due ??= setTimeout(() => {
      this.due = null;
      const began = performance.now();
      this.render(false);
      this.took = performance.now() - began;
    }, Math.max(FORMAT_MS, this.took / FORMAT_SHARE));
  }

  render(ended) {
    const node = this.node;
    this.thinking.hidden = !node.reasoning;
    setText(this.thoughts, node.reasoning ?? "");
    if (ended && node.tokens?.length && !node.calls?.length && !node.reasoning) this.text.replaceChildren(scored(node.tokens));
    else if (node.text !== this.shown || ended) this.text.replaceChildren(...formatted(node.text ?? ""));
    this.shown = node.text;
    this.calls.replaceChildren(...(node.calls ?? []).map((call) => h("div", { class: "call" }, h("strong", {}, call.name), h("pre", { tabindex: "0" }, pretty(call.arguments)))));
    this.error.hidden = !node.error;
    setText(this.error, node.error ?? "");
    this.element.classList.toggle("growing", !ended);
    setText(this.figures, ended ? figuresLine(node) : "");
  }
}

function figuresLine(node) {
  const seen = node.figures;
  const parts = [];
  if (seen) {
    parts.push(`first token ${duration(seen.first)}`);
    if (seen.rate) parts.push(`${number(seen.rate)} tokens/s`);
    if (seen.generated !== undefined) parts.push(`${seen.prompt} in, ${seen.generated} out`, `${seen.cached} cached`, seen.drafted ? `${seen.accepted} of ${seen.drafted} drafts accepted` : "no drafts");
    parts.push(`${duration(seen.total)} in all`);
  }
  if (node.finish && node.finish !== "stop") parts.push(`ended: ${node.finish}`);
  return parts.join(" · ");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function userMessage(node) {
  return h("div", { class: "text" }, h("div", { class: "attachments" }, (node.attachments ?? []).map(thumbnail)), h("p", {}, node.text));
}
