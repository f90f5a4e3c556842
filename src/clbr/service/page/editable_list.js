// A list of nodes that can be removed, added and swapped: a user's history, a bundle's contents.

import { announce, busy, button, fill, h, icon, iconButton, updateList } from "/page/dom.js";
import { lookUp } from "/page/lookup.js";
import { describe, fullLabel, repeated, showPreviews, updateId } from "/page/names.js";
import { searchBox } from "/page/search.js";
import { change, editStatus, state, withAdded, withRemoved } from "/page/state.js";
import { formatNumber, label, withArticle } from "/page/words.js";

const SHOWN = 8; // until "Show all" is used
const FEW = 3; // so few more are shown without it

/**
 * A list of one kind, edited on a tab: {tab, kind, title, none, editable, swappable}. `none` is shown if it is empty,
 * `editable` is false for a model without what-if, `swappable` adds a button to swap a node.
 */
export function editableList(config) {
  const { kind, title, none, editable } = config;
  let [nodes, others, all] = [[], [], false]; // nodes of the data; nodes that are in the edits only
  const editor = makeEditor(config, (id) => nodes.some((node) => node.id === id));
  const [heading, list, empty] = [h("h3"), h("ul.nodes"), h("p.muted", {}, none)];
  const more = button("button.muted.more", showAll);
  const adder = editable && searchBox({
    kind, label: `Add ${withArticle(kind)}`, placeholder: `Add ${withArticle(kind)}`, hiddenLabel: true,
    unavailable: editor.unavailable, choose: editor.add,
  });
  const element = h("section.group", {}, heading, adder && adder.element, list, empty, more);

  /** Shows the nodes of the data; other nodes of the edits are looked up. */
  async function show(given, signal) {
    if (given !== nodes) all = given.length <= SHOWN + FEW;
    nodes = given;
    const found = await busy(list, () => lookUp(kind, editor.otherIds(), signal));
    signal.throwIfAborted(); // the edits may have changed meanwhile
    others = found;
    draw();
    await showPreviews(list, signal);
  }

  function showAll() {
    all = true;
    draw();
    showPreviews(list);
    list.children[others.length + SHOWN].querySelector("button, a")?.focus(); // the button is hidden now
  }

  function draw() {
    const shown = nodes.filter((node, at) => all || at < SHOWN || editor.status(node) !== "unchanged");
    const hadFocus = list.contains(document.activeElement);
    const again = repeated(kind, [...others, ...nodes]);
    updateList(list, [...others, ...shown], (node) => node.id, (node) => makeRow(kind, node, again),
      (row, node) => updateRow(row, node, editor, config, again));
    if (hadFocus && !list.contains(document.activeElement)) adder.input.focus(); // its row was removed
    fill(heading, title, " ", h("span.muted", {}, formatNumber(nodes.length)));
    empty.hidden = nodes.length + others.length > 0;
    more.hidden = shown.length === nodes.length;
    more.textContent = `Show all ${formatNumber(nodes.length)}`;
  }
  return { element, show };
}

/** Edits of the nodes of a kind. `inData(id)` says whether the data has a node. */
function makeEditor({ tab, kind }, inData) {
  const now = () => state.subjects[tab].now;
  const apply = (next, words) => {
    announce(words);
    change(tab, next);
  };

  /** "removed", "added", "unchanged", or "missing": removed, but not in the data, as in an old link. */
  function status({ id }) {
    const found = editStatus(now(), kind, id);
    return found === "removed" && !inData(id) ? "missing" : found;
  }

  /** Why a node cannot be added, or null. */
  function unavailable(id) {
    if (now()[`add_${kind}s`].length >= state.maxEdits) return "no more can be added";
    const found = editStatus(now(), kind, id);
    return found === "added" || (found === "unchanged" && inData(id)) ? "already there" : null;
  }

  /** Removes a node, or undoes its edit. */
  function toggle(node) {
    const found = status(node);
    const restores = found === "removed" || found === "missing";
    const next = restores ? withAdded(now(), kind, node.id) : withRemoved(now(), kind, node.id);
    const done = { removed: "put back", missing: "discarded", added: "no longer added" }[found] ?? "removed";
    apply(next, `${label(kind, node)} ${done}`);
  }

  return {
    kind, status, unavailable, toggle,
    add: (node) => apply(withAdded(now(), kind, node.id), `${label(kind, node)} added`),
    swap: (old, other) => apply(withAdded(withRemoved(now(), kind, old.id), kind, other.id),
      `${label(kind, old)} swapped for ${label(kind, other)}`),
    otherIds: () => [...new Set([...now()[`add_${kind}s`], ...now()[`drop_${kind}s`]])].filter((id) => !inData(id)),
  };
}

function makeRow(kind, node, again) {
  return h("li", {}, h("div.node", {}, describe(kind, node, again), h("span.status"), h("span.buttons")));
}

function updateRow(row, node, editor, { editable, swappable }, again) {
  const status = editor.status(node);
  updateId(row, node, again);
  row.className = status === "missing" ? "removed" : status;
  row.querySelector(".status").textContent = statusText(status, node);
  if (!editable) return;
  const name = fullLabel(editor.kind, node, again);
  const buttons = row.querySelector(".buttons");
  if (!buttons.children.length) {
    fill(buttons,
      swappable && !node.unknown && iconButton("swap", `Swap ${name} for another`, () => openSwap(row, node, editor)),
      iconButton("remove", "", () => editor.toggle(node)));
  }
  const toggle = buttons.lastElementChild;
  const words = {
    removed: `Put ${name} back`, missing: `Discard ${name}`, added: `Remove added ${name}`,
  }[status] ?? `Remove ${name}`;
  if (toggle.title === words) return;
  Object.assign(toggle, { title: words, ariaLabel: words });
  fill(toggle, icon(status === "removed" ? "restore" : "remove"));
  if (buttons.children.length > 1) buttons.firstElementChild.hidden = status === "removed" || status === "missing";
}

function statusText(status, node) {
  if (node.unknown) return "not known here";
  return { removed: "removed", missing: "was not there", added: "added" }[status] ?? "";
}

function openSwap(row, node, editor) {
  row.querySelector(".search")?.remove();
  const close = () => { box.element.remove(); row.querySelector(".buttons button")?.focus(); };
  const box = searchBox({
    kind: editor.kind, label: `Swap ${label(editor.kind, node)} for`, unavailable: editor.unavailable, leave: close,
    choose: (other) => { close(); editor.swap(node, other); },
  });
  row.append(box.element);
  box.input.focus();
}
