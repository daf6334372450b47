// The chat: conversations, the thread with its branches, and the composer.

import { request } from "./api.js";
import { Attachments } from "./attachments.js";
import { AnswerView, generate, requestBody, userMessage } from "./answer.js";
import { announce, button, byId, copy, h, keepingFocus, setText } from "./dom.js";
import { DEFAULTS, form, summary } from "./settings.js";
import * as store from "./store.js";

let conversations = [];
let current = null;
let running = null; // {controller, node, ended}: `ended` resolves when it has stopped
let defaults = {};
let attachments;

export async function start() {
  attachments = new Attachments(byId("attachments"), notice);
  attachments.listen(byId("view-chat"));
  open(fresh());
  byId("new").addEventListener("click", () => {
    open(fresh());
    byId("prompt").focus();
  });
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  byId("prompt").addEventListener("input", grow);
  byId("stop").addEventListener("click", stop);
  byId("attach").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", (event) => {
    attachments.add([...event.target.files]);
    event.target.value = "";
  });
  byId("model").addEventListener("change", (event) => {
    current.settings.model = event.target.value;
    persist();
  });
  for (const side of ["conversations", "settings"]) toggles(side);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running && !byId("view-chat").hidden) stop();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });
  await Promise.all([loadModels(), loadConversations()]);
}

async function loadConversations() {
  try {
    conversations.push(...(await store.all()));
  } catch {
    notice("This browser keeps no conversations (is it a private window?).");
  }
  const untouched = !store.path(current).length && !byId("prompt").value && !attachments.items.length;
  if (conversations.length && untouched) open(conversations[0]);
  else showList();
}

/** Another tab may have added, changed or deleted conversations. */
async function refresh() {
  let stored;
  try {
    stored = await store.all();
  } catch {
    return;
  }
  const known = conversations.includes(current);
  conversations = stored.map((conversation) => (conversation.id === current.id ? store.merge(current, conversation) : conversation));
  if (known && !conversations.includes(current)) conversations.unshift(current);
  showList();
}

function toggles(side) {
  const control = byId(`toggle-${side}`);
  const panel = byId(side);
  const show = (shown) => {
    panel.classList.toggle("closed", !shown);
    control.setAttribute("aria-expanded", String(shown));
  };
  show(matchMedia("(min-width: 68rem)").matches);
  control.addEventListener("click", () => show(panel.classList.contains("closed")));
}

/** The names that the server answers to. */
export async function loadModels() {
  try {
    const { data } = await (await request("/v1/models")).json();
    defaults = data[0]?.sampling_defaults ?? {};
    byId("model").replaceChildren(...data.map(({ id }) => h("option", { value: id }, id)));
    if (current.settings.model && data.some(({ id }) => id === current.settings.model)) byId("model").value = current.settings.model;
    for (const input of byId("settings").querySelectorAll("input")) input.placeholder = defaults[input.name] ?? input.placeholder;
  } catch (error) {
    notice(error instanceof TypeError ? "The server cannot be reached." : error.message);
  }
}

const fresh = () => store.newConversation({ ...DEFAULTS, ...store.preference("settings") });

function open(conversation) {
  stop();
  current = conversation;
  attachments.set([]);
  showList();
  showSettings();
  showThread();
}

function persist() {
  if (!conversations.includes(current)) conversations.unshift(current);
  store.save(current).catch(() => {});
}

function showList() {
  const item = (conversation) => h("li", { "data-key": conversation.id },
    button(conversation.title || "New conversation", () => open(conversation), { class: "name", "aria-current": conversation === current ? "true" : null }),
    button("×", () => forget(conversation), { class: "quiet", "aria-label": `Delete ${conversation.title || "conversation"}` }));
  const list = byId("conversation-list");
  keepingFocus(list, byId("new"), () => list.replaceChildren(...conversations.map(item)));
}

function forget(conversation) {
  if (!confirm(`Delete “${conversation.title || "this conversation"}”?`)) return;
  conversations = conversations.filter((other) => other !== conversation);
  store.remove(conversation.id).catch(() => {});
  if (conversation === current) open(conversations[0] ?? fresh());
  else showList();
}

function showSettings() {
  const changed = () => {
    setText(byId("mode"), summary(current.settings));
    store.preference("settings", current.settings);
    if (conversations.includes(current)) persist();
  };
  byId("settings").replaceChildren(h("h2", {}, "Settings"), form(current.settings, changed, defaults));
  setText(byId("mode"), summary(current.settings));
}

function notice(text) {
  byId("thread").append(h("p", { class: "error", role: "alert" }, text));
  toEnd(true);
}

// -- the thread

function showThread() {
  const nodes = store.path(current);
  const hello = h("div", { class: "hello" }, h("h2", {}, "What shall we talk about?"), h("p", {}, "Open Live in a second window to see your request join the batch."));
  const thread = byId("thread");
  keepingFocus(thread, thread, () => thread.replaceChildren(...(nodes.length ? nodes.map(messageElement) : [hello])));
  const last = nodes.at(-1);
  if (last?.role === "assistant" && last.calls?.length && !running) byId("thread").append(toolResults(last));
  toEnd(true);
}

function messageElement(node) {
  const [label, content] = node.role === "assistant" ? ["Answer", new AnswerView(node, () => bodyOf(node)).element] : node.role === "tool" ? [`Result of ${node.name}`, h("pre", { class: "result", tabindex: "0" }, node.text)] : ["You", userMessage(node)];
  const article = h("article", { class: `message ${node.role}`, "aria-label": label, "data-key": node.parent }, h("div", { class: "who" }, label), content);
  if (node.role !== "tool" && node !== running?.node) article.append(actions(node, article));
  return article;
}

function actions(node, article) {
  const bar = h("div", { class: "message-actions" }, branches(node), button("Copy", () => copy(node.text ?? ""), { class: "quiet" }));
  if (node.role === "assistant") bar.append(button("Regenerate", () => regenerate(node), { class: "quiet" }));
  else bar.append(button("Edit", () => edit(node, article), { class: "quiet" }));
  return bar;
}

function branches(node) {
  const all = store.siblings(current, node);
  if (all.length < 2) return null;
  const at = all.indexOf(node);
  const go = async (step) => {
    await stop();
    store.choose(current, all[at + step]);
    persist();
    showThread();
  };
  return h("span", { class: "branches" },
    button("‹", () => go(-1), { class: "quiet", "aria-label": "Previous branch", disabled: at === 0 }),
    h("span", {}, `${at + 1}/${all.length}`),
    button("›", () => go(1), { class: "quiet", "aria-label": "Next branch", disabled: at === all.length - 1 }));
}

function edit(node, article) {
  const area = h("textarea", { rows: 4, "aria-label": "Edit the message" });
  area.value = node.text;
  const save = async () => {
    await stop();
    const parent = store.parentOf(current, node);
    store.add(current, parent, { role: "user", text: area.value, attachments: node.attachments });
    answer();
  };
  article.replaceChildren(h("form", { class: "edit", onsubmit: (event) => {
    event.preventDefault();
    save();
  } }, area, h("div", { class: "actions" }, button("Cancel", showThread), h("button", { type: "submit", class: "primary" }, "Send as a branch"))));
  area.focus();
}

function toolResults(node) {
  const areas = node.calls.map((call) => h("textarea", { rows: 3, "aria-label": `Result of ${call.name}`, placeholder: "What the tool returns" }));
  return h("form", { class: "message tool-form", onsubmit: (event) => {
    event.preventDefault();
    let parent = node;
    node.calls.forEach((call, place) => (parent = store.add(current, parent, { role: "tool", call: call.id, name: call.name, text: areas[place].value })));
    answer();
  } }, node.calls.map((call, place) => h("div", { class: "field" }, h("div", { class: "who" }, `Result of ${call.name}`), areas[place])),
  h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Send results")));
}

// -- sending

function send() {
  const text = byId("prompt").value.trim();
  if (running || (!text && !attachments.items.length)) return;
  const last = store.path(current).at(-1);
  store.add(current, last, { role: "user", text, attachments: attachments.take() });
  current.title ||= (text || "Picture").slice(0, 60);
  byId("prompt").value = "";
  grow();
  answer();
}

async function regenerate(node) {
  await stop();
  const parent = store.parentOf(current, node);
  delete current.chosen[parent.id];
  answer();
}

/** The request that a node was or will be the answer to. */
function bodyOf(node) {
  const before = [];
  for (let one = store.parentOf(current, node); one; one = store.parentOf(current, one)) before.unshift(one);
  return requestBody(byId("model").value, before, node.settings ?? current.settings);
}

async function answer() {
  if (running) return;
  const conversation = current;
  const node = store.add(conversation, store.path(conversation).at(-1), { role: "assistant", text: "", settings: { ...conversation.settings } });
  const controller = new AbortController();
  let end;
  running = { controller, node, ended: new Promise((resolve) => (end = resolve)) };
  persist();
  showList();
  showThread();
  const article = byId("thread").lastElementChild;
  const view = new AnswerView(node, () => bodyOf(node));
  article.replaceChildren(article.firstElementChild, view.element);
  busy(true);
  try {
    await generate(node, bodyOf(node), controller.signal, () => {
      view.update();
      toEnd();
    });
  } catch (error) {
    node.error = error.message; // of the user's own JSON
  }
  view.update(true);
  running = null;
  busy(false);
  store.save(conversation).catch(() => {});
  if (conversation === current) {
    showThread();
    announce(node.error ?? `Answer: ${node.text.slice(0, 300)}`);
  }
  end();
}

/** Ends the answer that is being written, if there is one, and waits until it has ended. */
async function stop() {
  const stopping = running;
  stopping?.controller.abort();
  await stopping?.ended;
}

/** Stop takes Send's place, and the focus with it. */
function busy(is) {
  const [shown, gone] = is ? [byId("stop"), byId("send")] : [byId("send"), byId("stop")];
  const held = document.activeElement === gone;
  byId("stop").hidden = !is;
  byId("send").disabled = is;
  if (held) shown.focus({ preventScroll: true });
}

function grow() {
  const area = byId("prompt");
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
}

function toEnd(always = false) {
  const thread = byId("thread");
  const near = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 160;
  if (always || near) thread.scrollTop = thread.scrollHeight;
}
