// Suggested swaps: those that would gain a bundle the most users. Computed on request, applied with one click.

import { latest, post } from "/page/api.js";
import { certainty } from "/page/certainty.js";
import { announce, busy, button, fill, h } from "/page/dom.js";
import { attempt } from "/page/errors.js";
import { change, editsOf, state, withAdded, withRemoved } from "/page/state.js";
import { count, formatNumber, label, plural, word } from "/page/words.js";

const COUNT = 5;

export function suggestions(bundle) {
  const finder = button("button", find, {}, "Find good swaps");
  const body = h("div");
  const element = h("section.suggestions", {},
    h("h3", {}, `Which swaps would gain the most ${plural("user")}?`),
    h("p.muted", {}, "Each swap is computed in full, so this takes a moment. "
      + `It starts from the ${word("bundle")} as shown above, with your changes.`),
    finder, body);
  const nextSignal = latest();
  let shownFor = null; // the edits and the length of the list that the answer is about

  const currentKey = () => JSON.stringify([state.subjects.bundles.now, state.k]);

  /** Removes the answer if the bundle has changed since. */
  function show() {
    if (shownFor !== null && shownFor !== currentKey()) leave();
  }

  function leave() {
    nextSignal();
    shownFor = null;
    fill(body);
    setWaiting(false);
  }

  function setWaiting(waiting) {
    finder.setAttribute("aria-disabled", String(waiting));
    finder.textContent = waiting ? "Trying swaps …" : "Find good swaps";
  }

  async function find() {
    if (finder.getAttribute("aria-disabled") === "true") return;
    const signal = nextSignal();
    const { now } = state.subjects.bundles;
    shownFor = currentKey();
    setWaiting(true);
    fill(body);
    await busy(element, () => attempt(body, async () => {
      const request = { bundle: bundle.id, ...editsOf(now), k: state.k, count: COUNT };
      const { swaps, audience } = await post("/suggest", request, signal);
      const none = `No swap of one ${word("item")} was found that gains ${plural("user")}.`;
      fill(body, swaps.length ? [certainty("bundle"), swapList(swaps, audience, now)] : h("p.detail", {}, none));
      announce(swaps.length ? `${swaps.length} swaps found, the best gains ${count(swaps[0].gain, "user")}` : none);
    }, find));
    if (!signal.aborted) setWaiting(false);
  }

  function swapList(swaps, audience, subject) {
    return h("ol.swaps", {}, swaps.map((swap) => {
      const [old, other] = [label("item", swap.old), label("item", swap.new)];
      const properties = { "aria-label": `Swap ${old} for ${other}` };
      return h("li", {},
        h("span.swap", {}, h("s", {}, old), " → ", other),
        h("span.gain", {}, h("strong", {}, `${formatNumber(swap.gain)} more`),
          h("span.muted", {}, ` ${formatNumber(audience)} → ${formatNumber(swap.audience)}`)),
        button("button", () => apply(subject, swap, `${old} swapped for ${other}`), properties, "Swap"));
    }));
  }

  function apply(subject, swap, words) {
    announce(words);
    finder.focus(); // the row is removed
    change("bundles", withAdded(withRemoved(subject, "item", swap.old.id), "item", swap.new.id));
  }
  return { element, show, leave };
}
