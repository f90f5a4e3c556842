// Asks the service. A refusal becomes a Trouble with words that can be shown; a token that is missing is asked for.

const TRIES = 3; // when the service says that it is busy
const LONGEST_WAIT = 5; // seconds
const LOST = "The service does not answer. See that it is running and that you are connected, then try again.";
const UNREADABLE = "The service's answer cannot be read. Try again; if it stays so, look at the service's log.";

/** Something that went wrong, in words. `kind` is "lost", "busy", "slow", "unknown", "refused" or "broken". */
export class Trouble extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

let askForToken = () => Promise.reject(new Trouble("This service needs a token.", "refused"));
let noticeArtefact = () => {};
let asked = null; // one prompt for all calls that wait for it

/** Who asks for the token, and who is told which artefact an answer is from. */
export function connect({ token, artefact }) {
  askForToken = token;
  noticeArtefact = artefact;
}

export function get(path, query = {}, signal) {
  const params = new URLSearchParams(query);
  return send(`${path}?${params}`.replace(/\?$/, ""), { signal });
}

export function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return send(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

async function send(path, options, tried = 1) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) };
  const response = await reach(path, { ...options, headers });
  if (response.status === 401) return sendWithToken(path, options, token);
  if (response.status === 429 && tried < TRIES) {
    await pause(Math.min(Number(response.headers.get("retry-after")) || 1, LONGEST_WAIT), options.signal);
    return send(path, options, tried + 1);
  }
  const answer = await response.json().catch(() => {
    options.signal?.throwIfAborted();
    throw new Trouble(UNREADABLE, "broken");
  });
  options.signal?.throwIfAborted(); // an answer that nobody waits for any more never reaches the page
  if (!response.ok) throw refusal(response.status, answer);
  const artefact = response.headers.get("x-artefact");
  if (artefact) noticeArtefact(artefact);
  return answer;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new Trouble(LOST, "lost");
  }
}

async function sendWithToken(path, options, refused) {
  if (sessionStorage.getItem("token") === refused) {
    asked ??= askForToken(refused !== null).finally(() => { asked = null; });
    sessionStorage.setItem("token", await asked);
  }
  options.signal?.throwIfAborted();
  return send(path, options);
}

function refusal(status, answer) {
  const words = answer?.error ?? `The service refused (${status}).`;
  const said = capitalSentence(words);
  if (status === 429) return new Trouble(`${said} Wait a moment, then try again.`, "busy");
  if (status === 408 || status === 504) return new Trouble(said, "slow");
  if (status >= 500) {
    const request = answer?.request ?? "?";
    return new Trouble(`${said} Try again; if it stays so, tell whoever runs the service: request ${request}.`, "broken");
  }
  return new Trouble(said, status === 404 ? "unknown" : "refused");
}

function capitalSentence(text) {
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

/** Each call gives a new signal and aborts the one before: of two questions only the later is answered. */
export function latest() {
  let controller = new AbortController();
  return () => {
    controller.abort();
    controller = new AbortController();
    return controller.signal;
  };
}

const nodes = new Map();

/** Keeps what a node is called, so that a link with nothing but ids can be shown by name. */
export function remember(kind, node) {
  nodes.set(`${kind} ${node.id}`, node);
}

/** What is known of a node: from what was shown before, or asked of the service. */
export async function nodeOf(kind, id) {
  const key = `${kind} ${id}`;
  if (!nodes.has(key)) nodes.set(key, await get(`/api/${kind}`, { id }));
  return nodes.get(key);
}
