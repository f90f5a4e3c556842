// The third tab: two drafts of a new bundle, the audience of each as it grows, and both compared.

import { latest, post } from "/page/api.js";
import { LISTED, userList } from "/page/audience.js";
import { certainty } from "/page/certainty.js";
import { download } from "/page/csv.js";
import { announce, busy, button, fill, h, iconButton, updateList } from "/page/dom.js";
import { attempt } from "/page/errors.js";
import { lookUp } from "/page/lookup.js";
import { describe, fullLabel, repeated, updateId } from "/page/names.js";
import { searchBox } from "/page/search.js";
import { change, state } from "/page/state.js";
import { discardActions, noWhatif } from "/page/subject_tab.js";
import { toolbar } from "/page/toolbar.js";
import { count, formatNumber, label, plural, withArticle, word } from "/page/words.js";

const DRAFTS = ["a", "b"];

const now = () => state.subjects.drafts.now;
const nameOfDraft = (key) => `Draft ${key.toUpperCase()}`;

function setItems(key, items, words) {
  announce(words);
  change("drafts", { ...now(), [key]: items });
}

/** Fills the panel when it is first shown; `show()` updates it. */
export function draftsTab(panel, about) {
  const title = `New ${word("bundle")}`;
  const nextSignal = latest();
  let view = null;

  async function show() {
    const signal = nextSignal();
    view ??= makeView(panel, title, about);
    await view.show(signal, show);
  }
  return { show, title: () => title, get search() { return view?.search; } };
}

function makeView(panel, title, about) {
  const heading = h("div.subject", {}, h("h2", { tabindex: "-1" }, title),
    h("p.muted", {}, `Choose ${plural("item")} and see which ${plural("user")} would have it among their first.`));
  if (!about.supports_whatif) {
    fill(panel, heading, noWhatif(about));
    return { show() {} };
  }
  const bar = toolbar("drafts");
  const comparison = h("section.card.comparison", { "aria-label": "Comparison" }, h("p"), certainty("bundle"));
  const drafts = DRAFTS.map((key) => draft(key, about.limits.max_users));
  fill(panel, heading, bar.element, comparison, h("div.columns.equal", {}, drafts.map((one) => one.element)));

  async function show(signal, retry) {
    bar.show();
    await Promise.all(drafts.map((one) => one.show(signal, retry)));
    if (signal.aborted) return;
    const answers = drafts.map((one) => one.answer());
    comparison.firstChild.textContent = compare(...answers);
    if (!answers.every(Boolean)) return;
    const whole = await Promise.all(drafts.map((one) => one.complete(signal).catch(() => one.answer())));
    if (!signal.aborted) comparison.firstChild.textContent = compare(...whole);
  }
  return { show, search: drafts[0].input };
}

/** A draft: its items, its audience, and what can be done with it. */
function draft(key, maxUsers) {
  const other = DRAFTS.find((one) => one !== key);
  const adder = searchBox({
    kind: "item", label: `Add ${withArticle("item")} to draft ${key.toUpperCase()}`, hiddenLabel: true,
    placeholder: `Add ${withArticle("item")}`, unavailable,
    choose: (item) => setItems(key, [...now()[key], item.id], `${label("item", item)} added`),
  });
  const [list, error, large, detail, users] = [h("ul.nodes"), h("div"), h("p.large"), h("p.detail"), userList()];
  const save = button("button", function saveOrFail() { return attempt(error, saveAll, saveOrFail); });
  const copy = button("button", () => setItems(other, now()[key], `Copied to ${nameOfDraft(other)}`), {},
    `Copy to draft ${other.toUpperCase()}`);
  const actions = h("div.row", {}, save, copy);
  const audience = h("div.draft-audience", {}, large, detail, users.element, actions);
  const element = h("section.card.draft", { "aria-label": nameOfDraft(key) },
    h("h3", {}, nameOfDraft(key)), adder.element, list, error, audience);
  let [answer, answeredFor] = [null, null]; // the items and the length of the list that the answer is about

  /** The answer with the whole audience; until this is called it has only the users that are shown. */
  async function complete(signal) {
    if (!answer || answer.members.length >= Math.min(answer.audience, maxUsers)) return answer;
    const [request, asked] = [{ items: now()[key], k: answer.k, max_users: maxUsers }, answeredFor];
    const whole = await busy(actions, () => post("/audience/new", request, signal));
    if (asked === answeredFor) answer = whole;
    return whole;
  }

  async function saveAll() {
    const { members } = await complete();
    download(`audience-draft-${key}.csv`, ["id", "name", "rank"], members.map(({ id, name, rank }) => [id, name, rank]));
    announce(`${count(members.length, "user")} saved`);
    fill(error);
  }

  function unavailable(id) {
    if (now()[key].includes(id)) return "already there";
    return now()[key].length >= state.maxEdits ? "no more can be added" : null;
  }

  async function show(signal, retry) {
    const ids = now()[key];
    const done = await attempt(error, async () => {
      const items = await busy(list, () => lookUp("item", ids, signal));
      signal.throwIfAborted();
      drawItems(list, items, key, adder.input);
      const wanted = JSON.stringify([ids, state.k]);
      if (wanted !== answeredFor || !ids.length) {
        const request = { items: ids, k: state.k, max_users: Math.min(LISTED, maxUsers) };
        const found = ids.length ? await busy(audience, () => post("/audience/new", request, signal)) : null;
        showAudience(found);
        [answer, answeredFor] = [found, wanted];
      }
      fill(error);
    }, retry, discardActions("drafts", now()));
    if (!done && !signal.aborted) [answer, answeredFor] = [null, null]; // what is shown is about other items
    if (!signal.aborted) audience.hidden = !done;
  }

  function showAudience(found) {
    users.element.hidden = actions.hidden = found === null;
    fill(large);
    if (found === null) {
      detail.textContent = `Add ${withArticle("item")}: its audience is shown here.`;
      return;
    }
    const before = answer && answer.audience !== found.audience && [h("s", {}, formatNumber(answer.audience)), " → "];
    fill(large, h("strong", {}, before, formatNumber(found.audience)), ` of ${count(found.users, "user")}`);
    detail.textContent = `would have it among their first ${found.k}.`;
    users.show(found.members, found.audience, found.audience ? "Best ranks first" : "");
    save.hidden = Math.min(found.audience, maxUsers) === 0;
    save.textContent = found.audience <= maxUsers
      ? "Download the audience (CSV)" : `Download the first ${formatNumber(maxUsers)} (CSV)`;
    announce(`${nameOfDraft(key)}: ${count(found.audience, "user")}`);
  }
  return { element, input: adder.input, show, complete, answer: () => answer };
}

function drawItems(list, items, key, input) {
  const hadFocus = list.contains(document.activeElement);
  const again = repeated("item", items);
  const removeButton = (item) => {
    const without = () => now()[key].filter((id) => id !== item.id);
    const words = fullLabel("item", item, again);
    return iconButton("remove", `Remove ${words}`, () => setItems(key, without(), `${words} removed`));
  };
  const make = (item) => h("li", {}, h("div.node", {}, describe("item", item, again),
    h("span.status", {}, item.unknown ? "not known here" : ""), h("span.buttons", {}, removeButton(item))));
  updateList(list, items, (item) => item.id, make, (row, item) => updateId(row, item, again));
  if (hadFocus && !list.contains(document.activeElement)) input.focus(); // its row was removed
}

/** Both drafts in sentences; an answer is null without items. */
function compare(a, b) {
  if (!a || !b) return "Put something in both drafts to compare them.";
  const by = b.audience - a.audience;
  const inA = new Set(a.members.map((user) => user.id));
  const both = b.members.filter((user) => inA.has(user.id)).length;
  const [more, fewer] = by > 0 ? ["B", "A"] : ["A", "B"];
  const most = by === 0 ? `Both drafts reach ${count(a.audience, "user")}`
    : `Draft ${more} reaches ${formatNumber(Math.abs(by))} more ${word("user", Math.abs(by))} than draft ${fewer}`;
  if (a.members.length < a.audience || b.members.length < b.audience) return `${most}.`;
  const only = [["A", a.audience - both], ["B", b.audience - both]];
  const parts = only.map(([name, number]) => `${formatNumber(number)} only draft ${name}`);
  return `${most}: ${formatNumber(both)} would have both among their first ${a.k}, ${parts.join(", ")}.`;
}
