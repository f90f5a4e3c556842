// What the page shows, as values: which tab, whom, which edits. Undo, redo and the link in the address bar live here.

export const EDITS = {
  readers: ["add_bundles", "drop_bundles", "add_items", "drop_items"],
  studio: ["add_items", "drop_items"],
};
const SUBJECT = { readers: "user", studio: "bundle" };
const TABS = ["readers", "studio", "model"];
const STEPS = 200; // that can be undone
export const LONGEST = 200; // letters of an id, or of a search, that the service reads

const listeners = [];
export const state = {
  tab: "readers",
  top: 20,
  longest: 100, // places of a list
  most: 200, // edits of a sort that the service takes at once
  leftOut: 0, // edits of a link beyond that
  desks: { readers: desk("readers"), studio: desk("studio") },
};

function desk(tab) {
  return { now: blank(tab), past: [], future: [] };
}

/** Someone or something without edits. */
export function blank(tab, id = null) {
  return { id, ...Object.fromEntries(EDITS[tab].map((name) => [name, []])) };
}

export function listen(listener) {
  listeners.push(listener);
}

/** Edits as they are sent. */
export function editsOf(now) {
  const { id, ...edits } = now;
  return edits;
}

export function edited(now) {
  return Object.values(editsOf(now)).some((ids) => ids.length > 0);
}

/** How a thing stands: "struck", "added" or "as is". */
export function standing(now, kind, id) {
  if (now[`drop_${kind}s`].includes(id)) return "struck";
  return now[`add_${kind}s`].includes(id) ? "added" : "as is";
}

/** With a thing of the data struck out; an added one is taken away again. */
export function without(now, kind, id) {
  const [add, drop] = [`add_${kind}s`, `drop_${kind}s`];
  if (now[add].includes(id)) return { ...now, [add]: now[add].filter((other) => other !== id) };
  return now[drop].includes(id) ? now : { ...now, [drop]: [...now[drop], id] };
}

/** With a thing added; one that was struck out is put back. */
export function withAdded(now, kind, id) {
  const [add, drop] = [`add_${kind}s`, `drop_${kind}s`];
  if (now[drop].includes(id)) return { ...now, [drop]: now[drop].filter((other) => other !== id) };
  return now[add].includes(id) ? now : { ...now, [add]: [...now[add], id] };
}

/** Goes to a new value, which can be undone. */
export function change(tab, now) {
  const here = state.desks[tab];
  if (same(now, here.now)) return;
  const elsewhere = now.id !== here.now.id;
  take(here, now);
  settle(elsewhere);
}

function take(here, now) {
  if (here.now.id !== null) here.past = [...here.past, here.now].slice(-STEPS); // nobody goes back to an empty desk
  Object.assign(here, { now, future: [] });
}

/** A step back, or forward again. False if there is none. */
export function undo(tab) {
  return step(tab, "past", "future");
}

export function redo(tab) {
  return step(tab, "future", "past");
}

function step(tab, from, to) {
  const here = state.desks[tab];
  if (!here?.[from].length) return false;
  const now = here[from].at(-1);
  const elsewhere = now.id !== here.now.id;
  Object.assign(here, { [from]: here[from].slice(0, -1), [to]: [...here[to], here.now], now });
  settle(elsewhere);
  return true;
}

export function openTab(tab) {
  if (tab === state.tab) return;
  state.tab = tab;
  settle(true);
}

/** Shows someone or something, with edits, on its tab. */
export function open(tab, now) {
  const elsewhere = tab !== state.tab;
  state.tab = tab;
  if (same(now, state.desks[tab].now)) settle(elsewhere);
  else change(tab, now);
}

export function setTop(top) {
  state.top = top;
  settle(false);
}

/** The address bar says what is shown; going elsewhere is a step for the browser's Back, an edit is not. */
function settle(elsewhere) {
  state.leftOut = 0; // told, and gone on from
  const hash = linkTo(state.tab, state.desks[state.tab]?.now, state.top);
  if (hash !== location.hash) history[elsewhere ? "pushState" : "replaceState"](null, "", hash);
  listeners.forEach((listener) => listener());
}

/** A link that shows this; without a length it keeps the one that is shown. */
export function linkTo(tab, now, top = null) {
  const params = new URLSearchParams({ tab });
  if (now?.id != null) {
    params.set(SUBJECT[tab], now.id);
    EDITS[tab].forEach((name) => now[name].forEach((id) => params.append(name, id)));
  }
  if (tab !== "model" && top !== null) params.set("top", top);
  return `#${params}`;
}

/** Takes over what a link says; what it does not speak of stays. */
export function readLink(hash = location.hash) {
  const params = new URLSearchParams(hash.slice(1));
  state.tab = TABS.includes(params.get("tab")) ? params.get("tab") : "readers";
  const top = Number(params.get("top")) || state.top;
  state.top = Math.min(Math.max(1, Math.round(top)), state.longest);
  const here = state.desks[state.tab];
  if (here) {
    const { now, leftOut } = told(params, state.tab);
    state.leftOut = leftOut;
    if (leftOut) history.replaceState(null, "", linkTo(state.tab, now, state.top)); // the address says what is shown
    if (!same(now, here.now)) take(here, now);
  }
  listeners.forEach((listener) => listener());
}

/** Whom a link is about, with as many of its edits as can be asked at once, and how many more it has. */
function told(params, tab) {
  const now = blank(tab, params.get(SUBJECT[tab]) || null);
  let leftOut = 0;
  for (const name of now.id === null ? [] : EDITS[tab]) {
    const ids = [...new Set(params.getAll(name))].filter(Boolean);
    now[name] = ids.filter((id) => [...id].length <= LONGEST).slice(0, state.most);
    leftOut += ids.length - now[name].length;
  }
  return { now, leftOut };
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
