// What a model writes, as elements: code blocks, headings, lists, emphasis and inline code. No links, no pictures, no
// markup: every word ends up in a text node.

import { button, copy, h } from "./dom.js";

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|(?<![\w*])\*[^*\s][^*\n]*\*(?![\w*]))/;

function inline(text) {
  return text.split(INLINE).map((part, place) => {
    if (place % 2 === 0) return part;
    if (part.startsWith("`")) return h("code", {}, part.slice(1, -1));
    return part.startsWith("**") ? h("strong", {}, part.slice(2, -2)) : h("em", {}, part.slice(1, -1));
  });
}

function code(lines, language) {
  const text = lines.join("\n");
  const head = h("div", { class: "code-head" }, h("span", {}, language || "code"), button("Copy", () => copy(text), { class: "quiet" }));
  return h("div", { class: "code" }, head, h("pre", { tabindex: "0" }, h("code", {}, text)));
}

/** The elements of a text. */
export function formatted(text) {
  const blocks = [];
  let fence = null;
  let paragraph = [];
  let list = null;
  const flush = () => {
    if (paragraph.length) blocks.push(h("p", {}, inline(paragraph.join("\n"))));
    [paragraph, list] = [[], null];
  };
  for (const line of text.split("\n")) {
    const mark = line.match(/^\s*```(.*)$/);
    if (fence) {
      if (mark && !mark[1].trim()) {
        blocks.push(code(fence.lines, fence.language));
        fence = null;
      } else fence.lines.push(line);
      continue;
    }
    if (mark) {
      flush();
      fence = { language: mark[1].trim(), lines: [] };
      continue;
    }
    const heading = line.match(/^(#{1,6})\s+(.*)$/);
    const item = line.match(/^\s*(?:([-*+])|\d+[.)])\s+(.*)$/);
    if (heading) {
      flush();
      blocks.push(h("p", { class: "heading" }, inline(heading[2])));
    } else if (item) {
      const tag = item[1] ? "ul" : "ol";
      if (!list || list.localName !== tag) {
        flush();
        list = h(tag);
        blocks.push(list);
      }
      list.append(h("li", {}, inline(item[2])));
    } else if (!line.trim()) flush();
    else {
      if (list) flush();
      paragraph.push(line);
    }
  }
  if (fence) blocks.push(code(fence.lines, fence.language));
  flush();
  return blocks;
}

/** One element per token, coloured by its probability; its alternatives are told on hover, and to arrow keys. */
export function scored(tokens) {
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  const text = h("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "Tokens with their probabilities: arrow keys move" });
  const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)}%`;
  let at = -1;
  const show = (place) => {
    text.children[at]?.classList.remove("at");
    at = Math.max(0, Math.min(place, tokens.length - 1));
    text.children[at]?.classList.add("at");
    const token = tokens[at];
    const others = (token.top ?? []).map(([word, logprob]) => h("li", {}, h("code", {}, JSON.stringify(word)), ` ${percent(logprob)}`));
    tip.replaceChildren(h("strong", {}, JSON.stringify(token.text)), ` ${percent(token.logprob)}`, h("ul", {}, others));
    tip.hidden = false;
  };
  tokens.forEach((token, place) => {
    const p = Math.exp(token.logprob);
    const level = p > 0.9 ? 0 : p > 0.6 ? 1 : p > 0.3 ? 2 : p > 0.1 ? 3 : 4;
    text.append(h("span", { class: `token p${level}`, onmouseenter: () => show(place) }, token.text));
  });
  text.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      event.preventDefault();
      show(at + step);
    }
  });
  text.addEventListener("mouseleave", () => (tip.hidden = true));
  text.addEventListener("blur", () => (tip.hidden = true));
  return h("div", { class: "scored" }, text, tip);
}
