// A search box: an ARIA combobox with a list of options. Arrow keys, Enter and Escape work.

import { get, latest } from "/page/api.js";
import { announce, fill, h } from "/page/dom.js";
import { attempt } from "/page/errors.js";
import { remember } from "/page/lookup.js";
import { fullLabel, previewLine, repeated, showPreviews } from "/page/names.js";
import { MAX_TEXT } from "/page/state.js";
import { capitalize, count, formatNumber, plural } from "/page/words.js";

const PAUSE = 150; // milliseconds without a keystroke before a request
const SHOWN = 8;
let boxes = 0;

/**
 * A box that finds nodes of a kind and calls `choose(node)`. `unavailable(id)` says why a node cannot be chosen, or
 * null; `leave` is called on Escape when nothing is open.
 */
export function searchBox(config) {
  const { kind, choose, unavailable = () => null, leave = () => {} } = config;
  const input = makeInput(config.placeholder);
  const options = optionList(input, kind, pick);
  const message = h("div.search-message");
  const popup = h("div.popup", { hidden: true }, options.element, message);
  const caption = h(config.hiddenLabel ? "label.hidden" : "label", { for: input.id }, config.label);
  const element = h("div.search", {}, caption, input, popup);
  const nextSignal = latest();
  let shownText = null; // the text whose results are shown
  let timer;

  async function find() {
    const text = input.value.trim();
    const signal = nextSignal();
    clearTimeout(timer);
    const done = await attempt(message, async () => {
      const answer = await get("/find", { kind, text, limit: SHOWN }, signal);
      answer.found.forEach((node) => remember(kind, node));
      show(text, answer, signal);
    }, () => { input.focus(); find(); });
    if (!done && !signal.aborted) open(null, [], true); // the error is in the message
    return done;
  }

  function show(text, answer, signal) {
    const words = remainder(kind, answer);
    fill(message, h("p", {}, words));
    open(text, answer.found.map((node) => ({ ...node, reason: unavailable(node.id) })), words !== "");
    announce(answer.found.length === 0 ? `No ${plural(kind)} found` : `${count(answer.total, kind)} found`);
    showPreviews(options.element, signal);
  }

  function open(text, nodes, hasMessage) {
    shownText = text;
    popup.hidden = false;
    message.hidden = !hasMessage;
    options.show(nodes, text ?? "");
  }

  function close() {
    nextSignal();
    clearTimeout(timer);
    popup.hidden = true;
    options.show([]);
    shownText = null;
  }

  function pick(node) {
    input.value = "";
    close();
    choose(node);
  }

  listenToKeys(input, {
    ArrowDown: () => (popup.hidden ? find() : options.move(1)),
    ArrowUp: () => (popup.hidden ? find() : options.move(-1)),
    Enter: async () => {
      const text = input.value.trim(); // Enter also works before the results are shown
      if (shownText === text || (text && await find())) options.pickActive();
    },
    Escape: () => {
      if (!popup.hidden) close();
      else if (input.value) input.value = "";
      else leave();
    },
  });
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, PAUSE); });
  input.addEventListener("click", () => { if (popup.hidden) find(); });
  element.addEventListener("focusout", (event) => { if (!element.contains(event.relatedTarget)) close(); });
  popup.addEventListener("mousedown", (event) => {
    if (!event.target.closest("button")) event.preventDefault(); // focus stays in the box
  });
  return { element, input };
}

function makeInput(placeholder = "") {
  return h("input", {
    id: `search-${++boxes}`, type: "text", role: "combobox", placeholder, maxlength: MAX_TEXT,
    autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    "aria-expanded": "false", "aria-autocomplete": "list",
  });
}

function listenToKeys(input, keys) {
  input.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.isComposing) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** What the options do not show, in words: more matches, or no match. */
function remainder(kind, { found, total, text }) {
  if (found.length === 0) return `No ${plural(kind)} with “${text}”. Try the first letters of a word, or an id.`;
  return total > found.length ? `and ${formatNumber(total - found.length)} more: type to narrow them down` : "";
}

/** The options below a box; Enter chooses the active one. `pick(node)` is called for one that is clicked. */
function optionList(input, kind, pick) {
  const id = `${input.id}-options`;
  const element = h("ul.options", { role: "listbox", id, "aria-label": capitalize(plural(kind)), hidden: true });
  input.setAttribute("aria-controls", id);
  let [nodes, active] = [[], -1];

  /** Shows the nodes found for a text; one with a `reason` cannot be chosen. */
  function show(found, text = "") {
    nodes = found;
    const again = repeated(kind, nodes);
    fill(element, nodes.map((node, at) => option(node, at, text, again)));
    element.hidden = nodes.length === 0;
    input.setAttribute("aria-expanded", String(nodes.length > 0));
    activate(nodes.findIndex((node) => !node.reason));
  }

  function option(node, at, text, again) {
    return h("li", {
      role: "option", id: `${input.id}-${at}`, "aria-selected": "false", "aria-disabled": node.reason ? "true" : null,
      onclick: () => { if (!node.reason) pick(node); },
      onmousemove: () => activate(at),
    }, h("span.name", {}, highlight(fullLabel(kind, node, again), text)),
    h("span.muted", {}, node.reason ?? size(kind, node)), kind === "bundle" && previewLine(node.id));
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

  /** Activates the next option that can be chosen; after the last one follows the first. */
  function move(by) {
    for (let steps = 1; steps <= nodes.length; steps++) {
      const at = (active + by * steps + nodes.length * (steps + 1)) % nodes.length;
      if (!nodes[at].reason) return activate(at);
    }
    return undefined;
  }

  function pickActive() {
    if (nodes[active] && !nodes[active].reason) pick(nodes[active]);
  }
  return { element, show, move, pickActive };
}

/** How large a node is, in words. */
export function size(kind, node) {
  if (kind === "user") return node.size === 1 ? "1 choice" : `${formatNumber(node.size)} choices`;
  return kind === "bundle" ? count(node.size, "item") : `in ${count(node.size, "bundle")}`;
}

/** The name with the typed part marked. */
function highlight(name, text) {
  const at = name.toLowerCase().indexOf(text.toLowerCase());
  if (!text || at < 0) return [name];
  return [name.slice(0, at), h("mark", {}, name.slice(at, at + text.length)), name.slice(at + text.length)];
}
