// The swaps that would gain a bundle the most readers: looked for when asked, applied with one click.

import { latest, post } from "/page/api.js";
import { announce, button, h, put } from "/page/dom.js";
import { change, editsOf, state, withAdded, without } from "/page/state.js";
import { attempt, busy } from "/page/trouble.js";
import { called, count, figure, many, word } from "/page/words.js";

const COUNT = 5;

export function suggestions(bundle) {
  const finder = button("button", look, {}, "Find good swaps");
  const body = h("div");
  const element = h("section.suggestions", {},
    h("h3", {}, `Which swaps would gain the most ${many("user")}?`),
    h("p.quiet", {}, "Each is tried out in full, so this takes a moment. "
      + `It begins from the ${word("bundle")} as it is above, with your changes.`),
    finder, body);
  const fresh = latest();
  let asked = null; // the edits and the length that the answer is for

  const question = () => JSON.stringify([state.desks.studio.now, state.top]);

  /** What was found holds for the bundle as it was then; it goes when the bundle changes. */
  function show() {
    if (asked !== null && asked !== question()) leave();
  }

  function leave() {
    fresh();
    asked = null;
    put(body);
    settle(false);
  }

  function settle(waiting) {
    finder.setAttribute("aria-disabled", String(waiting));
    finder.textContent = waiting ? "Trying swaps …" : "Find good swaps";
  }

  async function look() {
    if (finder.getAttribute("aria-disabled") === "true") return;
    const signal = fresh();
    const { now } = state.desks.studio;
    asked = question();
    settle(true);
    put(body);
    await busy(element, () => attempt(body, async () => {
      const question = { bundle: bundle.id, ...editsOf(now), top: state.top, count: COUNT };
      const { swaps } = await post("/api/suggest", question, signal);
      const none = `No swap of one ${word("item")} was found that gains ${many("user")}.`;
      put(body, swaps.length ? table(swaps, now) : h("p.told", {}, none));
      announce(swaps.length ? `${swaps.length} swaps found, the best gains ${count(swaps[0].gain, "user")}` : none);
    }, look));
    if (!signal.aborted) settle(false);
  }

  function table(swaps, now) {
    const most = Math.max(...swaps.map((swap) => swap.gain));
    return h("ol.swaps", {}, swaps.map((swap) => {
      const [old, other] = [called("item", swap.old), called("item", swap.new)];
      const label = { "aria-label": `Swap ${old} for ${other}` };
      const bar = h("i", { "aria-hidden": "true" });
      bar.style.width = `${4 * swap.gain / most}rem`;
      return h("li", {},
        h("span.swap", {}, h("s", {}, old), " → ", other),
        h("span.gain", {}, bar, h("strong", {}, `+${figure(swap.gain)}`),
          h("span.hidden", {}, ` ${word("user", swap.gain)}`)),
        button("button", () => apply(now, swap, `${old} swapped for ${other}`), label, "Swap"));
    }));
  }

  function apply(now, swap, words) {
    announce(words);
    finder.focus(); // the row goes
    change("studio", withAdded(without(now, "item", swap.old.id), "item", swap.new.id));
  }
  return { element, show, leave };
}
