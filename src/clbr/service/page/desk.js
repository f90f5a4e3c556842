// What both desks have: a beginning, a head, a word on how far to trust it, and why some models cannot be asked.

import { get, latest } from "/page/api.js";
import { button, h, put } from "/page/dom.js";
import { noSuch, Trouble } from "/page/refusal.js";
import { searchBox } from "/page/search.js";
import { blank, change, edited, state } from "/page/state.js";
import { attempt, busy } from "/page/trouble.js";
import { called, capital, many, one, word } from "/page/words.js";

const OFFERED = 8;

/**
 * A tab with a search box and whoever was found. `make(body, node, again)` fills the body for a node and gives its
 * title, `show(now, signal)`, which brings it up to date, and `leave()`; `again` starts over after trouble.
 */
export function deskTab(panel, { tab, kind, question, make }) {
  const choose = (node) => change(tab, blank(tab, node.id));
  const search = searchBox({ kind, label: `Find ${one(kind)}`, placeholder: "Name or id", choose });
  const body = h("div");
  const hint = h("p.hint.quiet", { "aria-hidden": "true" }, "press ", h("kbd", {}, "/"));
  put(panel, h("div.find", {}, search.element, hint), body);
  const fresh = latest();
  let shown = null;

  function leaveDesk() {
    shown?.leave(); // nobody waits for its answers any more
    shown = null;
  }

  async function show() {
    const { now } = state.desks[tab];
    const signal = fresh();
    if (now.id === null) {
      leaveDesk();
      return emptyDesk(body, kind, question, choose, signal);
    }
    const leave = [[`Choose another ${word(kind)}`, () => change(tab, blank(tab))]];
    return attempt(body, async () => {
      if (shown?.id !== now.id || !shown.root.isConnected) { // trouble may have taken its place
        leaveDesk();
        const node = await busy(body, () => find(kind, now.id, signal));
        const made = make(body, node, show);
        shown = { ...made, id: now.id, root: body.firstElementChild };
        if (document.activeElement === document.body) body.querySelector("h2").focus(); // what had focus is gone
      }
      await shown.show(now, signal);
    }, show, leave);
  }
  return { show, search: search.input, title: () => shown?.title };
}

/** Someone or something by id; a link may speak of one that is not here. */
async function find(kind, id, signal) {
  try {
    return await get(`/api/${kind}`, { id }, signal);
  } catch (error) {
    if (error.kind !== "unknown" && error.kind !== "refused") throw error;
    throw new Trouble(`${noSuch(kind, id)} Find ${one(kind)} by name above.`, "unknown", error);
  }
}

/** Nothing chosen yet: the busiest ones to begin with. */
function emptyDesk(body, kind, question, choose, signal) {
  const offers = h("ul.offers");
  put(body, h("section.empty", {},
    h("h2", {}, question),
    h("p", {}, `Find ${one(kind)} by name or id, or begin with one of the ${kind === "user" ? "busiest" : "largest"}:`),
    offers));
  return attempt(offers, async () => {
    const { found } = await get("/api/find", { kind, text: "", limit: OFFERED }, signal);
    put(offers, found.map((node) => h("li", {}, button("button", () => choose(node), {}, called(kind, node)))));
  }, () => emptyDesk(body, kind, question, choose, signal));
}

/** Who or what this is. */
export function subjectHead(name, node, words) {
  const told = !node.name ? words : `${words} · id ${node.id}`; // without a name the heading has the id
  return h("div.subject", {}, h("h2", { tabindex: "-1" }, name), h("p.quiet", {}, told));
}

/** What else can be done when edits are refused. */
export function waysBack(tab, now) {
  return edited(now) ? [["Take all changes back", () => change(tab, blank(tab, now.id))]] : [];
}

/** How far an answer holds, for those who ask. */
export function trustNote() {
  const text = h("p");
  const element = h("details.note", { hidden: true }, h("summary", {}, "How far to trust this"), text);
  const show = (note) => {
    element.hidden = !note;
    text.textContent = note ?? "";
  };
  return { element, show };
}

/** Why there is nothing to strike out. */
export function cannotAsk(about) {
  return h("p.notice", {},
    `${capital(about.model)} cannot be asked “what if?”: when it recommends, it does not look at what ${one("user")} `
    + `chose or what is in ${one("bundle")}, only at what it learned of them in training, so a change would move `
    + `nothing. Export a model that looks, for instance crosscbr or bgcn, to strike out ${many("item")} and to ask `
    + `why ${one("bundle")} is where it is.`);
}

/**
 * Where the screen is narrow the answer stands below what is edited: a bar at the bottom says it in brief and leads
 * there.
 */
export function briefBar(target) {
  const words = h("span");
  const lead = () => target.scrollIntoView({ block: "start" });
  const element = button("button.brief.primary", lead, { hidden: true }, words, h("span", {}, "See it ↓"));
  let [said, seen] = [null, false];
  const update = () => {
    element.hidden = !said;
    element.style.visibility = seen ? "hidden" : ""; // it keeps its place: nothing moves under a finger
  };
  new IntersectionObserver(([entry]) => {
    seen = entry.isIntersecting || entry.boundingClientRect.top < 0;
    update();
  }).observe(target);
  const show = (text) => {
    said = text;
    words.textContent = text ?? "";
    update();
  };
  return { element, show };
}
