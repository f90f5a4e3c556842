// Nodes as lists show them: a link where there is something to open, the id if a name repeats, and what is in a bundle.

import { post } from "/page/api.js";
import { h } from "/page/dom.js";
import { linkTo, unedited } from "/page/state.js";
import { formatNumber, label } from "/page/words.js";

const TAB = { user: "users", bundle: "bundles" }; // where a node is opened; an item has no page of its own
const previews = new Map(); // by bundle

/** The ids of nodes whose label another node of the list has, too. */
export function repeated(kind, nodes) {
  const ids = new Map();
  for (const node of nodes) ids.set(label(kind, node), [...ids.get(label(kind, node)) ?? [], node.id]);
  return new Set([...ids.values()].filter((same) => same.length > 1).flat());
}

/** A node's label in a list; with its id if the label repeats there. */
export function fullLabel(kind, node, again) {
  return again.has(node.id) && node.name ? `${label(kind, node)} (${node.id})` : label(kind, node);
}

/** A node's name, as a link if it can be opened. */
export function nameOf(kind, node) {
  const opens = TAB[kind] && !node.unknown;
  const properties = opens ? { href: linkTo(TAB[kind], unedited(TAB[kind], node.id)) } : {};
  return h(opens ? "a.name" : "span.name", properties, label(kind, node));
}

/** The name, the id if the name repeats, and below them a line for what is in it if it is a bundle. */
export function describe(kind, node, again) {
  return h("div.what", {}, nameOf(kind, node), idNote(again.has(node.id) && node.name ? node.id : null),
    kind === "bundle" && !node.unknown && previewLine(node.id));
}

/** Updates the id beside a name that is shown already: the list may have changed around it. */
export function updateId(row, node, again) {
  row.querySelector(".id").textContent = again.has(node.id) && node.name ? ` ${node.id}` : "";
}

function idNote(id) {
  return h("span.id.muted", {}, id === null ? "" : ` ${id}`);
}

/** A line for what is in a bundle, filled by `showPreviews`. */
export function previewLine(id) {
  return h("p.preview.waiting", { "data-bundle": id }, "\u00a0");
}

/** Fills all such lines of an element with one request. Without an answer they stay empty: the names are there. */
export async function showPreviews(element, signal) {
  const lines = [...element.querySelectorAll(".preview.waiting")];
  const wanted = [...new Set(lines.map((line) => line.dataset.bundle))].filter((id) => !previews.has(id));
  try {
    const found = wanted.length ? (await post("/previews", { bundles: wanted }, signal)).bundles : [];
    found.forEach((bundle) => previews.set(bundle.id, bundle));
  } catch (error) {
    if (error.kind === undefined && error.name !== "AbortError") throw error;
  }
  for (const line of lines) {
    if (previews.has(line.dataset.bundle)) line.textContent = contents(previews.get(line.dataset.bundle));
    if (!signal?.aborted) line.classList.remove("waiting");
  }
}

function contents({ items, size }) {
  if (size === 0) return "empty";
  const names = items.map((item) => label("item", item)).join(", ");
  return size > items.length ? `${names} and ${formatNumber(size - items.length)} more` : names;
}
