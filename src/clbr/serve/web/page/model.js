// The third tab: what the model is, how good it is and for whom, in plain words first and then its card.

import { h, put } from "/page/dom.js";
import { markdown } from "/page/markdown.js";
import { capital, count, figure, many, segment, word } from "/page/words.js";

/** Fills the panel, once. */
export function modelTab(panel, about) {
  const known = Object.keys(about.tune).length > 0;
  const found = about.test["recall@20"] ?? about.tune["recall@20"];
  put(panel, h("div.columns.model", {},
    h("section.card", { "aria-label": "How good it is" },
      h("h2", {}, "How good it is"),
      found === undefined ? h("p", {}, "Not known: there were no choices set aside to test it on.") : headline(about, found),
      known && h("h3", {}, "Measures"),
      known && h("p.quiet", {}, `In percent, over all ${many("bundle")}. “Tune” chose when to stop training; “test” was never looked at before.`),
      known && measures(about),
      about.report && h("p", {}, h("a", { href: "/report", target: "_blank", rel: "noopener" }, "Read the experiment report")),
      h("h3", {}, "What is here"),
      h("dl", {},
        fact(capital(many("user")), figure(about.users)), fact(capital(many("bundle")), figure(about.bundles)), fact(capital(many("item")), figure(about.items)),
        fact("Data", about.data), fact("Model", about.model), fact("Trained", about.paradigm), fact("Artefact", about.artefact), fact("clbr", about.version))),
    h("article.card.main", { "aria-label": "Model card" }, markdown(about.card, 2), h("h3", {}, "On what-if"), h("p", {}, about.note))));
  return { show() {}, title: () => null };
}

function headline(about, found) {
  const percent = (value) => `${(100 * value).toFixed(0)} %`;
  const parts = Object.entries(about.segments).filter(([, part]) => part["recall@20"] !== undefined);
  return h("div", {},
    h("p.large", {}, h("strong", {}, percent(found)), ` of the ${many("bundle")} chosen later`),
    h("p.told", {}, `stood among the first 20 that the model had offered. Asked of ${count(parts.reduce((sum, [, part]) => sum + part.users, 0), "user")} whose later choices it had never seen.`),
    h("ul.bars.single", {}, parts.map(([name, part]) => share(`${capital(segment(name))}`, part.users, part["recall@20"], percent))));
}

function share(label, users, value, percent) {
  const length = h("i");
  length.style.width = `calc(${value} * (100% - 4rem))`;
  return h("li", {}, h("p.bar-label", {}, label, " ", h("span.quiet", {}, count(users, "user"))), h("div.bar.after", {}, length, h("b", {}, percent(value))));
}

/** Every measure as those who know them want it. */
function measures(about) {
  const names = [...new Set([...Object.keys(about.tune), ...Object.keys(about.test)])];
  const cell = (value) => h("td", {}, value === undefined ? "–" : (100 * value).toFixed(2));
  return h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Measures" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Measure"), h("th", { scope: "col" }, "Tune"), h("th", { scope: "col" }, "Test"))),
    h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, name), cell(about.tune[name]), cell(about.test[name]))))));
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
