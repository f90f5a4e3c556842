// Why is it in her list? What would it take? An answer in words, which can be tried with one click.

import { latest, post } from "/page/api.js";
import { announce, h, iconButton, put } from "/page/dom.js";
import { blank, change, edited, open, state, withAdded, without } from "/page/state.js";
import { attempt, busy } from "/page/trouble.js";
import { called, figure, many, word } from "/page/words.js";

const TRIES = 100;
const MOST = 400; // where the first tries were not enough

/** A panel that asks about a reader and a bundle at once. `close` takes it away. */
export function askPanel({ user, bundle, close }) {
  const body = h("div.answer-body");
  const element = h("section.answer", { "aria-label": `About ${called("bundle", bundle)}`, onkeydown: (event) => { if (event.key === "Escape") close(); } }, body,
    iconButton("strike", "Close this answer", close));
  const fresh = latest();

  function ask(of, budget = TRIES) {
    const signal = fresh();
    const again = () => ask(of, budget);
    put(body, h("p.waiting", {}, "Looking for the fewest changes that do it …"));
    return busy(element, () => attempt(body, async () => {
      const asked = { user: user.id, bundle: bundle.id, top: state.top, of, budget };
      const answer = await post("/api/explain", asked, signal);
      put(body, told(answer), further(answer));
      announce(body.textContent);
    }, again));
  }

  function further(answer) {
    return h("div.row", {},
      answer.found && applyButton(answer, close),
      answer.out_of_budget && answer.tried < MOST && h("button", { type: "button", onclick: () => ask(kindOf(answer), MOST) }, "Look longer"),
      answer.question === "history" && h("button", { type: "button", onclick: () => ask("contents") }, `Or change what is in this ${word("bundle")}`),
      answer.question === "contents" && h("button", { type: "button", onclick: () => ask("history") }, "Or change her history"));
  }
  ask("history");
  return element;
}

function kindOf(answer) {
  return answer.question === "contents" ? "contents" : "history";
}

function told(answer) {
  const name = h("strong", {}, called("bundle", answer.bundle));
  const asIs = edited(state.desks.readers.now) ? h("p.quiet", {}, "Asked of her history as it is, without your changes.") : null;
  return [sentence(answer, name), parts(answer), asIs];
}

function sentence(answer, name) {
  const [place, top] = [figure(answer.place), answer.top];
  const after = answer.place_after === null ? `out of her first ${top}` : `to place ${figure(answer.place_after)}`;
  if (answer.found && answer.question === "why") {
    return h("p", {}, name, ` is at place ${place} because of `, answer.things.length === 1 ? "this" : "these", `. Without ${answer.things.length === 1 ? "it" : "them"} it would fall ${after}.`);
  }
  if (answer.found) {
    const needed = answer.question === "history"
      ? `If she had also chosen ${answer.things.length === 1 ? "this" : `these ${answer.things.length}`}`
      : `With ${answer.swaps.length === 1 ? "this swap" : `these ${answer.swaps.length} swaps`} of ${many("item")} in it`;
    return h("p", {}, name, ` is at place ${place}. ${needed}, it would rise ${after}.`);
  }
  if (answer.out_of_budget) return h("p", {}, name, ` is at place ${place}. No answer in ${answer.tried} tries${answer.tried < MOST ? "; a longer look may find one" : ""}.`);
  if (answer.question === "why") return h("p", {}, name, ` is at place ${place} whatever she has chosen: it stays among her first ${top} without any of her history.`);
  return h("p", {}, name, ` is at place ${place}, and nothing that was tried brings it among her first ${top}.`);
}

function parts(answer) {
  if (!answer.found) return null;
  if (answer.swaps.length) {
    return h("ul.reasons", {}, answer.swaps.map((swap) => h("li", {}, h("s", {}, called("item", swap.old)), " → ", called("item", swap.new))));
  }
  return h("ul.reasons", {}, answer.things.map((thing) => h("li", {}, called(thing.kind, thing), " ", h("span.quiet", {}, word(thing.kind)))));
}

/** The answer holds for things as they are, so it takes the place of other edits. */
function applyButton(answer, close) {
  const apply = () => {
    close();
    if (answer.question === "contents") return open("studio", swapped(answer));
    const step = answer.question === "why" ? without : withAdded;
    const start = blank("readers", answer.user.id);
    return change("readers", answer.things.reduce((now, thing) => step(now, thing.kind, thing.id), start));
  };
  const words = { why: "Strike out and see", history: "Add and see", contents: "Open with these swaps" }[answer.question];
  return h("button.primary", { type: "button", onclick: apply }, words);
}

function swapped(answer) {
  const start = blank("studio", answer.bundle.id);
  return answer.swaps.reduce((now, swap) => withAdded(without(now, "item", swap.old.id), "item", swap.new.id), start);
}
