// Pictures and text files for a message: by button, drop and paste. Large pictures are made smaller before they are sent.

import { button, h } from "./dom.js";

const MOST_PIXELS_A_SIDE = 1536;
const MOST_TEXT = 1_000_000; // characters of a file

export class Attachments {
  constructor(shelf, onProblem) {
    this.shelf = shelf;
    this.onProblem = onProblem;
    this.items = [];
  }

  async add(files) {
    for (const file of files) {
      try {
        this.items.push(file.type.startsWith("image/") ? await picture(file) : await textFile(file));
      } catch (error) {
        this.onProblem(`${file.name}: ${error.message}`);
      }
    }
    this.show();
  }

  take() {
    const taken = this.items;
    this.items = [];
    this.show();
    return taken;
  }

  set(items) {
    this.items = [...(items ?? [])];
    this.show();
  }

  show() {
    this.shelf.replaceChildren(...this.items.map((item) => h("div", { class: "attachment" }, thumbnail(item), button("×", () => this.set(this.items.filter((other) => other !== item)), { class: "quiet", "aria-label": `Remove ${item.name}` }))));
  }

  /** Takes what is dropped on an element, and what is pasted into it. */
  listen(element) {
    element.addEventListener("dragover", (event) => {
      event.preventDefault();
      element.classList.add("dropping");
    });
    element.addEventListener("dragleave", () => element.classList.remove("dropping"));
    element.addEventListener("drop", (event) => {
      event.preventDefault();
      element.classList.remove("dropping");
      this.add([...event.dataTransfer.files]);
    });
    element.addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files];
      if (files.length) {
        event.preventDefault();
        this.add(files);
      }
    });
  }
}

export function thumbnail(item) {
  return item.kind === "picture" ? h("img", { src: item.url, alt: item.name, title: item.name }) : h("span", { class: "file" }, item.name);
}

async function picture(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error("this picture cannot be read.");
  }
  const scale = Math.min(1, MOST_PIXELS_A_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = h("canvas", { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)) });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const lossless = file.type === "image/png" && scale === 1;
  return { kind: "picture", name: file.name || "picture", url: canvas.toDataURL(lossless ? "image/png" : "image/jpeg", 0.9) };
}

async function textFile(file) {
  if (file.size > MOST_TEXT * 4) throw new Error("this file is too large.");
  const text = await file.text();
  if (text.includes("\0") || text.includes("\uFFFD")) throw new Error("this is neither a picture nor a text.");
  return { kind: "file", name: file.name, text: text.slice(0, MOST_TEXT) };
}
