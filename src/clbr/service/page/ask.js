// Why is it in her list? What would it take? An answer in words, which can be tried with one click.

import { latest, post } from "/page/api.js";
import { announce, button, h, iconButton, put } from "/page/dom.js";
import { blank, change, edited, open, state, withAdded, without } from "/page/state.js";
import { attempt, busy } from "/page/trouble.js";
import { called, figure, many, word } from "/page/words.js";

const APPLY = { why: "Strike out and see", history: "Add and see", contents: "Open with these swaps" };
const TRIES = 100;

/**
 * A panel that asks about a reader and a bundle at once, with `most` tries where the first were not enough. `close`
 * takes it away. `show()` brings it up to date with the edits, and `stop()` gives up waiting for an answer.
 */
export function askPanel({ user, bundle, most, close }) {
  const [body, saying] = [h("div.answer-body"), h("div")];
  const element = h("section.answer", { "aria-label": `About ${called("bundle", bundle)}`, tabindex: "-1" },
    body, iconButton("strike", "Close this answer", close));
  const fresh = latest();
  let answer = null;

  function ask(of, budget = Math.min(TRIES, most)) {
    const signal = fresh();
    const again = () => ask(of, budget);
    if (body.contains(document.activeElement)) element.focus(); // the button goes
    put(body, h("p.waiting", {}, "Looking for the fewest changes that do it …"));
    return busy(element, () => attempt(body, async () => {
      const asked = { user: user.id, bundle: bundle.id, top: state.top, of, budget };
      answer = await post("/api/explain", asked, signal);
      show();
      put(body, saying, further());
      announce(saying.innerText);
    }, again));
  }

  /** The answer is about things as they are, which has to be said as soon as there are edits. */
  function show() {
    if (answer) put(saying, told(answer, edited(state.desks.readers.now), answer.tried < most));
  }

  function further() {
    const { question, out_of_budget: spent, tried } = answer;
    const asking = (words, ...how) => button("button", () => ask(...how), {}, words);
    return h("div.row", {},
      answer.found && applyButton(answer, close),
      spent && tried < most && asking("Look longer", question === "contents" ? "contents" : "history", most),
      question === "history" && asking(`Or change what is in this ${word("bundle")}`, "contents"),
      question === "contents" && asking("Or change her history", "history"));
  }
  ask("history");
  return { element, show, stop: () => { fresh(); } };
}

function told(answer, changed, more) {
  const name = h("strong", {}, called("bundle", answer.bundle));
  const place = ` is at place ${figure(answer.place)}`;
  return [
    h("p", {}, changed && "Without your changes, ", name, place, sentence(answer, more)),
    parts(answer),
    changed && h("p.quiet", {}, "Asked of her history as it is",
      answer.things.length > 0 && "; to try it takes the place of your changes", "."),
  ];
}

/** How the sentence that begins with its place goes on; `more` says whether there are tries left. */
function sentence(answer, more) {
  const { question, top, things, swaps, tried } = answer;
  const after = answer.rank_after === null ? `out of her first ${top}` : `to place ${figure(answer.rank_after)}`;
  if (answer.found && question === "why") {
    return things.length === 1
      ? ` because of this. Without it, it would fall ${after}.`
      : ` because of these. Without them it would fall ${after}.`;
  }
  if (answer.found && question === "history") {
    const needed = things.length === 1 ? "this" : `these ${things.length}`;
    return `. If she had also chosen ${needed}, it would rise ${after}.`;
  }
  if (answer.found) {
    const needed = swaps.length === 1 ? "this swap" : `these ${swaps.length} swaps`;
    return `. With ${needed} of ${many("item")} in it, it would rise ${after}.`;
  }
  if (answer.out_of_budget) return `. No answer in ${tried} tries${more ? "; a longer look may find one." : "."}`;
  if (question === "why") return ` whatever she has chosen: without any of her history it stays among her first ${top}.`;
  return `, and nothing that was tried brings it among her first ${top}.`;
}

function parts(answer) {
  if (!answer.found) return null;
  const swap = ({ old, new: other }) => h("li", {}, h("s", {}, called("item", old)), " → ", called("item", other));
  const thing = (one) => h("li", {}, called(one.kind, one), " ", h("span.quiet", {}, word(one.kind)));
  return h("ul.reasons", {}, answer.question === "contents" ? answer.swaps.map(swap) : answer.things.map(thing));
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
  return button("button.primary", apply, {}, APPLY[answer.question]);
}

function swapped(answer) {
  const start = blank("studio", answer.bundle.id);
  return answer.swaps.reduce((now, swap) => withAdded(without(now, "item", swap.old.id), "item", swap.new.id), start);
}
