// The state of the page: the open tab, the subject of each tab with its edits, undo, redo, and the link.

const EDITS = {
  users: ["add_bundles", "drop_bundles", "add_items", "drop_items"],
  bundles: ["add_items", "drop_items"],
  drafts: ["a", "b"], // the items of two new bundles
};
const KIND = { users: "user", bundles: "bundle" };
const TABS = ["users", "bundles", "drafts", "model"];
const DRAFTS = "drafts"; // the id of the only subject of its tab, which no link needs
const UNDO_STEPS = 200;
export const MAX_TEXT = 200; // characters of an id or a search text that the service accepts

const listeners = [];
/** `subjects` has, by tab, the subject that is shown now, those before it and those undone. */
export const state = {
  tab: "users",
  k: 20, // length of a list
  maxK: 100,
  maxEdits: 200, // of each sort in one request
  omitted: 0, // edits of the link beyond that
  subjects: { users: emptyTimeline("users"), bundles: emptyTimeline("bundles"), drafts: emptyTimeline("drafts") },
};

function emptyTimeline(tab) {
  return { now: unedited(tab), past: [], future: [] };
}

/** A subject: a user or a bundle by id, or the drafts, without edits. Without an id nothing is chosen. */
export function unedited(tab, id = tab === DRAFTS ? DRAFTS : null) {
  return { id, ...Object.fromEntries(EDITS[tab].map((name) => [name, []])) };
}

/** Registers a function that is called after each change. */
export function onChange(listener) {
  listeners.push(listener);
}

/** The edits of a subject, as a request has them. */
export function editsOf(subject) {
  const { id, ...edits } = subject;
  return edits;
}

export function isEdited(subject) {
  return Object.values(editsOf(subject)).some((ids) => ids.length > 0);
}

/** How the edits treat a node: "removed", "added" or "unchanged". */
export function editStatus(subject, kind, id) {
  if (subject[`drop_${kind}s`].includes(id)) return "removed";
  return subject[`add_${kind}s`].includes(id) ? "added" : "unchanged";
}

/** The subject without a node; if edits added the node, they no longer do. */
export function withRemoved(subject, kind, id) {
  const [add, drop] = [`add_${kind}s`, `drop_${kind}s`];
  if (subject[add].includes(id)) return { ...subject, [add]: subject[add].filter((other) => other !== id) };
  return subject[drop].includes(id) ? subject : { ...subject, [drop]: [...subject[drop], id] };
}

/** The subject with a node; if edits removed the node, they no longer do. */
export function withAdded(subject, kind, id) {
  const [add, drop] = [`add_${kind}s`, `drop_${kind}s`];
  if (subject[drop].includes(id)) return { ...subject, [drop]: subject[drop].filter((other) => other !== id) };
  return subject[add].includes(id) ? subject : { ...subject, [add]: [...subject[add], id] };
}

/** Shows a subject on a tab; this can be undone. */
export function change(tab, subject) {
  const timeline = state.subjects[tab];
  if (equal(subject, timeline.now)) return;
  const navigates = subject.id !== timeline.now.id;
  append(timeline, subject);
  publish(navigates);
}

function append(timeline, subject) {
  const { now, past } = timeline;
  if (now.id !== null) timeline.past = [...past, now].slice(-UNDO_STEPS); // there is no step back to an empty tab
  Object.assign(timeline, { now: subject, future: [] });
}

/** One step back; false if there is none. */
export function undo(tab) {
  return step(tab, "past", "future");
}

/** One step forward again; false if there is none. */
export function redo(tab) {
  return step(tab, "future", "past");
}

function step(tab, from, to) {
  const timeline = state.subjects[tab];
  if (!timeline?.[from].length) return false;
  const now = timeline[from].at(-1);
  const navigates = now.id !== timeline.now.id;
  Object.assign(timeline, { [from]: timeline[from].slice(0, -1), [to]: [...timeline[to], timeline.now], now });
  publish(navigates);
  return true;
}

export function openTab(tab) {
  if (tab === state.tab) return;
  state.tab = tab;
  publish(true);
}

/** Opens a tab and shows a subject on it. */
export function open(tab, subject) {
  const navigates = tab !== state.tab;
  state.tab = tab;
  if (equal(subject, state.subjects[tab].now)) publish(navigates);
  else change(tab, subject);
}

/** Sets the length of the lists. */
export function setK(k) {
  state.k = k;
  publish(false);
}

/** Updates the address bar and the page. Another subject or tab is a step for the browser's Back; an edit is not. */
function publish(navigates) {
  state.omitted = 0;
  const hash = linkTo(state.tab, state.subjects[state.tab]?.now, state.k);
  if (hash !== location.hash) history[navigates ? "pushState" : "replaceState"](null, "", hash);
  listeners.forEach((listener) => listener());
}

/** A link to a subject; without k the length of the list stays as it is. */
export function linkTo(tab, subject, k = null) {
  const params = new URLSearchParams({ tab });
  if (subject?.id != null) {
    if (KIND[tab]) params.set(KIND[tab], subject.id);
    EDITS[tab].forEach((name) => subject[name].forEach((id) => params.append(name, id)));
  }
  if (tab !== "model" && k !== null) params.set("k", k);
  return `#${params}`;
}

/** Sets the state from a link; what the link does not contain stays. */
export function readLink(hash = location.hash) {
  const params = new URLSearchParams(hash.slice(1));
  state.tab = TABS.includes(params.get("tab")) ? params.get("tab") : "users";
  const k = Number(params.get("k")) || state.k;
  state.k = Math.min(Math.max(1, Math.round(k)), state.maxK);
  const timeline = state.subjects[state.tab];
  if (timeline) {
    const { subject, omitted } = parseSubject(params, state.tab);
    state.omitted = omitted;
    if (omitted) history.replaceState(null, "", linkTo(state.tab, subject, state.k)); // the address matches the page
    if (!equal(subject, timeline.now)) append(timeline, subject);
  }
  listeners.forEach((listener) => listener());
}

/** The subject of a link with as many edits as one request may have, and the number of edits left out. */
function parseSubject(params, tab) {
  const subject = KIND[tab] ? unedited(tab, params.get(KIND[tab]) || null) : unedited(tab);
  let omitted = 0;
  for (const name of subject.id === null ? [] : EDITS[tab]) {
    const ids = [...new Set(params.getAll(name))].filter(Boolean);
    subject[name] = ids.filter((id) => [...id].length <= MAX_TEXT).slice(0, state.maxEdits);
    omitted += ids.length - subject[name].length;
  }
  return { subject, omitted };
}

function equal(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
