// The third tab: how good the model is and for whom, its metrics, and its model card.

import { post } from "/page/api.js";
import { button, fill, h } from "/page/dom.js";
import { markdown } from "/page/markdown.js";
import { capitalize, count, formatNumber, plural, segmentLabel } from "/page/words.js";

/** What every what-if answer cannot say; nothing for a model that answers none. */
function caveat(about) {
  return about.caveat ? [h("h3", {}, "Caveat of what-if answers"), h("p", {}, about.caveat)] : null;
}

/** Fills the panel, once. */
export function modelTab(panel, about) {
  fill(panel, h("div.columns.model", {},
    h("section.card", { "aria-label": "How good it is" },
      h("h2", {}, "How good it is"), headline(about), metrics(about), reportButton(about),
      h("h3", {}, "What is here"), facts(about)),
    h("article.card.main", { "aria-label": "Model card" },
      markdown(about.card, 2), caveat(about))));
  return { show() {}, title: () => null };
}

function headline(about) {
  const recall = about.test["recall@20"];
  if (recall === undefined) return h("p", {}, "Not known: there were no test pairs to measure it on.");
  const segments = Object.entries(about.segments);
  const users = segments.reduce((sum, [, segment]) => sum + segment.users, 0);
  return h("div", {},
    h("p.large", {}, h("strong", {}, percent(recall)), ` of the ${plural("bundle")} chosen later`),
    h("p.detail", {}, "were among the first 20 that the model recommended. "
      + `Measured on ${count(users, "user")} whose later choices were not used in training.`),
    h("ul.bars", {}, segments.map(([name, segment]) => recallBar(name, segment))));
}

function percent(value) {
  return `${(100 * value).toFixed(0)} %`;
}

function recallBar(name, segment) {
  const recall = segment["recall@20"];
  const bar = h("i");
  bar.style.width = `calc(${recall} * (100% - 4rem))`;
  return h("li", {},
    h("p.bar-label", {}, capitalize(segmentLabel(name)), " ", h("span.muted", {}, count(segment.users, "user"))),
    h("div.bar.after", {}, bar, h("b", {}, percent(recall))));
}

function metrics(about) {
  const names = [...new Set([...Object.keys(about.validation), ...Object.keys(about.test)])];
  if (!names.length) return null;
  const head = ["Metric", "Validation", "Test"].map((name) => h("th", { scope: "col" }, name));
  const cell = (value) => h("td", {}, value === undefined ? "–" : (100 * value).toFixed(2));
  const row = (name) => h("tr", {},
    h("th", { scope: "row" }, name), cell(about.validation[name]), cell(about.test[name]));
  return h("div", {},
    h("h3", {}, "Metrics"),
    h("p.muted", {}, `In percent, ranking all ${plural("bundle")}. `
      + "Epochs and settings are chosen on validation pairs, never on test pairs."),
    h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Metrics" },
      h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, names.map(row)))));
}

/** A link cannot carry a token, so the service is asked for an address that works for a minute without one. */
function reportButton(about) {
  const message = h("span.muted", { role: "status" });
  const open = async () => {
    const page = window.open("about:blank"); // now: a browser allows it only during the click
    try {
      const { path } = await post("/report", {});
      page.opener = null;
      page.location = path;
    } catch (error) {
      page.close();
      message.textContent = ` ${error.message}`;
    }
  };
  return about.report && h("p", {}, button("button", open, {}, "Read the experiment report"), message);
}

function facts(about) {
  const rows = [
    ...["user", "bundle", "item"].map((kind) => [capitalize(plural(kind)), formatNumber(about[`${kind}s`])]),
    ["Data", about.data], ["Model", about.model], ["Training strategy", about.paradigm], ["Artifact", about.artifact],
    ["clbr", about.version],
  ];
  return h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
