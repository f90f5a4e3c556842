// The third tab: what the model is, how good it is and for whom, in plain words first and then its card.

import { post } from "/page/api.js";
import { button, h, put } from "/page/dom.js";
import { markdown } from "/page/markdown.js";
import { capital, count, figure, many, segment } from "/page/words.js";

/** Fills the panel, once. */
export function modelTab(panel, about) {
  put(panel, h("div.columns.model", {},
    h("section.card", { "aria-label": "How good it is" },
      h("h2", {}, "How good it is"), headline(about), measures(about), report(about),
      h("h3", {}, "What is here"), facts(about)),
    h("article.card.main", { "aria-label": "Model card" },
      markdown(about.card, 2), h("h3", {}, "On what-if"), h("p", {}, about.note))));
  return { show() {}, title: () => null };
}

function headline(about) {
  const found = about.test["recall@20"];
  if (found === undefined) return h("p", {}, "Not known: there were no choices set aside to test it on.");
  const parts = Object.entries(about.segments);
  const asked = parts.reduce((sum, [, part]) => sum + part.users, 0);
  return h("div", {},
    h("p.large", {}, h("strong", {}, percent(found)), ` of the ${many("bundle")} chosen later`),
    h("p.told", {}, "stood among the first 20 that the model had offered. "
      + `Asked of ${count(asked, "user")} whose later choices it had never seen.`),
    h("ul.bars", {}, parts.map(([name, part]) => share(capital(segment(name)), part.users, part["recall@20"]))));
}

function percent(value) {
  return `${(100 * value).toFixed(0)} %`;
}

function share(label, users, value) {
  const length = h("i");
  length.style.width = `calc(${value} * (100% - 4rem))`;
  return h("li", {},
    h("p.bar-label", {}, label, " ", h("span.quiet", {}, count(users, "user"))),
    h("div.bar.after", {}, length, h("b", {}, percent(value))));
}

/** Every measure, for those who know them. */
function measures(about) {
  const names = [...new Set([...Object.keys(about.validation), ...Object.keys(about.test)])];
  if (!names.length) return null;
  const head = ["Measure", "Tune", "Test"].map((name) => h("th", { scope: "col" }, name));
  const cell = (value) => h("td", {}, value === undefined ? "–" : (100 * value).toFixed(2));
  const row = (name) => h("tr", {}, h("th", { scope: "row" }, name), cell(about.validation[name]), cell(about.test[name]));
  return h("div", {},
    h("h3", {}, "Measures"),
    h("p.quiet", {}, `In percent, over all ${many("bundle")}. `
      + "“Tune” chose when to stop training; “test” was never looked at before."),
    h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Measures" },
      h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, names.map(row)))));
}

/** A link cannot carry a token, so the service is asked for an address that is good for a moment. */
function report(about) {
  const said = h("span.quiet", { role: "status" });
  const open = async () => {
    const page = window.open("about:blank"); // at once: a browser lets no page open one later
    try {
      const { path } = await post("/api/report", {});
      page.opener = null;
      page.location = path;
    } catch (error) {
      page.close();
      said.textContent = ` ${error.message}`;
    }
  };
  return about.report && h("p", {}, button("button", open, {}, "Read the experiment report"), said);
}

function facts(about) {
  const told = [
    ...["user", "bundle", "item"].map((kind) => [capital(many(kind)), figure(about[`${kind}s`])]),
    ["Data", about.data], ["Model", about.model], ["Trained", about.paradigm], ["Artifact", about.artifact],
    ["clbr", about.version],
  ];
  return h("dl", {}, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
