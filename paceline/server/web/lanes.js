// The batch: one lane per sequence. Lanes are kept and changed in place, so that many of them cost little.

import { button, h, number, setText } from "./dom.js";

const LEAVING_MS = 1200;
const MANY = 32; // lanes whose bars do not glide: each frame of a glide lays out all of them
const STATES = {
  prefill: "reading",
  decode: "writing",
  waiting_for_prefix: "waits for a shared prefix",
  scoring: "scored by the draft model",
  waiting: "waits",
};

/** Of `client-a1b2c3d4e5f6/user-0a1b2c3d4e5f` the end, shortened: a hash tells lanes apart, and nothing more. */
const named = (tenant) => (tenant.split("/").at(-1) || "client").replace(/^(client|user)-([0-9a-f]{4})[0-9a-f]{8}$/, "$1 $2");

export class Lanes {
  constructor(element, cancel) {
    this.element = element;
    this.cancel = cancel;
    this.lanes = new Map();
  }

  update(sequences) {
    const longest = Math.max(64, ...sequences.map((sequence) => sequence.generated_tokens));
    const seen = new Set();
    for (const sequence of sequences) {
      seen.add(sequence.number);
      let lane = this.lanes.get(sequence.number);
      if (!lane) {
        lane = new Lane(this.cancel);
        this.lanes.set(sequence.number, lane);
        this.element.append(lane.element);
      }
      lane.update(sequence, longest);
    }
    for (const [place, lane] of this.lanes) {
      if (seen.has(place)) continue;
      this.lanes.delete(place);
      if (lane.element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
      lane.leave();
    }
    this.element.classList.toggle("many", this.lanes.size > MANY);
  }

  clear() {
    for (const lane of this.lanes.values()) lane.element.remove();
    this.lanes.clear();
  }
}

class Lane {
  constructor(cancel) {
    this.who = h("span", { class: "lane-who" });
    this.state = h("span", { class: "lane-state" });
    this.cached = h("i", { class: "cached" });
    this.prefilled = h("i", { class: "prefilled" });
    this.accepted = h("i", { class: "accepted" });
    this.generated = h("i", { class: "generated" });
    this.figures = h("span", { class: "lane-figures" });
    this.cancel = button("Cancel", () => cancel(this.id), { class: "quiet", hidden: true });
    const prompt = h("span", { class: "track prompt" }, this.cached, this.prefilled);
    const answer = h("span", { class: "track output" }, this.generated, this.accepted);
    const bars = h("span", { class: "bars", "aria-hidden": "true" }, prompt, answer);
    this.element = h("li", { class: "lane joining" }, this.who, this.state, bars, this.figures, this.cancel);
    requestAnimationFrame(() => this.element.classList.remove("joining"));
  }

  update(sequence, longest) {
    this.id = sequence.id;
    const total = Math.max(sequence.prompt_tokens, 1);
    setText(this.who, `${named(sequence.tenant)} #${sequence.number}`);
    setText(this.state, sequence.reason ? `${STATES[sequence.state]}: ${sequence.reason.replaceAll("_", " ")}` : STATES[sequence.state] ?? sequence.state);
    if (this.element.dataset.state !== sequence.state) this.element.dataset.state = sequence.state;
    width(this.cached, sequence.cached_tokens / total);
    width(this.prefilled, Math.max(0, sequence.prefilled_tokens - sequence.cached_tokens) / total);
    const accepted = Math.min(sequence.accepted_tokens, sequence.generated_tokens);
    width(this.generated, (sequence.generated_tokens - accepted) / longest);
    width(this.accepted, accepted / longest);
    const drafts = sequence.drafted_tokens ? ` · ${sequence.accepted_tokens}/${sequence.drafted_tokens} drafts` : "";
    setText(this.figures, `${number(sequence.prefilled_tokens)}/${number(sequence.prompt_tokens)} in · ${number(sequence.cached_tokens)} cached · ${number(sequence.generated_tokens)} out${drafts}`);
    this.cancel.hidden = sequence.id === null;
    if (sequence.id !== null) this.cancel.setAttribute("aria-label", `Cancel ${this.who.textContent}`);
  }

  leave() {
    this.cancel.hidden = true;
    this.element.classList.add("leaving");
    setTimeout(() => this.element.remove(), LEAVING_MS);
  }
}

function width(bar, share) {
  const wanted = `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(2)}%`;
  if (bar.dataset.width === wanted) return;
  bar.dataset.width = wanted;
  bar.style.width = wanted;
}
