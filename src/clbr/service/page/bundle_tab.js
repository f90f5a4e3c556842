// The second tab, the studio: a bundle, its contents, and who would have it in their lists with other contents.

import { post } from "/page/api.js";
import { audienceChart, summarize } from "/page/audience.js";
import { announce, busy, fill, h } from "/page/dom.js";
import { editableList } from "/page/editable_list.js";
import { attempt } from "/page/errors.js";
import { editsOf, isEdited, state } from "/page/state.js";
import { discardActions, noWhatif, subjectHeading, subjectTab, summaryBar } from "/page/subject_tab.js";
import { suggestions } from "/page/suggestions.js";
import { toolbar } from "/page/toolbar.js";
import { capitalize, count, label, plural, translate, word } from "/page/words.js";

/** Fills the panel; `show()` updates it. */
export function bundleTab(panel, about) {
  const question = `Which ${word("bundle")} do you want to edit?`;
  const makeView = (body, bundle, reload) => bundleView(body, bundle, about, reload);
  return subjectTab(panel, { tab: "bundles", kind: "bundle", question, makeView });
}

function bundleView(body, bundle, about, reload) {
  const name = label("bundle", bundle);
  const bar = toolbar("bundles");
  const contents = editableList({
    tab: "bundles", kind: "item", title: `${capitalize(plural("item"))} in it`,
    none: `There is no ${word("item")} in it.`, editable: about.supports_whatif, swappable: true,
  });
  const chart = audienceChart();
  const swaps = suggestions(bundle);
  const [error, warnings, brief] = [h("div"), h("div"), summaryBar(chart.element)];
  fill(body, subjectHeading(name, bundle, `Chosen by ${count(bundle.chosen_by, "user")}`),
    about.supports_whatif ? bar.element : noWhatif(about),
    h("div.columns", {},
      h("section.card", { "aria-label": "Contents" }, contents.element),
      about.supports_whatif && h("section.card.main", { "aria-label": "Audience" },
        error, warnings, chart.element, swaps.element)),
    brief.element);

  async function show(subject, signal) {
    bar.show();
    await contents.show(bundle.items, signal);
    if (!about.supports_whatif) return;
    swaps.show();
    await attempt(error, async () => {
      const request = { bundle: subject.id, ...editsOf(subject), k: state.k };
      const answer = await busy(chart.element, () => post("/audience", request, signal));
      fill(error);
      fill(warnings, answer.warnings.map((warning) => h("p.warning", {}, translate(warning))));
      const words = isEdited(subject) ? summarize(answer) : null;
      chart.show(answer, words);
      brief.show(words);
      if (words) announce(words);
    }, reload, discardActions("bundles", subject));
  }
  return { title: name, show, leave: swaps.leave };
}
