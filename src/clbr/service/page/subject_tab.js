// A tab about one subject, a user or a bundle: search, empty state, and the parts that both such tabs have.

import { get, latest } from "/page/api.js";
import { busy, button, fill, h } from "/page/dom.js";
import { attempt, ServiceError, unknownNode } from "/page/errors.js";
import { describe, repeated, showPreviews } from "/page/names.js";
import { searchBox, size } from "/page/search.js";
import { change, isEdited, state, unedited } from "/page/state.js";
import { capitalize, plural, withArticle, word } from "/page/words.js";

const EXAMPLES = 8;

/**
 * Fills the panel with a search box and a view of the subject. `makeView(body, node, reload)` fills the body for a node
 * and gives its title, `show(subject, signal)`, which updates it, and `leave()`. `reload` tries again after an error.
 */
export function subjectTab(panel, { tab, kind, question, makeView }) {
  const choose = (node) => change(tab, unedited(tab, node.id));
  const search = searchBox({ kind, label: `Find ${withArticle(kind)}`, placeholder: "Name or id", choose });
  const body = h("div");
  const hint = h("p.hint.muted", { "aria-hidden": "true" }, "press ", h("kbd", {}, "/"));
  fill(panel, h("div.find", {}, search.element, hint), body);
  const nextSignal = latest();
  let view = null;

  function leaveView() {
    view?.leave(); // aborts its requests
    view = null;
  }

  async function show() {
    const { now } = state.subjects[tab];
    const signal = nextSignal();
    if (now.id === null) {
      leaveView();
      return showExamples(body, kind, question, signal);
    }
    const actions = [[`Choose another ${word(kind)}`, () => change(tab, unedited(tab))]];
    return attempt(body, async () => {
      if (view?.id !== now.id || !view.root.isConnected) { // an error may have replaced it
        leaveView();
        const node = await busy(body, () => find(kind, now.id, signal));
        const made = makeView(body, node, show);
        view = { ...made, id: now.id, root: body.firstElementChild };
        if (document.activeElement === document.body) body.querySelector("h2").focus(); // the focused element is gone
      }
      await view.show(now, signal);
    }, show, actions);
  }
  return { show, search: search.input, title: () => view?.title };
}

/** A node by id; a link may have an id that the service does not know. */
async function find(kind, id, signal) {
  try {
    return await get(`/${kind}`, { id }, signal);
  } catch (error) {
    if (error.kind !== "unknown" && error.kind !== "rejected") throw error;
    throw new ServiceError(`${unknownNode(kind, id)} Find ${withArticle(kind)} by name above.`, "unknown", error);
  }
}

/** Nothing is chosen yet: offers the nodes with the most edges. */
function showExamples(body, kind, question, signal) {
  const examples = h("ul.examples");
  const which = kind === "user" ? "most active" : "largest";
  fill(body, h("section.empty", {},
    h("h2", {}, question),
    h("p", {}, `Find ${withArticle(kind)} by name or id, or start with one of the ${which}:`),
    examples));
  return attempt(examples, async () => {
    const { found } = await get("/find", { kind, text: "", limit: EXAMPLES }, signal);
    const again = repeated(kind, found);
    fill(examples, found.map((node) => h("li", {}, describe(kind, node, again), h("span.muted", {}, size(kind, node)))));
    await showPreviews(examples, signal);
  }, () => showExamples(body, kind, question, signal));
}

/** The heading of a view. */
export function subjectHeading(name, node, words) {
  const detail = !node.name ? words : `${words} · id ${node.id}`; // a heading without a name shows the id itself
  return h("div.subject", {}, h("h2", { tabindex: "-1" }, name), h("p.muted", {}, detail));
}

/** The buttons below an error while there are edits. */
export function discardActions(tab, subject) {
  return isEdited(subject) ? [["Discard all changes", () => change(tab, unedited(tab, subject.id))]] : [];
}

/** Says that the model does not support what-if, and why. */
export function noWhatif(about) {
  return h("p.notice", {},
    `${capitalize(about.model)} does not support “what if?”: its recommendations do not use what `
    + `${withArticle("user")} chose or what is in ${withArticle("bundle")}, only what was learned in training, so a `
    + `change would move nothing. Export a model that uses them, for instance crosscbr or bgcn, to remove `
    + `${plural("item")} and to ask why ${withArticle("bundle")} is recommended.`);
}

/**
 * A bar at the bottom of a narrow screen, where the answer is above or below the edits: it shows a summary and scrolls
 * to `target`.
 */
export function summaryBar(target, { above = false } = {}) {
  const words = h("span");
  const scroll = () => target.scrollIntoView({ block: "start" });
  const element = button("button.summary-bar.primary", scroll, { hidden: true },
    words, h("span", {}, `See it ${above ? "↑" : "↓"}`));
  let [summary, visible] = [null, false];
  const update = () => {
    element.hidden = !summary;
    element.style.visibility = visible ? "hidden" : ""; // it stays in the layout, so that nothing moves under a finger
  };
  new IntersectionObserver(([entry]) => {
    visible = entry.isIntersecting || (entry.boundingClientRect.top < 0) !== above;
    update();
  }).observe(target);
  const show = (text) => {
    summary = text;
    words.textContent = text ?? "";
    update();
  };
  return { element, show };
}
