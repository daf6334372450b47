// The load demo: eight small streams and a long prompt, all against this server, so that its batch can be watched.

import { chat } from "./api.js";

const STREAMS = 8;
const APART_MS = 350;
const TOPICS = ["the sea", "a bicycle race", "bread", "the moon", "a library", "rain", "the night train", "a market"];
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
  const before = "You are a helpful assistant who answers at length.";
  let ended = 0;
  const failures = [];
  const run = async (name, content, max_tokens) => {
    if (signal.aborted) return;
    try {
      const body = { messages: [{ role: "system", content: before }, { role: "user", content }], max_tokens, ignore_eos: true, stream: true, user: name };
      for await (const _ of chat(body, signal));
    } catch (error) {
      if (!signal.aborted) failures.push(error.message);
    }
    ended += 1;
    progress(`${ended} of ${STREAMS + 1} have ended${failures.length ? `; ${failures.at(-1)}` : ""}`);
  };
  progress("eight small streams, and one long prompt");
  const sentences = Math.max(20, Math.min(400, Math.floor((contextLength ?? 4096) / 60)));
  const work = [];
  for (let place = 0; place < STREAMS; place += 1) {
    work.push(run(`demo-${place + 1}`, `Write about ${TOPICS[place]}.`, 300 + 40 * place));
    if (place === 3) work.push(run("demo-long", `${SENTENCE.repeat(sentences)}\n\nSummarize this in one sentence.`, 60));
    await wait(APART_MS, signal);
  }
  await Promise.all(work);
  progress(signal.aborted ? "stopped" : failures.length ? failures[0] : "done: all of them shared one batch");
}
