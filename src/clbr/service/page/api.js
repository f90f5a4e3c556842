// Asks the service. A refusal becomes a Trouble with words that can be shown; a token that is missing is asked for.

import { refusal, Trouble } from "/page/refusal.js";
import { untilClosed } from "/page/store.js";

const TRIES = 3; // when the service says that it is busy
const LONGEST_WAIT = 5; // seconds
const AT_ONCE = 2000; // milliseconds: what was refused later has waited in line already, and is not asked again unasked
const LOST = "The service does not answer. See that it is running and that you are connected, then try again.";
const UNREADABLE = "The service's answer cannot be read. Try again; if it stays so, look at the service's log.";

let askForToken = () => Promise.reject(new Trouble("This service needs a token.", "refused"));
let noticeArtifact = () => {};
let asked = null; // one prompt for all calls that wait for it
let token = untilClosed.get("token");

/** Who asks for the token, and who is told which artifact an answer is from. */
export function connect({ token: ask, artifact: notice }) {
  askForToken = ask;
  noticeArtifact = notice;
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
  const [shown, begun] = [token, performance.now()];
  const headers = { ...options.headers, ...(shown && { authorization: `Bearer ${shown}` }) };
  const response = await reach(path, { ...options, headers });
  if (response.status === 401) return sendWithToken(path, options, shown);
  if (response.status === 429 && tried < TRIES && performance.now() - begun < AT_ONCE) {
    await pause(Math.min(Number(response.headers.get("retry-after")) || 1, LONGEST_WAIT), options.signal);
    return send(path, options, tried + 1);
  }
  const answer = await response.json().catch((error) => {
    options.signal?.throwIfAborted();
    throw new Trouble(UNREADABLE, "broken", error);
  });
  options.signal?.throwIfAborted(); // an answer that nobody waits for any more never reaches the page
  if (!response.ok) throw refusal(response.status, answer);
  if (shown !== null && untilClosed.get("token") !== shown) untilClosed.set("token", shown); // it has worked
  const artifact = response.headers.get("x-artifact");
  if (artifact) noticeArtifact(artifact);
  return answer;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new Trouble(LOST, "lost", error);
  }
}

async function sendWithToken(path, options, refused) {
  if (token === refused) {
    asked ??= askForToken(refused !== null).finally(() => { asked = null; });
    token = await asked;
  }
  options.signal?.throwIfAborted();
  return send(path, options);
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
