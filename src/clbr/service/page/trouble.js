// What is shown when something goes wrong: what it is, what to do, and a way to try again.

import { announce, button, h, put } from "/page/dom.js";

/** A box that says what went wrong. `ways` are further buttons: [words, what they do]. */
export function troubleBox(error, retry, ways = []) {
  const known = error.kind !== undefined;
  if (!known) console.error(error); // a mistake in this page, for whoever mends it
  const words = known ? error.message : "Something went wrong in this page. Try again; if it stays so, reload it.";
  announce(words);
  return h("div.trouble", { role: "group", "aria-label": "Something went wrong" },
    h("p", {}, words),
    h("div.row", {},
      button("button", () => retry(), {}, "Try again"),
      ways.map(([label, onclick]) => button("button", onclick, {}, label))));
}

/** Does the work; when it fails the trouble is put into `place`, unless nobody waits for the answer any more. */
export async function attempt(place, work, retry, ways) {
  try {
    await work();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") put(place, troubleBox(error, retry, ways));
    return false;
  }
}

/** Marks an element as busy while the work is done; only what takes a while is seen to be. */
export async function busy(element, work) {
  const turn = {};
  element.turn = turn;
  element.setAttribute("aria-busy", "true");
  try {
    return await work();
  } finally {
    if (element.turn === turn) element.removeAttribute("aria-busy"); // a later piece of work may still go on
  }
}
