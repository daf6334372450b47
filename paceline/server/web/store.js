// Conversations, kept in this browser (IndexedDB), as trees: an edited message or a second answer is a branch.

const NAME = "paceline";
let opened;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("conversations", { keyPath: "id" });
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
  return opened;
}

async function inStore(mode, work) {
  const store = (await database()).transaction("conversations", mode).objectStore("conversations");
  return new Promise((resolve, reject) => {
    const asked = work(store);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

export const all = async () => (await inStore("readonly", (store) => store.getAll())).sort((a, b) => b.updated - a.updated);
export const remove = (id) => inStore("readwrite", (store) => store.delete(id));

/** Adds to a conversation what another tab has stored of it. Nodes are only ever added, so nothing is lost. */
export function merge(conversation, stored) {
  for (const part of ["nodes", "chosen"]) conversation[part] = { ...conversation[part], ...stored?.[part], ...conversation[part] };
  return conversation;
}

export async function save(conversation) {
  conversation.updated = Date.now();
  const store = (await database()).transaction("conversations", "readwrite").objectStore("conversations");
  return new Promise((resolve, reject) => {
    store.transaction.oncomplete = resolve;
    store.transaction.onerror = () => reject(store.transaction.error);
    const stored = store.get(conversation.id);
    stored.onsuccess = () => store.put(merge(conversation, stored.result));
  });
}

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function newConversation(settings) {
  return { id: newId(), title: "", updated: Date.now(), nodes: {}, chosen: {}, settings: { ...settings } };
}

const ROOT = "root";

/** Adds a node under a parent (none: at the top), and makes it the branch that is shown. */
export function add(conversation, parent, fields) {
  const node = { id: newId(), parent: parent?.id ?? ROOT, ...fields };
  conversation.nodes[node.id] = node;
  conversation.chosen[node.parent] = node.id;
  return node;
}

/** The nodes with the same parent, in order. */
export const siblings = (conversation, node) => Object.values(conversation.nodes).filter((other) => other.parent === node.parent);

export function choose(conversation, node) {
  conversation.chosen[node.parent] = node.id;
}

/** The messages that are shown, from the first to the last. */
export function path(conversation) {
  const nodes = [];
  let id = conversation.chosen[ROOT];
  while (id !== undefined && conversation.nodes[id]) {
    nodes.push(conversation.nodes[id]);
    id = conversation.chosen[id];
  }
  return nodes;
}

export const parentOf = (conversation, node) => conversation.nodes[node.parent];

export function preference(name, value) {
  const stored = `paceline.${name}`;
  if (value !== undefined) localStorage.setItem(stored, JSON.stringify(value));
  try {
    return JSON.parse(localStorage.getItem(stored));
  } catch {
    return null;
  }
}
