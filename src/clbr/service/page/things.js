// Things that can be struck out and added: what a reader has chosen, what is in a list.

import { announce, button, h, keyed, put } from "/page/dom.js";
import { nodesOf } from "/page/nodes.js";
import { searchBox } from "/page/search.js";
import { change, standing, state, withAdded, without } from "/page/state.js";
import { makeThing, updateThing } from "/page/thing.js";
import { called, figure, one } from "/page/words.js";

const SHOWN = 8; // until all are asked for
const FEW = 3; // more than that are shown at once

/**
 * A group of one kind. `editable` is false where nothing can be asked; `swaps` offers another in a thing's place;
 * `strike` and `struck` are the words for it.
 */
export function thingGroup(asked) {
  const { kind, title, none, editable } = asked;
  let [nodes, others, all] = [[], [], false]; // those of the data, and those that only edits speak of
  const edits = editsOn(asked, (id) => nodes.some((node) => node.id === id));
  const [heading, list, empty] = [h("h3"), h("ul.things"), h("p.quiet", {}, none)];
  const more = button("button.quiet.more", showAll);
  const adder = editable && searchBox({
    kind, label: `Add ${one(kind)}`, placeholder: `Add ${one(kind)}`, quietLabel: true,
    taken: edits.taken, choose: edits.add,
  });
  const element = h("section.group", {}, heading, adder && adder.element, list, empty, more);

  /** `there` are those of the data; others of the edits are looked up. */
  async function show(there, signal) {
    if (there !== nodes) all = there.length <= SHOWN + FEW;
    nodes = there;
    const found = await nodesOf(kind, edits.ofOthers(), signal);
    signal.throwIfAborted(); // the edits may be others by now
    others = found;
    draw();
  }

  function showAll() {
    all = true;
    draw();
    list.children[others.length + SHOWN].querySelector("button, a")?.focus(); // the button is gone
  }

  function draw() {
    const seen = nodes.filter((node, at) => all || at < SHOWN || edits.standing(node) !== "as is");
    const focused = list.contains(document.activeElement);
    keyed(list, [...others, ...seen], (node) => node.id, (node) => makeThing(kind, node),
      (row, node) => updateThing(row, node, edits, asked));
    if (focused && !list.contains(document.activeElement)) adder.input.focus(); // its row is gone
    put(heading, title, " ", h("span.quiet", {}, figure(nodes.length)));
    empty.hidden = nodes.length + others.length > 0;
    more.hidden = seen.length === nodes.length;
    more.textContent = `Show all ${figure(nodes.length)}`;
  }
  return { element, show };
}

/** What can be done with the things of a kind, and how each stands; `has(id)` says whether the data has it. */
function editsOn({ tab, kind, struck }, has) {
  const now = () => state.desks[tab].now;
  const say = (next, words) => {
    announce(words);
    change(tab, next);
  };

  /** "struck", "added", "as is", or "strange": struck out, but not of the data, as in a link from another day. */
  function standingOf({ id }) {
    const here = standing(now(), kind, id);
    return here === "struck" && !has(id) ? "strange" : here;
  }

  function taken(id) {
    if (now()[`add_${kind}s`].length >= state.most) return "no more can be added";
    const here = standing(now(), kind, id);
    return here === "added" || (here === "as is" && has(id)) ? "already there" : null;
  }

  function toggle(node) {
    const here = standingOf(node);
    const back = here === "struck" || here === "strange";
    const next = back ? withAdded(now(), kind, node.id) : without(now(), kind, node.id);
    const done = { struck: "put back", strange: "forgotten", added: "taken away again" }[here] ?? struck;
    say(next, `${called(kind, node)} ${done}`);
  }

  return {
    kind, standing: standingOf, taken, toggle,
    add: (node) => say(withAdded(now(), kind, node.id), `${called(kind, node)} added`),
    swap: (old, other) => say(withAdded(without(now(), kind, old.id), kind, other.id),
      `${called(kind, old)} swapped for ${called(kind, other)}`),
    ofOthers: () => [...new Set([...now()[`add_${kind}s`], ...now()[`drop_${kind}s`]])].filter((id) => !has(id)),
  };
}
