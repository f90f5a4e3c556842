// The options below a search box. One of them is active: the one that Enter would choose.

import { h, put } from "/page/dom.js";
import { called, capital, count, figure, many } from "/page/words.js";

/** Options for a box; `pick(node)` is called for one that is clicked. Those with `taken` words cannot be chosen. */
export function optionList(input, kind, pick) {
  const id = `${input.id}-options`;
  const element = h("ul.options", { role: "listbox", id, "aria-label": capital(many(kind)), hidden: true });
  input.setAttribute("aria-controls", id);
  let [found, active] = [[], -1];

  /** Shows nodes that were found for a text; with none there is nothing to open. */
  function show(nodes, text = "") {
    found = nodes;
    put(element, found.map((node, at) => option(node, at, text)));
    element.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(found.length > 0));
    activate(found.findIndex((node) => !node.taken));
  }

  function option(node, at, text) {
    return h("li", {
      role: "option", id: `${input.id}-${at}`, "aria-selected": "false", "aria-disabled": node.taken ? "true" : null,
      onclick: () => { if (!node.taken) pick(node); },
      onmousemove: () => activate(at),
    }, h("span.name", {}, marked(called(kind, node), text)), h("span.quiet", {}, node.taken ?? size(kind, node)));
  }

  function activate(at) {
    element.children[active]?.setAttribute("aria-selected", "false");
    active = at;
    const chosen = element.children[at];
    if (!chosen) return input.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", chosen.id);
    return chosen.scrollIntoView({ block: "nearest" });
  }

  /** To the next that can be chosen, around the ends. */
  function move(by) {
    for (let steps = 1; steps <= found.length; steps++) {
      const at = (active + by * steps + found.length * (steps + 1)) % found.length;
      if (!found[at].taken) return activate(at);
    }
    return undefined;
  }

  /** Chooses the one that is active, if any. */
  function pickActive() {
    if (found[active] && !found[active].taken) pick(found[active]);
  }
  return { element, show, move, pickActive };
}

function size(kind, node) {
  if (kind === "user") return node.size === 1 ? "1 choice" : `${figure(node.size)} choices`;
  return kind === "bundle" ? count(node.size, "item") : `in ${count(node.size, "bundle")}`;
}

/** The name with the part that was typed set off. */
function marked(name, text) {
  const at = name.toLowerCase().indexOf(text.toLowerCase());
  if (!text || at < 0) return [name];
  return [name.slice(0, at), h("mark", {}, name.slice(at, at + text.length)), name.slice(at + text.length)];
}
