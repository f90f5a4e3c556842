// Errors: what the service answers, in words for people who do not know its API, and the box that shows them.

import { announce, button, fill, h } from "/page/dom.js";
import { capitalize, isKind, translate, word } from "/page/words.js";

const BUSY = "The service is busy with other requests. Wait a moment, then try again.";
const TOO_LONG = "This takes too long to compute. Choose a shorter list or make fewer changes, then try again.";
const TOO_LARGE = "This is too much for one request. Discard some changes, then try again.";
const INVALID = "The service cannot read this request. Undo the last change, then try again.";
const NOT_SENT = "The request did not reach the service in time. Check your connection, then try again.";
const PAGE_FAULT = "Something went wrong in this page. Try again; if it happens again, reload the page.";
const REQUEST_TOO_LONG = /fewer|shorter/i; // of the two reasons for status 429, the one that the request can change
const FIELD = /^[a-z_][\w.]*: [A-Z]/; // "add_items: List should have …": a message for programmers

/** A request that failed. `kind` is "offline", "busy", "slow", "unknown", "rejected" or "fault". */
export class ServiceError extends Error {
  constructor(message, kind, cause) {
    super(message, { cause });
    this.kind = kind;
  }
}

/** The error of an answer with this status; `payload` is {error, request, kind, id}. */
export function serviceError(status, payload) {
  const error = payload?.error ?? `the service answered with status ${status}`;
  if (status === 404) {
    const words = isKind(payload?.kind) ? unknownNode(payload.kind, payload.id) : sentence(error);
    return new ServiceError(words, "unknown");
  }
  if (status === 429) {
    return REQUEST_TOO_LONG.test(error) ? new ServiceError(TOO_LONG, "slow") : new ServiceError(BUSY, "busy");
  }
  if (status === 503) return new ServiceError(sentence(error), "busy");
  if (status === 408) return new ServiceError(NOT_SENT, "slow");
  if (status === 504) return new ServiceError(TOO_LONG, "slow"); // from a proxy
  if (status === 413 || status === 431) return new ServiceError(TOO_LARGE, "rejected");
  if (status === 422 && FIELD.test(error)) return new ServiceError(INVALID, "rejected");
  if (status < 500) return new ServiceError(sentence(error), "rejected");
  const report = `Try again; if it happens again, tell whoever runs the service: request ${payload?.request ?? "?"}.`;
  return new ServiceError(`${sentence(error)} ${report}`, "fault");
}

export function unknownNode(kind, id) {
  return `There is no ${word(kind)} “${id}” here.`;
}

function sentence(text) {
  const words = capitalize(translate(text));
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

/** Runs the work; an error is shown in `parent`, unless the work was aborted. `actions` are further buttons. */
export async function attempt(parent, work, retry, actions) {
  try {
    await work();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") fill(parent, errorBox(error, retry, actions));
    return false;
  }
}

/** A box with the error, a button to try again, and buttons for `actions`: [label, onclick]. */
function errorBox(error, retry, actions = []) {
  const expected = error.kind !== undefined;
  if (!expected) console.error(error); // a fault of this page
  const words = expected ? error.message : PAGE_FAULT;
  announce(words);
  return h("div.error", { role: "group", "aria-label": "Error" },
    h("p", {}, words),
    h("div.row", {},
      button("button", () => retry(), {}, "Try again"),
      actions.map(([label, onclick]) => button("button", onclick, {}, label))));
}
