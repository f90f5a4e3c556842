// The first tab: a reader, her history, her list, and what it would be had her history been different.

import { get, post } from "/page/api.js";
import { openAnswers } from "/page/answers.js";
import { announce, h, put } from "/page/dom.js";
import { briefBar, cannotAsk, deskTab, subjectHead, trustNote, waysBack } from "/page/desk.js";
import { ranking, summary } from "/page/ranking.js";
import { searchBox } from "/page/search.js";
import { edited, editsOf, state } from "/page/state.js";
import { thingGroup } from "/page/things.js";
import { toolbar } from "/page/toolbar.js";
import { attempt, busy } from "/page/trouble.js";
import { called, capital, inWords, many, one, segment, word } from "/page/words.js";

const INVITE = "Strike out or add something in her history, and watch what moves.";

/** Fills the panel; `show()` brings it up to date with the state. */
export function readersTab(panel, about) {
  const question = `Whose ${many("bundle")} shall we look at?`;
  const make = (body, reader, again) => readerDesk(body, reader, about, again);
  return deskTab(panel, { tab: "readers", kind: "user", question, make });
}

function readerDesk(body, reader, about, again) {
  const name = called("user", reader);
  const bar = toolbar("readers");
  const group = (kind, nodes) => ({ nodes, ...thingGroup({
    tab: "readers", kind, title: `${capital(many(kind))} she chose`, none: `She has chosen no ${word(kind)} yet.`,
    strike: "Strike out", struck: "struck out", editable: about.supports_whatif,
  }) });
  const groups = [group("bundle", reader.bundles), group("item", reader.items)];
  const heading = h("h3");
  const told = h("p.told");
  const warnings = h("div");
  const trouble = h("div");
  const [note, brief] = [trustNote(), briefBar(heading)];
  const list = ranking(about.supports_whatif ? explain : null);
  const answers = openAnswers(reader, about.limits.budget);
  const answer = h("div");
  const wanted = about.supports_whatif && searchBox({
    kind: "bundle", label: `Another ${word("bundle")}: what would it take?`, placeholder: `Find ${one("bundle")}`,
    taken: (id) => (reader.bundles.some((bundle) => bundle.id === id) ? "she has it" : null),
    choose: (bundle) => answers.ask(answer, bundle, wanted.input),
    leave: () => answers.close(answer),
  });
  put(body, subjectHead(name, reader, capital(segment(reader.segment))), bar.element,
    !about.supports_whatif && cannotAsk(about),
    h("div.columns", {},
      h("section.card", { "aria-label": "History" }, groups.map((part) => part.element)),
      h("section.card.main", { "aria-label": "List" },
        h("div.list-head", {}, h("div", {}, heading, told), wanted && wanted.element),
        answer, trouble, warnings, list.element)),
    brief.element, note.element);

  let length = state.top;

  function explain(bundle, row, button) {
    if (answers.close(row)) return;
    button.setAttribute("aria-expanded", "true");
    answers.ask(row, bundle, button, () => button.setAttribute("aria-expanded", "false"));
  }

  async function show(now, signal) {
    bar.show();
    if (length !== state.top) answers.closeAll(); // they spoke of a list of another length
    length = state.top;
    answers.show();
    heading.textContent = `Her first ${state.top} ${many("bundle")}`;
    await Promise.all(groups.map((part) => part.show(part.nodes, signal)));
    const ask = about.supports_whatif ? () => askMoves(now, signal) : () => askPlain(now, signal);
    await attempt(trouble, async () => {
      const found = await busy(list.element, ask);
      put(trouble);
      const words = summary(found.moves, edited(now), found.top);
      list.show(found.moves, edited(now), found.top);
      answers.show();
      told.textContent = words ?? (about.supports_whatif ? INVITE : "");
      put(warnings, found.warnings.map((warning) => h("p.warning", {}, inWords(warning))));
      note.show(found.note);
      brief.show(words);
      if (words) announce(words);
    }, again, waysBack("readers", now));
  }
  return { title: name, show, leave: answers.closeAll };
}

function askMoves(now, signal) {
  return post("/api/whatif/user", { user: now.id, ...editsOf(now), top: state.top }, signal);
}

/** The list alone, told as moves that go nowhere. */
async function askPlain(now, signal) {
  const found = await get("/api/recommend", { user: now.id, top: state.top }, signal);
  const moves = found.places.map((place) => ({ ...place, before: place.place, after: place.place }));
  return { moves, top: found.top, warnings: [], note: null };
}
