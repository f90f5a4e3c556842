// One thing in a group: its name, how it stands, and buttons to strike it out, put it back or swap it.

import { h, icon, iconButton, put } from "/page/dom.js";
import { searchBox } from "/page/search.js";
import { blank, linkTo } from "/page/state.js";
import { called } from "/page/words.js";

export function makeThing(kind, node) {
  const name = kind === "bundle" && !node.unknown
    ? h("a.name", { href: linkTo("studio", blank("studio", node.id)) }, called(kind, node))
    : h("span.name", {}, called(kind, node));
  return h("li", {}, h("div.thing", {}, name, h("span.mark"), h("span.buttons")));
}

/** Brings a row up to date; `words` are those of the group, `edits` what can be done with its things. */
export function updateThing(row, node, edits, { struck, strike, editable, swaps }) {
  const here = edits.standing(node);
  row.className = { strange: "struck" }[here] ?? here.replace(" ", "-");
  row.querySelector(".mark").textContent = mark(here, node, struck);
  if (!editable) return;
  const name = called(edits.kind, node);
  const place = row.querySelector(".buttons");
  if (!place.children.length) {
    put(place,
      swaps && !node.unknown && iconButton("swap", `Swap ${name} for another`, () => openSwap(row, node, edits)),
      iconButton("strike", "", () => edits.toggle(node)));
  }
  const last = place.lastElementChild;
  const words = {
    struck: `Put ${name} back`, strange: `Forget ${name}`, added: `Take ${name} away again`,
  }[here] ?? `${strike} ${name}`;
  if (last.title === words) return;
  Object.assign(last, { title: words, ariaLabel: words });
  put(last, icon(here === "struck" ? "back" : "strike"));
  if (place.children.length > 1) place.firstElementChild.hidden = here === "struck" || here === "strange";
}

function mark(here, node, struck) {
  if (node.unknown) return "not known here";
  return { struck, strange: "was not there", added: "added" }[here] ?? "";
}

function openSwap(row, node, edits) {
  row.querySelector(".search")?.remove();
  const close = () => { box.element.remove(); row.querySelector(".buttons button")?.focus(); };
  const box = searchBox({
    kind: edits.kind, label: `Swap ${called(edits.kind, node)} for`, taken: edits.taken, leave: close,
    choose: (other) => { close(); edits.swap(node, other); },
  });
  row.append(box.element);
  box.input.focus();
}
