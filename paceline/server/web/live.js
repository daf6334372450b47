// The live view: the batch, the queue, memory and the last minutes, fed by one stream. The stream is open only while the
// view can be seen.

import { events, request } from "./api.js";
import { Tile } from "./chart.js";
import { announce, button, bytes, byId, duration, h, keepingFocus, number, setText } from "./dom.js";
import * as health from "./health.js";
import { Lanes } from "./lanes.js";
import { demo } from "./load.js";

const SLOT_SECONDS = 5;
const SLOTS = 120;
const AGAIN_MS = [500, 1000, 2000, 4000];
const TOLD_MS = 10_000; // between two summaries for screen readers

let shown = false;
let connection = null;
let failures = 0;
let told = 0;
let latest = null;
const slots = new Map();
const parts = {};

export function start() {
  const tile = (name, label) => (parts[name] = new Tile(label)).element;
  const panel = (name, title, tag, properties = {}) => h("section", { class: `panel ${name}` }, h("h2", {}, title), (parts[name] = h(tag, properties)));
  parts.problem = h("p", { class: "error", role: "alert", hidden: true });
  parts.refusal = h("p", { class: "error", role: "alert", hidden: true });
  parts.summary = h("p", { class: "live-summary" }, "Waiting for the first figures.");
  parts.demo = button("Load demo", toggleDemo, { class: "primary", title: "Eight small streams and a long prompt, on this server" });
  parts.progress = h("span", { class: "hint", role: "status" });
  const batch = panel("lanes", "Batch", "ul", { class: "lane-list", "aria-label": "Running sequences", tabindex: "0" });
  batch.append(h("p", { class: "legend" }, ...[["cached", "cached"], ["prefilled", "prefilled"], ["generated", "generated"], ["accepted", "drafted and accepted"]].flatMap(([kind, text]) => [h("i", { class: `key ${kind}` }), text])));
  byId("view-live").append(
    h("div", { class: "live-head" }, parts.summary, parts.progress, parts.demo),
    parts.problem,
    parts.refusal,
    h("div", { class: "tiles" }, tile("rate", "Tokens per second"), tile("first", "First token"), tile("inter", "Between tokens"), tile("hits", "Prefix cache hits"), tile("drafts", "Drafts accepted")),
    h("div", { class: "panels" }, batch,
      h("div", { class: "stack" }, panel("queue", "Queue", "ul", { class: "lane-list", "aria-label": "Waiting sequences", tabindex: "-1" }), panel("memory", "Memory", "div"), panel("prefixes", "Largest prefixes", "div"), panel("faults", "Faults and refusals", "dl"))));
  parts.running = new Lanes(parts.lanes, cancel);
  parts.waiting = new Lanes(parts.queue, cancel);
  document.addEventListener("visibilitychange", follow);
  health.check();
}

export function visible(is) {
  shown = is;
  follow();
}

export function reconnect() {
  connection?.abort();
  connection = null;
  follow();
}

/** Opens the stream where the view can be seen, and closes it where not. */
function follow() {
  const wanted = shown && !document.hidden;
  if (wanted && !connection) {
    connection = new AbortController();
    read(connection);
  } else if (!wanted && connection) {
    connection.abort();
    connection = null;
  }
}

async function read(mine) {
  try {
    const response = await request("/v1/status/stream", { signal: mine.signal });
    for await (const { event, data } of events(response)) {
      if (mine.signal.aborted) return;
      failures = 0;
      if (event === "history") JSON.parse(data).slots.forEach(keep);
      else if (event === "status") show(JSON.parse(data));
    }
    throw new TypeError("ended");
  } catch (error) {
    if (mine.signal.aborted) return;
    problem(error instanceof TypeError ? "The connection to the server was lost; trying again." : error.message);
    parts.running.clear();
    parts.waiting.clear();
    health.check();
    if (error.status === 401) return; // asked once: the Key button, or another look at this view, asks again
    const pause = AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)];
    setTimeout(() => {
      if (connection === mine) {
        connection = null;
        follow();
      }
    }, pause);
  }
}

function tell(place, text) {
  place.hidden = !text;
  setText(place, text);
}

const problem = (text) => tell(parts.problem, text); // of the connection: gone with the next figures
const refusal = (text) => tell(parts.refusal, text); // of what the user did: stays until the next time

const keep = (slot) => slots.set(slot.time, slot);

function show(status) {
  latest = status;
  problem("");
  status.slots.forEach(keep);
  for (const time of slots.keys()) if (time < status.time - SLOT_SECONDS * (SLOTS + 1)) slots.delete(time);
  const ready = status.state === "ready" && !status.draining;
  health.tell(ready ? "ok" : "bad", status.draining ? "stopping" : status.state);
  const model = status.model;
  const text = `${status.num_requests_running}${model ? ` of ${model.max_num_seqs}` : ""} running, ${status.num_requests_waiting} waiting${model ? ` · ${model.name} on ${model.device}` : ""}`;
  setText(parts.summary, text);
  if (Date.now() - told > TOLD_MS && shown) {
    told = Date.now();
    announce(text);
  }
  parts.running.update(status.running_sequences);
  parts.waiting.update(status.waiting_sequences);
  charts(status);
  memory(status);
  prefixes(status.prefix_cache);
  faults(status);
}

function charts(status) {
  const end = Math.floor(status.time / SLOT_SECONDS) * SLOT_SECONDS;
  const line = (value) => Array.from({ length: SLOTS }, (_, place) => value(slots.get(end - (SLOTS - 1 - place) * SLOT_SECONDS)));
  const share = (part, whole) => line((slot) => (slot && slot[whole] ? slot[part] / slot[whole] : null));
  const percent = (value) => (value === null || Number.isNaN(value) ? "–" : `${Math.round(100 * value)}%`);
  const total = (name) => [...slots.values()].reduce((sum, slot) => sum + slot[name], 0);
  const last = (name, place) => [...slots.values()].sort((a, b) => a.time - b.time).filter((slot) => slot[name][place] !== null).at(-1)?.[name][place] ?? null;
  parts.rate.draw(number(status.throughput.generation_tokens_per_second), [line((slot) => (slot ? slot.generation_tokens / SLOT_SECONDS : 0))], number);
  for (const [tile, name] of [["first", "first_token_ms"], ["inter", "inter_token_ms"]]) {
    parts[tile].draw(`${duration(last(name, 0))} · p95 ${duration(last(name, 1))}`, [line((slot) => slot?.[name][0] ?? null), line((slot) => slot?.[name][1] ?? null)], duration);
  }
  parts.hits.draw(percent(total("prompt_tokens") ? total("cached_tokens") / total("prompt_tokens") : null), [share("cached_tokens", "prompt_tokens")], percent);
  parts.drafts.draw(percent(total("drafted_tokens") ? total("accepted_tokens") / total("drafted_tokens") : null), [share("accepted_tokens", "drafted_tokens")], percent);
}

function memory(status) {
  const budget = status.memory_budget;
  if (!budget) return parts.memory.replaceChildren(h("p", { class: "hint" }, "Not known before the model is loaded."));
  const held = Object.entries(budget.parts).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]);
  const signature = JSON.stringify([held, budget.limit_bytes]);
  if (parts.memory.dataset.shown === signature) return undefined;
  parts.memory.dataset.shown = signature;
  const bar = h("div", { class: "memory-bar", role: "img", "aria-label": `Memory: ${bytes(budget.limit_bytes - budget.free_bytes)} of ${bytes(budget.limit_bytes)}` });
  held.forEach(([name, size], place) => {
    const segment = h("i", { class: `m${place % 8}`, title: `${name}: ${bytes(size)}` });
    segment.style.width = `${(100 * size) / budget.limit_bytes}%`;
    bar.append(segment);
  });
  const rows = held.map(([name, size], place) => h("li", {}, h("i", { class: `key m${place % 8}` }), `${name} ${bytes(size)}`));
  return parts.memory.replaceChildren(bar, h("ul", { class: "legend" }, rows, h("li", {}, `limit ${bytes(budget.limit_bytes)}, free ${bytes(budget.free_bytes)}`)));
}

function prefixes(cache) {
  const signature = JSON.stringify([cache.entries, cache.memory_bytes, cache.largest.map((entry) => [entry.tokens, entry.bytes, entry.hits, entry.in_use])]);
  if (parts.prefixes.dataset.shown === signature) return;
  parts.prefixes.dataset.shown = signature;
  if (!cache.enabled) return parts.prefixes.replaceChildren(h("p", { class: "hint" }, `Off: ${cache.reason}.`));
  const head = h("tr", {}, ["tokens", "size", "hits", "where"].map((name) => h("th", { scope: "col" }, name)));
  const rows = cache.largest.map((entry) => h("tr", {}, h("td", {}, number(entry.tokens)), h("td", {}, bytes(entry.bytes)), h("td", {}, String(entry.hits)), h("td", {}, `${entry.tier}${entry.in_use ? ", in use" : ""}`)));
  const content = [h("p", {}, `${cache.entries} prefixes, ${bytes(cache.memory_bytes)} of ${bytes(cache.memory_limit_bytes)} `, button("Clear", clearCache, { class: "quiet", "aria-label": "Clear the prefix cache" })), h("table", {}, h("thead", {}, head), h("tbody", {}, rows))];
  return keepingFocus(parts.prefixes, parts.demo, () => parts.prefixes.replaceChildren(...content));
}

function faults(status) {
  const counts = { "failed steps": status.failed_steps, "out of memory": status.out_of_memory };
  for (const [cause, count] of Object.entries(status.preemptions)) counts[`preempted: ${cause}`] = count;
  for (const [cause, count] of Object.entries(status.requests_refused)) counts[`refused: ${cause.replaceAll("_", " ")}`] = count;
  for (const [reason, count] of Object.entries(status.requests_finished)) counts[`ended: ${reason}`] = count;
  const seen = Object.entries(counts).filter(([name, count]) => count > 0 || name === "failed steps");
  const signature = JSON.stringify(seen);
  if (parts.faults.dataset.shown === signature) return;
  parts.faults.dataset.shown = signature;
  parts.faults.replaceChildren(...seen.map(([name, count]) => h("div", {}, h("dt", {}, name), h("dd", {}, number(count)))));
}

// -- what changes the server

async function act(path, options, done) {
  refusal("");
  try {
    const response = await request(path, options);
    announce(done(await response.json()));
  } catch (error) {
    refusal(error instanceof TypeError ? "The server cannot be reached." : error.message);
  }
}

const cancel = (id) => act(`/v1/requests/${encodeURIComponent(id)}`, { method: "DELETE" }, () => "Cancelled");

function clearCache() {
  if (confirm("Forget all cached prefixes?")) act("/v1/cache/clear", { method: "POST" }, ({ cleared }) => `Cleared ${bytes(cleared.bytes)}`);
}

let demoing = null;

async function toggleDemo() {
  if (demoing) return demoing.abort();
  demoing = new AbortController();
  setText(parts.demo, "Stop the demo");
  await demo({ contextLength: latest?.model?.context_length, signal: demoing.signal, progress: (text) => setText(parts.progress, text) });
  setText(parts.demo, "Load demo");
  demoing = null;
  return undefined;
}
