// Things that can be struck out and added: what a reader has chosen, what is in a list.

import { nodeOf } from "/page/api.js";
import { announce, button, h, icon, iconButton, keyed, put } from "/page/dom.js";
import { searchBox } from "/page/search.js";
import { blank, change, linkTo, standing, state, withAdded, without } from "/page/state.js";
import { called, figure, one } from "/page/words.js";

const SHOWN = 8; // until all are asked for
const FEW = 3; // more than that are shown at once

/** A group of one kind. `editable` is false where nothing can be asked; `swaps` offers another in a thing's place. */
export function thingGroup({ tab, kind, title, none, strike, struck, editable, swaps = false }) {
  const heading = h("h3");
  const list = h("ul.things");
  const more = button("button.quiet.more", showAll);
  const empty = h("p.quiet", {}, none);
  const adder = editable && searchBox({
    kind, label: `Add ${one(kind)}`, placeholder: `Add ${one(kind)}`, quietLabel: true, taken,
    choose: (node) => say(withAdded(now(), kind, node.id), `${called(kind, node)} added`),
  });
  const element = h("section.group", {}, heading, adder && adder.element, list, empty, more);
  let [nodes, added, all] = [[], [], false];

  const now = () => state.desks[tab].now;

  function taken(id) {
    const here = standing(now(), kind, id);
    return here === "added" || (here === "as is" && nodes.some((node) => node.id === id)) ? "already there" : null;
  }

  function say(next, words) {
    announce(words);
    change(tab, next);
  }

  /** `there` are those of the data; those that were added are looked up. */
  async function show(there) {
    if (there !== nodes) all = there.length <= SHOWN + FEW;
    nodes = there;
    added = await Promise.all(now()[`add_${kind}s`].map((id) => nodeOf(kind, id)));
    draw();
  }

  function showAll() {
    all = true;
    draw();
    list.children[SHOWN].querySelector("button, a")?.focus(); // the button is gone
  }

  function draw() {
    const seen = nodes.filter((node, at) => all || at < SHOWN || standing(now(), kind, node.id) === "struck");
    const focused = list.contains(document.activeElement);
    keyed(list, [...added, ...seen], (node) => node.id, makeRow, updateRow);
    if (focused && !list.contains(document.activeElement)) adder.input.focus(); // its row is gone
    put(heading, title, " ", h("span.quiet", {}, figure(nodes.length)));
    empty.hidden = nodes.length + added.length > 0;
    more.hidden = seen.length === nodes.length;
    more.textContent = `Show all ${figure(nodes.length)}`;
  }

  function makeRow(node) {
    const name = kind === "bundle"
      ? h("a.name", { href: linkTo("studio", blank("studio", node.id)) }, called(kind, node))
      : h("span.name", {}, called(kind, node));
    return h("li", {}, h("div.thing", {}, name, h("span.mark"), h("span.buttons")));
  }

  function updateRow(row, node) {
    const here = standing(now(), kind, node.id);
    row.className = here.replace(" ", "-");
    row.querySelector(".mark").textContent = { struck, added: "added" }[here] ?? "";
    if (!editable) return;
    const name = called(kind, node);
    const place = row.querySelector(".buttons");
    if (!place.children.length) {
      put(place,
        swaps && iconButton("swap", `Swap ${name} for another`, () => openSwap(row, node)),
        iconButton("strike", "", () => toggle(node)));
    }
    const last = place.lastElementChild;
    const words = { struck: `Put ${name} back`, added: `Take ${name} away again` }[here] ?? `${strike} ${name}`;
    if (last.title === words) return;
    Object.assign(last, { title: words, ariaLabel: words });
    put(last, icon(here === "struck" ? "back" : "strike"));
    if (swaps) place.firstElementChild.hidden = here === "struck";
  }

  function toggle(node) {
    const back = standing(now(), kind, node.id) === "struck";
    const next = back ? withAdded(now(), kind, node.id) : without(now(), kind, node.id);
    say(next, `${called(kind, node)} ${back ? "put back" : struck}`);
  }

  function openSwap(row, node) {
    row.querySelector(".search")?.remove();
    const name = called(kind, node);
    const close = () => { box.element.remove(); row.querySelector(".buttons button")?.focus(); };
    const box = searchBox({
      kind, label: `Swap ${name} for`, taken, leave: close,
      choose: (other) => {
        close();
        say(withAdded(without(now(), kind, node.id), kind, other.id), `${name} swapped for ${called(kind, other)}`);
      },
    });
    row.append(box.element);
    box.input.focus();
  }
  return { element, show };
}
