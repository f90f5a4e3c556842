// A search box: a combobox as screen readers know it, with arrows, Enter and Escape.

import { get, latest, remember } from "/page/api.js";
import { announce, h, put } from "/page/dom.js";
import { attempt } from "/page/trouble.js";
import { called, capital, count, figure, many } from "/page/words.js";

const PAUSE = 150; // milliseconds without a keystroke before the service is asked
const SHOWN = 8;
let made = 0;

/**
 * A box that finds nodes of a kind and calls `choose(node)`. `taken(id)` says of a node that it cannot be chosen, in
 * words; `leave` is called on Escape when there is nothing left to close.
 */
export function searchBox(asked) {
  const { kind, label, placeholder = "", quietLabel = false, choose, taken = () => null, leave = () => {} } = asked;
  const name = `search-${++made}`;
  const listbox = { role: "listbox", id: `${name}-options`, "aria-label": capital(many(kind)), hidden: true };
  const options = h("ul.options", listbox);
  const message = h("div.found");
  const popup = h("div.popup", { hidden: true }, options, message);
  const input = h("input", {
    id: name, type: "text", role: "combobox", placeholder,
    autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    "aria-expanded": "false", "aria-autocomplete": "list", "aria-controls": options.id,
  });
  const element = h("div.search", {}, h(quietLabel ? "label.hidden" : "label", { for: name }, label), input, popup);
  const fresh = latest();
  let found = [];
  let active = -1;
  let answered = null; // the text whose answer is shown
  let timer;

  async function find() {
    const text = input.value.trim();
    const signal = fresh();
    clearTimeout(timer);
    return attempt(message, async () => {
      const answer = await get("/api/find", { kind, text, limit: SHOWN }, signal);
      answered = text;
      found = answer.found.map((node) => ({ ...node, taken: taken(node.id) }));
      found.forEach((node) => remember(kind, node));
      draw(answer);
    }, find).then((done) => {
      if (!done && !signal.aborted) open(false);
      return done;
    });
  }

  function draw(answer) {
    put(options, found.map((node, at) => option(node, at, answer.text)));
    const more = answer.total - found.length;
    put(message, h("p", {}, found.length === 0
      ? `No ${many(kind)} with “${answer.text}”. Try the beginning of a word, or an id.`
      : more > 0 ? `and ${figure(more)} more: type to narrow them down` : ""));
    message.hidden = found.length > 0 && more <= 0;
    activate(found.findIndex((node) => !node.taken));
    open(found.length > 0);
    announce(found.length === 0 ? `No ${many(kind)} found` : `${count(answer.total, kind)} found`);
  }

  function option(node, at, text) {
    return h("li", {
      role: "option", id: `${name}-${at}`, "aria-selected": "false", "aria-disabled": node.taken ? "true" : null,
      onclick: () => pick(at), onmousemove: () => activate(at),
    }, h("span.name", {}, marked(called(kind, node), text)), h("span.quiet", {}, node.taken ?? size(kind, node)));
  }

  function open(any) {
    popup.hidden = false;
    options.hidden = !any;
    input.setAttribute("aria-expanded", String(any));
  }

  function close() {
    fresh();
    clearTimeout(timer);
    popup.hidden = true;
    input.setAttribute("aria-expanded", "false");
    activate(-1);
    answered = null;
  }

  function activate(at) {
    options.children[active]?.setAttribute("aria-selected", "false");
    active = at;
    const chosen = options.children[at];
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

  function pick(at) {
    const node = found[at];
    if (!node || node.taken) return;
    input.value = "";
    close();
    choose(node);
  }

  const keys = {
    ArrowDown: () => (popup.hidden ? find() : move(1)),
    ArrowUp: () => (popup.hidden ? find() : move(-1)),
    Enter: async () => {
      const text = input.value.trim();
      if (answered === text || (text && await find())) pick(active); // who types fast need not wait for the answer
    },
    Escape: () => {
      if (!popup.hidden) close();
      else if (input.value) input.value = "";
      else leave();
    },
  };
  input.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.isComposing) return;
    event.preventDefault();
    keys[event.key]();
  });
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, PAUSE); });
  input.addEventListener("click", () => { if (popup.hidden) find(); });
  element.addEventListener("focusout", (event) => { if (!element.contains(event.relatedTarget)) close(); });
  popup.addEventListener("mousedown", (event) => {
    if (!event.target.closest("button")) event.preventDefault(); // focus stays in the box
  });
  return { element, input };
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
