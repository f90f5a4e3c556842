// Explanations: why a bundle is in a user's list, or what would bring it there. One click tries the answer.

import { latest, post } from "/page/api.js";
import { certainty } from "/page/certainty.js";
import { announce, busy, button, fill, h, iconButton } from "/page/dom.js";
import { attempt } from "/page/errors.js";
import { nameOf } from "/page/names.js";
import { change, isEdited, open as openSubject, state, unedited, withAdded, withRemoved } from "/page/state.js";
import { formatNumber, label, plural, word } from "/page/words.js";

const APPLY = { why: "Remove and see", history: "Add and see", contents: "Open with these swaps" };
const CHANGE = { history: "addition", contents: "swap" };
const BUDGET = 100; // sets of edits that are tried at first

/** The open explanations of a user, at most one in an element; the service allows `maxBudget` tries. */
export function explanations(user, maxBudget) {
  const panels = new Map(); // by the element that contains them

  /** Opens one in `parent`. When it closes, `onClose` is called and `opener` gets the focus back. */
  function open(parent, bundle, opener, onClose = () => {}) {
    close(parent);
    const listening = new AbortController();
    const { signal } = listening;
    const panel = explanationPanel({ user, bundle, maxBudget, close: () => close(parent) });
    panels.set(parent, { panel, opener, onClose, listening });
    parent.append(panel.element);
    parent.addEventListener("keydown", (event) => { if (event.key === "Escape") close(parent); }, { signal });
  }

  /** False if there is none. */
  function close(parent) {
    if (!panels.has(parent)) return false;
    const { panel, opener, onClose, listening } = panels.get(parent);
    panels.delete(parent);
    listening.abort();
    panel.stop();
    if (panel.element.contains(document.activeElement)) opener.focus();
    panel.element.remove();
    onClose();
    return true;
  }

  /** Updates them after an edit; one whose row has left the list is closed. */
  function show() {
    for (const [parent, { panel }] of panels) {
      if (parent.isConnected) panel.show();
      else close(parent);
    }
  }

  const closeAll = () => [...panels.keys()].forEach(close);
  return { open, close, closeAll, show };
}

/** A panel that sends its request at once. `show()` updates it after an edit; `stop()` aborts the request. */
function explanationPanel({ user, bundle, maxBudget, close }) {
  const [body, text] = [h("div.answer-body"), h("div")];
  const element = h("section.answer", { "aria-label": `About ${label("bundle", bundle)}`, tabindex: "-1" },
    body, iconButton("remove", "Close this answer", close));
  const nextSignal = latest();
  let answer = null;

  function ask(of, budget = Math.min(BUDGET, maxBudget)) {
    const signal = nextSignal();
    const retry = () => ask(of, budget);
    if (body.contains(document.activeElement)) element.focus(); // the focused button is replaced
    fill(body, h("p.waiting", {}, "Searching for the smallest change …"));
    return busy(element, () => attempt(body, async () => {
      const request = { user: user.id, bundle: bundle.id, k: state.k, of, budget };
      answer = await post("/explain", request, signal);
      show();
      fill(body, text, actions());
      announce(text.innerText);
    }, retry));
  }

  /** The answer is about the data without the edits, and says so if there are any. */
  function show() {
    if (answer) fill(text, answerText(answer, isEdited(state.subjects.users.now), answer.tried < maxBudget));
  }

  function actions() {
    const { question, out_of_budget: outOfBudget, tried } = answer;
    const askButton = (words, ...how) => button("button", () => ask(...how), {}, words);
    const of = question === "contents" ? "contents" : "history";
    return h("div.row", {},
      applyButton(answer, close),
      outOfBudget && tried < maxBudget && askButton("Try longer", of, maxBudget),
      question === "history" && askButton(`Or change what is in this ${word("bundle")}`, "contents"),
      question === "contents" && askButton("Or change the history", "history"));
  }
  ask("history");
  return { element, show, stop: () => { nextSignal(); } };
}

function answerText(answer, edited, canTryMore) {
  const name = h("strong", {}, label("bundle", answer.bundle));
  const rank = ` has rank ${formatNumber(answer.rank)}`;
  return [
    h("p", {}, edited && "Without your changes, ", name, rank, restOfSentence(answer, canTryMore)),
    answer.out_of_reach && nearestList(answer),
    editList(answer),
    bestEdits(answer) && certainty(answer.question === "contents" ? "bundle" : "user"),
    edited && h("p.muted", {}, "This is about the history without your changes",
      bestEdits(answer)?.evidence.length > 0 && "; trying it replaces your changes", "."),
  ];
}

/** The sentence after the rank. */
function restOfSentence(answer, canTryMore) {
  const { question, k, evidence, swaps, tried } = answer;
  if (answer.out_of_reach) {
    const needed = changes(question, evidence.length + swaps.length);
    return ` and is out of reach: ${answer.found ? `it would take ${needed} to come` : "nothing that was tried brings it"} `
      + `among the first ${k}.`;
  }
  if (answer.found) {
    const after = `to rank ${formatNumber(answer.rank_after)}`;
    if (question === "why") {
      return evidence.length === 1
        ? ` because of this. Without it, it would fall ${after}.`
        : ` because of these. Without them, it would fall ${after}.`;
    }
    if (question === "history") {
      const needed = evidence.length === 1 ? "this" : `these ${evidence.length}`;
      return `. If the ${word("user")} had also chosen ${needed}, it would rise ${after}.`;
    }
    const needed = swaps.length === 1 ? "this swap" : `these ${swaps.length} swaps`;
    return `. With ${needed} of ${plural("item")} in it, it would rise ${after}.`;
  }
  if (answer.out_of_budget) return `. No answer in ${tried} tries${canTryMore ? "; more tries may find one." : "."}`;
  if (question === "why") return ` whatever the history is: without any of it, it stays among the first ${k}.`;
  if (tried === 0) return `, and there is no ${word("item")} in it to swap.`;
  return `, and nothing that was tried brings it among the first ${k}.`;
}

/** "1 addition", "3 swaps". */
function changes(question, number) {
  return `${formatNumber(number)} ${CHANGE[question]}${number === 1 ? "" : "s"}`;
}

/** How near a few edits come to bringing a bundle in. */
function nearestList({ question, nearest }) {
  if (!nearest.length) return h("p", {}, `No few ${CHANGE[question]}s that were tried bring it nearer.`);
  return h("div.nearest", {},
    h("p", {}, "How near the most promising come:"),
    h("ul.evidence", {}, nearest.map(({ edits, rank }) => (
      h("li", {}, `${changes(question, edits)}: rank ${formatNumber(rank)}`)))),
    h("p", {}, nearest.at(-1).edits === 1 ? "This is it:" : `These are the ${nearest.at(-1).edits}:`));
}

/** The edits to show and to try: those that were found, or the nearest if the bundle is out of reach; or null. */
function bestEdits(answer) {
  if (answer.out_of_reach) return answer.nearest.at(-1) ?? null;
  return answer.found ? answer : null;
}

function editList(answer) {
  const best = bestEdits(answer);
  if (!best) return null;
  const swap = ({ old, new: other }) => h("li", {}, h("s", {}, label("item", old)), " → ", label("item", other));
  const node = (found) => h("li", {}, nameOf(found.kind, found), " ", h("span.muted", {}, word(found.kind)));
  return h("ul.evidence", {}, answer.question === "contents" ? best.swaps.map(swap) : best.evidence.map(node));
}

/** Applies the answer. It is about the data without the edits, so it replaces them. */
function applyButton(answer, close) {
  const best = bestEdits(answer);
  if (!best) return null;
  const apply = () => {
    close();
    if (answer.question === "contents") return openSubject("bundles", withSwaps(answer.bundle, best.swaps));
    const edit = answer.question === "why" ? withRemoved : withAdded;
    const start = unedited("users", answer.user.id);
    return change("users", best.evidence.reduce((subject, node) => edit(subject, node.kind, node.id), start));
  };
  return button("button.primary", apply, {}, APPLY[answer.question]);
}

function withSwaps(bundle, swaps) {
  return swaps.reduce(
    (subject, swap) => withAdded(withRemoved(subject, "item", swap.old.id), "item", swap.new.id),
    unedited("bundles", bundle.id),
  );
}
