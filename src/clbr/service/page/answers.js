// The answers that are open on a reader's desk: at most one in a place, and one way to close it.

import { askPanel } from "/page/ask.js";

/** Answers about a user; `most` is how many tries the service allows. */
export function openAnswers(user, most) {
  const open = new Map(); // by the element that an answer stands in

  /** Asks about a bundle. `closed` is called when the answer goes; `opener` has the focus back then. */
  function ask(place, bundle, opener, closed = () => {}) {
    close(place);
    const listening = new AbortController();
    const { signal } = listening;
    const panel = askPanel({ user, bundle, most, close: () => close(place) });
    open.set(place, { panel, opener, closed, listening });
    place.append(panel.element);
    place.addEventListener("keydown", (event) => { if (event.key === "Escape") close(place); }, { signal });
  }

  /** False if there is none. */
  function close(place) {
    if (!open.has(place)) return false;
    const { panel, opener, closed, listening } = open.get(place);
    open.delete(place);
    listening.abort();
    panel.stop();
    if (panel.element.contains(document.activeElement)) opener.focus();
    panel.element.remove();
    closed();
    return true;
  }

  /** Brings them up to date with the edits; those whose row has left the list go. */
  function show() {
    for (const [place, { panel }] of open) {
      if (place.isConnected) panel.show();
      else close(place);
    }
  }

  const closeAll = () => [...open.keys()].forEach(close);
  return { ask, close, closeAll, show };
}
