// Requests to this server: the key, errors as sentences, and server-sent events.

const KEY = "paceline.key";
let askForKey = async () => null;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
  /** `ask(reason)` resolves to a key, or to null where the user gives none. */
  onMissing: (ask) => (askForKey = ask),
};

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function request(path, { method = "GET", body, signal, headers = {} } = {}) {
  for (;;) {
    const used = key.get();
    const sent = { ...headers, ...(used ? { authorization: `Bearer ${used}` } : {}) };
    if (body !== undefined) sent["content-type"] = "application/json";
    const options = { method, signal, headers: sent, cache: "no-store", credentials: "omit" };
    const response = await fetch(path, { ...options, body: body === undefined ? undefined : JSON.stringify(body) });
    if (response.ok) return response;
    const error = new ApiError(await message(response), response.status);
    if (response.status !== 401) throw error;
    // Another request may have asked for the key in the meantime.
    if (used === key.get() && (await askForKey(error.message)) === null) throw error;
  }
}

async function message(response) {
  const text = await response.text();
  try {
    const error = JSON.parse(text).error;
    return String(error.message ?? error);
  } catch {
    return text.slice(0, 500) || `The server answered ${response.status}.`;
  }
}

/** The events of a stream, as {event, data}. Comments are skipped. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const event = { event: "message", data: "" };
        for (const line of part.split("\n")) {
          if (line.startsWith("event: ")) event.event = line.slice(7);
          else if (line.startsWith("data: ")) event.data += line.slice(6);
        }
        if (event.data) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The chunks of a chat completion. */
export const chat = (body, signal) => chunks("/v1/chat/completions", body, signal);
export const completions = (body, signal) => chunks("/v1/completions", body, signal);

async function* chunks(path, body, signal) {
  const response = await request(path, { method: "POST", body, signal });
  for await (const { data } of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(String(chunk.error.message ?? chunk.error), 500);
    yield chunk;
  }
  throw new ApiError("The connection was lost before the answer ended.", 0);
}

/** A command that sends the same request. The key is left to a variable. */
export function curl(body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const auth = key.get() ? ' \\\n  -H "Authorization: Bearer $PACELINE_API_KEY"' : "";
  return `curl ${location.origin}/v1/chat/completions${auth} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}
