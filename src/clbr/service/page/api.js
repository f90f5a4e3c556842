// Requests to the service. A failed one throws a ServiceError; a missing token is asked for.

import { serviceError, ServiceError } from "/page/errors.js";
import { tabStorage } from "/page/storage.js";

const API = "/v1"; // before every path
const TRIES = 3; // while the service is busy
const MAX_WAIT = 5; // seconds between tries
const QUICK = 2000; // milliseconds: a request rejected later has waited in the queue already and is not repeated
const OFFLINE = "The service does not answer. Check that it is running and that you are connected, then try again.";
const UNREADABLE = "The service's answer cannot be read. Try again; if it happens again, see the service's log.";

let askToken = () => Promise.reject(new ServiceError("This service needs a token.", "rejected"));
let onArtifact = () => {};
let tokenPrompt = null; // one dialog for all requests that wait for it
let token = tabStorage.get("token");

/** Sets the function that asks for the token, and the one that gets the artifact of each answer. */
export function connect(callbacks) {
  ({ askToken, onArtifact } = callbacks);
}

export function get(path, query = {}, signal) {
  const params = new URLSearchParams(query);
  return send(`${API}${path}?${params}`.replace(/\?$/, ""), { signal });
}

export function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return send(`${API}${path}`, { method: "POST", body: JSON.stringify(body), headers, signal });
}

async function send(path, options, tried = 1) {
  const [sentToken, start] = [token, performance.now()];
  const headers = { ...options.headers, ...(sentToken && { authorization: `Bearer ${sentToken}` }) };
  const response = await fetchOrFail(path, { ...options, headers });
  if (response.status === 401) return sendWithToken(path, options, sentToken);
  if ([429, 503].includes(response.status) && tried < TRIES && performance.now() - start < QUICK) {
    await pause(Math.min(Number(response.headers.get("retry-after")) || 1, MAX_WAIT), options.signal);
    return send(path, options, tried + 1);
  }
  const answer = await response.json().catch((error) => {
    options.signal?.throwIfAborted();
    throw new ServiceError(UNREADABLE, "fault", error);
  });
  options.signal?.throwIfAborted(); // an aborted request never changes the page
  if (!response.ok) throw serviceError(response.status, answer);
  if (sentToken !== null && tabStorage.get("token") !== sentToken) tabStorage.set("token", sentToken); // it is valid
  const artifact = response.headers.get("x-artifact");
  if (artifact) onArtifact(artifact);
  return answer;
}

async function fetchOrFail(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new ServiceError(OFFLINE, "offline", error);
  }
}

async function sendWithToken(path, options, rejected) {
  if (token === rejected) {
    tokenPrompt ??= askToken(rejected !== null).finally(() => { tokenPrompt = null; });
    token = await tokenPrompt;
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

/** A function that gives a new signal and aborts the previous one: only the latest request is answered. */
export function latest() {
  let controller = new AbortController();
  return () => {
    controller.abort();
    controller = new AbortController();
    return controller.signal;
  };
}
