// The frame: views, theme, key.

import { key } from "./api.js";
import * as chat from "./chat.js";
import * as compare from "./compare.js";
import { byId, setText } from "./dom.js";
import * as health from "./health.js";
import * as live from "./live.js";
import { preference } from "./store.js";

const VIEWS = ["chat", "compare", "live"];
const THEMES = ["system", "light", "dark"];

function show() {
  const view = VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "chat";
  for (const name of VIEWS) {
    byId(`view-${name}`).hidden = name !== view;
    if (name === view) byId(`tab-${name}`).setAttribute("aria-current", "page");
    else byId(`tab-${name}`).removeAttribute("aria-current");
  }
  document.title = `Paceline · ${view[0].toUpperCase()}${view.slice(1)}`;
  live.visible(view === "live");
}

function theme(name) {
  const root = document.documentElement;
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  setText(byId("theme-name"), name);
}

function startTheme() {
  theme(preference("theme") ?? "system");
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(preference("theme") ?? "system") + 1) % THEMES.length];
    preference("theme", next);
    theme(next);
  });
}

function startKey() {
  const dialog = byId("key-dialog");
  const usual = byId("key-reason").textContent;
  let asking = null;
  const ask = (reason) => {
    asking ??= new Promise((resolve) => {
      const said = reason.split(/(?<=\.)\s/)[0]; // the rest of the server's words is for those who write requests
      setText(byId("key-reason"), `${said} ${usual}`.trim());
      byId("key-value").value = "";
      let given = null;
      byId("key-form").onsubmit = (event) => {
        event.preventDefault();
        given = byId("key-value").value.trim() || null;
        if (given) key.set(given);
        dialog.close();
      };
      dialog.onclose = () => {
        asking = null;
        resolve(given);
      };
      dialog.showModal();
    });
    return asking;
  };
  byId("key-cancel").addEventListener("click", () => dialog.close());
  byId("key-forget").addEventListener("click", () => {
    key.set("");
    dialog.close();
  });
  byId("key").addEventListener("click", async () => {
    if ((await ask("")) !== null) {
      live.reconnect();
      chat.loadModels();
    }
  });
  key.onMissing(ask);
}

startTheme();
startKey();
addEventListener("hashchange", show);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be that of no view
  byId("main").focus();
});
live.start();
compare.start();
show();
health.onUsable(chat.loadModels);
chat.start();
