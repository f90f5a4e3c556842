// Refusals of the service, in words that help someone who knows nothing of its API.

import { capital, inWords, isKind, word } from "/page/words.js";

const BUSY = "Others are asking, too, and the service is busy. Wait a moment, then try again.";
const LONG = "This takes too long to work out. Look at a shorter list or make fewer changes, then try again.";
const LARGE = "This is more than can be asked at once. Take some changes back, then try again.";
const UNCLEAR = "The service cannot make sense of this question. Take the last change back, then try again.";
const UNSENT = "The question did not reach the service in time. See that you are connected, then try again.";
const TOO_LONG = /too long|longer|fewer|shorter/i; // of the two reasons for a 429, the one that lies in the question
const FIELD = /^[a-z_][\w.]*: [A-Z]/; // "add_items: List should have …": for those who write programs

/** Something that went wrong, in words. `kind` is "lost", "busy", "slow", "unknown", "refused" or "broken". */
export class Trouble extends Error {
  constructor(message, kind, cause) {
    super(message, { cause });
    this.kind = kind;
  }
}

/** What an answer with such a status says: {error, request}, and the kind and the id of what is not there. */
export function refusal(status, answer) {
  const error = answer?.error ?? `the service refused (${status})`;
  if (status === 404 && isKind(answer?.kind)) return new Trouble(noSuch(answer.kind, answer.id), "unknown");
  if (status === 404) return new Trouble(sentence(error), "unknown");
  if (status === 429) return TOO_LONG.test(error) ? new Trouble(LONG, "slow") : new Trouble(BUSY, "busy");
  if (status === 408) return new Trouble(UNSENT, "slow");
  if (status === 504) return new Trouble(LONG, "slow"); // of a proxy
  if (status === 413 || status === 431) return new Trouble(LARGE, "refused");
  if (status === 422 && FIELD.test(error)) return new Trouble(UNCLEAR, "refused");
  if (status < 500) return new Trouble(sentence(error), "refused");
  const tell = `Try again; if it stays so, tell whoever runs the service: request ${answer?.request ?? "?"}.`;
  return new Trouble(`${sentence(error)} ${tell}`, "broken");
}

export function noSuch(kind, id) {
  return `There is no ${word(kind)} called “${id}” here.`;
}

function sentence(text) {
  const told = capital(inWords(text));
  return /[.!?]$/.test(told) ? told : `${told}.`;
}
