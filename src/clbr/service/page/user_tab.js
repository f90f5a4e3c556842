// The first tab: a user, the user's history and recommendations, and what they would be with another history.

import { get, post } from "/page/api.js";
import { certainty } from "/page/certainty.js";
import { announce, busy, fill, h } from "/page/dom.js";
import { editableList } from "/page/editable_list.js";
import { attempt } from "/page/errors.js";
import { explanations } from "/page/explanations.js";
import { showPreviews } from "/page/names.js";
import { recommendationList, summarize } from "/page/recommendations.js";
import { searchBox } from "/page/search.js";
import { editsOf, isEdited, state } from "/page/state.js";
import { discardActions, noWhatif, subjectHeading, subjectTab, summaryBar } from "/page/subject_tab.js";
import { toolbar } from "/page/toolbar.js";
import { capitalize, label, plural, segmentLabel, translate, withArticle, word } from "/page/words.js";

const INVITATION = "Remove or add something in the history to see what moves.";

/** Fills the panel; `show()` updates it. */
export function userTab(panel, about) {
  const question = `Whose ${plural("bundle")} do you want to see?`;
  const makeView = (body, user, reload) => userView(body, user, about, reload);
  return subjectTab(panel, { tab: "users", kind: "user", question, makeView });
}

function userView(body, user, about, reload) {
  const name = label("user", user);
  const bar = toolbar("users");
  const group = (kind, nodes) => ({ nodes, ...editableList({
    tab: "users", kind, title: `Chosen ${plural(kind)}`, none: `No ${word(kind)} chosen yet.`,
    editable: about.supports_whatif,
  }) });
  const groups = [group("bundle", user.bundles), group("item", user.items)];
  const [heading, summary, sure, warnings, error] = [h("h3"), h("p.detail"), certainty("user"), h("div"), h("div")];
  const brief = summaryBar(heading, { above: true });
  const list = recommendationList(about.supports_whatif ? explain : null);
  const explained = explanations(user, about.limits.budget);
  const otherExplanation = h("div"); // about a bundle that is not in the list
  const other = about.supports_whatif && searchBox({
    kind: "bundle", label: `What would bring in ${withArticle("bundle")}?`,
    placeholder: `Find ${withArticle("bundle")}`,
    unavailable: (id) => (user.bundles.some((bundle) => bundle.id === id) ? "already chosen" : null),
    choose: (bundle) => explained.open(otherExplanation, bundle, other.input),
    leave: () => explained.close(otherExplanation),
  });
  fill(body, subjectHeading(name, user, capitalize(segmentLabel(user.segment))), bar.element,
    !about.supports_whatif && noWhatif(about),
    h("div.columns.list-first", {},
      h("section.card.main", { "aria-label": "Recommendations" },
        h("div.list-head", {}, h("div", {}, heading, summary, sure), other && other.element),
        otherExplanation, error, warnings, list.element),
      h("section.card", { "aria-label": "History" }, groups.map((part) => part.element))),
    brief.element);

  let shownK = state.k;

  function explain(bundle, row, button) {
    if (explained.close(row)) return;
    button.setAttribute("aria-expanded", "true");
    explained.open(row, bundle, button, () => button.setAttribute("aria-expanded", "false"));
  }

  async function show(subject, signal) {
    bar.show();
    if (shownK !== state.k) explained.closeAll(); // they are about a list of another length
    shownK = state.k;
    explained.show();
    heading.textContent = `First ${state.k} ${plural("bundle")}`;
    await Promise.all(groups.map((part) => part.show(part.nodes, signal)));
    const request = about.supports_whatif ? requestWhatif : requestList;
    await attempt(error, async () => {
      const answer = await busy(list.element, () => request(subject, signal));
      fill(error);
      const changed = isEdited(subject);
      const words = summarize(answer.moves, changed, answer.k);
      list.show(answer.moves, changed, answer.k);
      explained.show();
      summary.textContent = words ?? (about.supports_whatif ? INVITATION : "");
      sure.hidden = !changed;
      fill(warnings, answer.warnings.map((warning) => h("p.warning", {}, translate(warning))));
      brief.show(words);
      if (words) announce(words);
      await showPreviews(list.element, signal);
    }, reload, discardActions("users", subject));
  }
  return { title: name, show, leave: explained.closeAll };
}

function requestWhatif(subject, signal) {
  return post("/whatif", { user: subject.id, ...editsOf(subject), k: state.k }, signal);
}

/** The list of a model without what-if, in the form of a what-if answer without moves. */
async function requestList(subject, signal) {
  const { recommended, k } = await get("/recommend", { user: subject.id, k: state.k }, signal);
  const moves = recommended.map((bundle) => ({ ...bundle, rank_before: bundle.rank, rank_after: bundle.rank }));
  return { moves, k, warnings: [] };
}
