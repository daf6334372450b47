// The load demo: eight small streams and a long prompt, all against this server, so that its batch can be watched.
//
// A browser opens six connections to a server at most, and one of them is the live view's: a request carries several
// prompts, each of which is a sequence of its own.

import { completions } from "./api.js";

const GROUPS = [
  { apart: 0, max_tokens: 420, topics: ["the sea", "a bicycle race"] },
  { apart: 700, max_tokens: 300, topics: ["bread", "the moon", "a library"] },
  { apart: 400, max_tokens: 360, topics: ["rain", "the night train", "a market"] },
];
const LONG = { apart: 400, max_tokens: 160 };
const APART_CHUNKS = 40; // a fast server writes these sooner than `apart` milliseconds: the next ones come then
const SHOWN_MS = 6000; // who is answered sooner asks again, so that there is something to see on a fast machine, too
const QUICK_MS = 1500; // who is answered sooner than that asks for more
const AGAIN_MS = 150;
const SENTENCE = "The riders take turns at the front, and the others save their strength behind them. ";

const wait = (milliseconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    resolve();
  });
});

/** Runs the demo. `progress(text)` says how far it is; returns when all of it has ended. */
export async function demo({ contextLength, signal, progress }) {
  const failures = [];
  const end = performance.now() + SHOWN_MS;
  const context = contextLength ?? 4096;
  let ended = 0;
  /** Asks a little later than `before`, and again and again. */
  const run = (before, { apart, max_tokens }, user, prompt) => {
    let written;
    const some = new Promise((resolve) => (written = resolve));
    const begun = (async () => {
      await before?.begun;
      await Promise.race([wait(apart, signal), ...(before ? [before.some] : [])]);
    })();
    const ask = async (max_tokens) => {
      let chunks = 0;
      for await (const _ of completions({ prompt, max_tokens, ignore_eos: true, stream: true, user }, signal)) {
        if ((chunks += 1) === APART_CHUNKS * prompt.length) written();
      }
    };
    const done = (async () => {
      await begun;
      try {
        for (let length = max_tokens; !signal.aborted; await wait(AGAIN_MS, signal)) {
          const began = performance.now();
          await ask(length);
          if (performance.now() > end) break;
          if (performance.now() - began < QUICK_MS) length = Math.max(length, Math.min(2 * length, Math.floor(context / 4)));
        }
      } catch (error) {
        if (!signal.aborted) failures.push(error.message);
      }
      ended += prompt.length;
      progress(`${ended} of 9 have ended`);
    })();
    return { begun, some, done };
  };
  progress("eight small streams, and one long prompt");
  const sentences = Math.max(10, Math.min(400, Math.floor(context / 120)));
  const long = [`${SENTENCE.repeat(sentences)}\n\nIn short:`];
  const stories = (topics) => topics.map((topic) => `A short story about ${topic}, told to a friend.\n\n`);
  const asked = [];
  GROUPS.forEach((group, place) => {
    if (place === GROUPS.length - 1) asked.push(run(asked.at(-1), LONG, "demo-long", long));
    asked.push(run(asked.at(-1), group, `demo-${place + 1}`, stories(group.topics)));
  });
  await Promise.all(asked.map(({ done }) => done));
  progress(signal.aborted ? "stopped" : (failures[0] ?? "done: all of them shared one batch"));
}
