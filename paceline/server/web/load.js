// The load demo: eight small streams and a long prompt, all against this server, so that its batch can be watched.
//
// A browser opens six connections to a server at most, and one of them is the live view's: a request carries several
// prompts, each of which is a sequence of its own.

import { completions } from "./api.js";

const GROUPS = [
  { apart: 0, max_tokens: 420, topics: ["the sea", "a bicycle race"] },
  { apart: 700, max_tokens: 300, topics: ["bread", "the moon", "a library"] },
  { apart: 1500, max_tokens: 360, topics: ["rain", "the night train", "a market"] },
];
const LONG_MS = 1100; // when the long prompt comes
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
  let ended = 0;
  const run = async (apart, user, prompt, max_tokens) => {
    await wait(apart, signal);
    if (signal.aborted) return;
    try {
      for await (const _ of completions({ prompt, max_tokens, ignore_eos: true, stream: true, user }, signal));
    } catch (error) {
      if (!signal.aborted) failures.push(error.message);
    }
    ended += prompt.length;
    progress(`${ended} of 9 have ended`);
  };
  progress("eight small streams, and one long prompt");
  const sentences = Math.max(10, Math.min(400, Math.floor((contextLength ?? 4096) / 120)));
  const small = GROUPS.map(({ apart, max_tokens, topics }, place) =>
    run(apart, `demo-${place + 1}`, topics.map((topic) => `A short story about ${topic}, told to a friend.\n\n`), max_tokens));
  await Promise.all([...small, run(LONG_MS, "demo-long", [`${SENTENCE.repeat(sentences)}\n\nIn short:`], 60)]);
  progress(signal.aborted ? "stopped" : (failures[0] ?? "done: all of them shared one batch"));
}
