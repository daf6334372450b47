// One prompt to two settings, side by side and at the same time.

import { AnswerView, generate, requestBody } from "./answer.js";
import { byId, h } from "./dom.js";
import { DEFAULTS, form } from "./settings.js";
import { preference } from "./store.js";

const SIDES = ["a", "b"];

export function start() {
  const settings = preference("compare") ?? { a: { ...DEFAULTS, temperature: "0" }, b: { ...DEFAULTS, temperature: "1" } };
  let controller = null;
  for (const side of SIDES) byId(`compare-settings-${side}`).append(form(settings[side], () => preference("compare", settings)));
  byId("compare-stop").addEventListener("click", () => controller?.abort());
  byId("compare-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = byId("compare-prompt").value.trim();
    if (!text || controller) return;
    controller = new AbortController();
    byId("compare-stop").hidden = false;
    await Promise.all(SIDES.map((side) => run(side, text, settings[side], controller.signal)));
    controller = null;
    byId("compare-stop").hidden = true;
  });
}

async function run(side, text, settings, signal) {
  const place = byId(`compare-${side}`);
  let body;
  try {
    body = requestBody(byId("model").value, [{ role: "user", text }], settings);
  } catch (error) {
    place.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    return;
  }
  const node = { role: "assistant", text: "" };
  const view = new AnswerView(node, () => body);
  place.replaceChildren(view.element);
  await generate(node, body, signal, () => view.update());
  view.update(true);
}
