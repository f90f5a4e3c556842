// The last tab: how good the model is and for whom, its metrics, and its model card.

import { post } from "/page/api.js";
import { button, fill, h } from "/page/dom.js";
import { markdown } from "/page/markdown.js";
import { capitalize, count, formatNumber, plural, segmentLabel, translate } from "/page/words.js";

const RECALL = "recall@20";

/** Fills the panel, once. */
export function modelTab(panel, about) {
  fill(panel, h("div.columns.model", {},
    h("section.card", { "aria-label": "How good it is" },
      h("h2", {}, "How good it is"), headline(about), metrics(about), reportButton(about),
      h("h3", {}, "What is here"), facts(about)),
    h("article.card.main", { "aria-label": "Model card" },
      markdown(about.card, 2))));
  return { show() {}, title: () => null };
}

/** What was measured, in the service's sentences, and bars beside each other; no bars for figures without meaning. */
function headline(about) {
  const { verdict, sentences } = about.accuracy;
  const warns = verdict === "leak" || verdict === "below";
  const text = h(warns ? "p.warning" : "p.detail", {}, translate(sentences.join(" ")));
  const recall = about.test[RECALL];
  if (recall === undefined || verdict === "leak") return text;
  return h("div", {}, text,
    h("ul.bars", {},
      recallBar(`This model: ${about.model}`, "", recall),
      about.baseline && recallBar(`Simple rule: ${about.baseline.name}`, "", about.baseline.means[RECALL], "before")),
    h("h3", {}, `By how many ${plural("bundle")} they have chosen`),
    h("ul.bars", {}, Object.entries(about.segments).map(([name, segment]) => (
      recallBar(capitalize(segmentLabel(name)), count(segment.users, "user"), segment[RECALL])))));
}

function recallBar(caption, detail, recall, sort = "after") {
  const bar = h("i");
  bar.style.width = `calc(${recall} * (100% - 4rem))`;
  return h("li", {},
    h("p.bar-label", {}, caption, " ", h("span.muted", {}, detail)),
    h(`div.bar.${sort}`, {}, bar, h("b", {}, `${(100 * recall).toFixed(1)} %`)));
}

function metrics(about) {
  const names = [...new Set([...Object.keys(about.validation), ...Object.keys(about.test)])];
  if (!names.length) return null;
  const rule = about.baseline?.means ?? {};
  const head = ["Metric", "Validation", "Test", about.baseline && "Simple rule, test"].filter(Boolean).map((name) => h("th", { scope: "col" }, name));
  const cell = (value) => h("td", {}, value === undefined ? "–" : (100 * value).toFixed(2));
  const row = (name) => h("tr", {},
    h("th", { scope: "row" }, name), cell(about.validation[name]), cell(about.test[name]),
    about.baseline && cell(rule[name]));
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
