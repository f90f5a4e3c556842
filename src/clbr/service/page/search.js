// A search box: a combobox as screen readers know it, with arrows, Enter and Escape.

import { get, latest } from "/page/api.js";
import { announce, h, put } from "/page/dom.js";
import { remember } from "/page/nodes.js";
import { optionList } from "/page/options.js";
import { LONGEST } from "/page/state.js";
import { attempt } from "/page/trouble.js";
import { count, figure, many } from "/page/words.js";

const PAUSE = 150; // milliseconds without a keystroke before the service is asked
const SHOWN = 8;
let made = 0;

/**
 * A box that finds nodes of a kind and calls `choose(node)`. `taken(id)` says of a node that it cannot be chosen, in
 * words; `leave` is called on Escape when there is nothing left to close.
 */
export function searchBox(asked) {
  const { kind, choose, taken = () => null, leave = () => {} } = asked;
  const input = makeInput(asked.placeholder);
  const options = optionList(input, kind, pick);
  const message = h("div.found");
  const popup = h("div.popup", { hidden: true }, options.element, message);
  const label = h(asked.quietLabel ? "label.hidden" : "label", { for: input.id }, asked.label);
  const element = h("div.search", {}, label, input, popup);
  const fresh = latest();
  let answered = null; // the text whose answer is shown
  let timer;

  async function find() {
    const text = input.value.trim();
    const signal = fresh();
    clearTimeout(timer);
    const done = await attempt(message, async () => {
      const answer = await get("/api/find", { kind, text, limit: SHOWN }, signal);
      answer.found.forEach((node) => remember(kind, node));
      show(text, answer);
    }, () => { input.focus(); find(); });
    if (!done && !signal.aborted) open(null, [], true); // what went wrong is in the message
    return done;
  }

  function show(text, answer) {
    const words = beyond(kind, answer);
    put(message, h("p", {}, words));
    open(text, answer.found.map((node) => ({ ...node, taken: taken(node.id) })), words !== "");
    announce(answer.found.length === 0 ? `No ${many(kind)} found` : `${count(answer.total, kind)} found`);
  }

  function open(text, nodes, more) {
    answered = text;
    popup.hidden = false;
    message.hidden = !more;
    options.show(nodes, text ?? "");
  }

  function close() {
    fresh();
    clearTimeout(timer);
    popup.hidden = true;
    options.show([]);
    answered = null;
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
      const text = input.value.trim(); // who types fast need not wait for the answer
      if (answered === text || (text && await find())) options.pickActive();
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
    id: `search-${++made}`, type: "text", role: "combobox", placeholder, maxlength: LONGEST,
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

/** What is not among the options, in words: more of them, or none at all. */
function beyond(kind, { found, total, text }) {
  if (found.length === 0) return `No ${many(kind)} with “${text}”. Try the beginning of a word, or an id.`;
  return total > found.length ? `and ${figure(total - found.length)} more: type to narrow them down` : "";
}
