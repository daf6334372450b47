// Whether the server can be used: asked once, and again and again only while it cannot.

import { byId, setText } from "./dom.js";

const AGAIN_MS = 2000;
let timer = null;
let usable = null;
const listeners = [];

export const onUsable = (listener) => listeners.push(listener);

export function tell(state, text) {
  byId("dot").dataset.state = state;
  setText(byId("server"), text);
}

export async function check() {
  clearTimeout(timer);
  timer = null;
  let problem = null;
  try {
    const response = await fetch("/ready", { cache: "no-store" });
    if (!response.ok) problem = (await response.json()).error?.message ?? "not ready";
  } catch {
    problem = "The server cannot be reached.";
  }
  const before = usable;
  usable = problem === null;
  tell(usable ? "ok" : "bad", problem ?? "ready");
  if (usable && before === false) for (const listener of listeners) listener();
  if (!usable && !document.hidden) timer = setTimeout(check, AGAIN_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) check();
});
