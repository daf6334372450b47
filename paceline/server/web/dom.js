// Elements from data. A string is always a text node: nothing here, or anywhere on the page, parses markup.

export const byId = (id) => document.getElementById(id);

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const button = (label, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, label);

/** Changes the text only where it differs: an unchanged node costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const focusName = (control) => [control.closest("[data-key]")?.dataset.key, control.getAttribute("aria-label") ?? control.textContent];

/** Runs `change`, which makes what is in `element` anew. A control that had the focus has it again: the one of the same
    name in the same part (`data-key`), otherwise one of that part, otherwise `fallback`. */
export function keepingFocus(element, fallback, change) {
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  const [part, name] = held ? focusName(held) : [];
  change();
  if (!held || held.isConnected) return;
  const controls = [...element.querySelectorAll("button:enabled, summary, [tabindex='0']")];
  const same = controls.find((control) => String(focusName(control)) === String([part, name]));
  const near = part && controls.find((control) => control.matches("button") && focusName(control)[0] === part);
  (same ?? (near || fallback)).focus({ preventScroll: true });
}

export function announce(text) {
  byId("announce").textContent = text;
}

export const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format;

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (count >= 1000 && place < units.length - 1) [count, place] = [count / 1000, place + 1];
  return `${count >= 100 || place === 0 ? Math.round(count) : count.toFixed(1)} ${units[place]}`;
}

export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(milliseconds < 10000 ? 2 : 1)} s`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  } catch {
    announce("The browser did not allow copying");
  }
}
