// Who has a bundle among their first: before and after, by how much is known of them, and who comes and goes.

import { button, h, put } from "/page/dom.js";
import { drawBars } from "/page/draw.js";
import { blank, linkTo } from "/page/state.js";
import { called, capital, count, figure, many, segment } from "/page/words.js";

const SHOWN = 12; // names, until all are asked for

export function audience() {
  const [heading, large, said] = [h("h3"), h("p.large"), h("p.told")];
  const key = h("p.key.quiet", { "aria-hidden": "true" }, h("span.before", {}, "before"), h("span.after", {}, "now"));
  const bars = h("ul.bars");
  const [entered, left] = [people("come"), people("go")];
  const element = h("div.audience", { hidden: true }, heading, large, said, key, bars,
    h("div.people", {}, entered.element, left.element));

  function show(answer, changed) {
    element.hidden = false;
    heading.textContent = `${capital(many("user"))} who have it among their first ${answer.top}`;
    const was = answer.before !== answer.after && [h("s", {}, figure(answer.before)), " → "];
    put(large, h("strong", {}, was, figure(answer.after)), ` of ${count(answer.users, "user")}`);
    said.textContent = changed ? words(answer) : `Remove, add or swap ${many("item")}, and watch who comes and goes.`;
    key.hidden = !changed;
    bars.classList.toggle("changed", changed);
    drawBars(bars, Object.entries(answer.segments).map(([name, part]) => ({
      ...part, key: name, label: capital(segment(name)), note: `of ${figure(part.users)}`,
    })));
    entered.show(answer.entered, answer.entered_count, changed);
    left.show(answer.left, answer.left_count, changed);
  }

  return { element, show, words };
}

/** The change in a sentence. */
function words(answer) {
  const by = answer.after - answer.before;
  if (answer.entered_count + answer.left_count === 0) return `Your changes leave its ${many("user")} as they were.`;
  const change = by === 0 ? "As many as before" : `${count(Math.abs(by), "user")} ${by > 0 ? "more" : "fewer"}`;
  const ways = [[answer.entered_count, "come"], [answer.left_count, "go"]].filter(([some]) => some > 0);
  return `${change}: ${ways.map(([some, way]) => moving(some, way)).join(", ")}.`;
}

/** "1 comes", "3 come". */
function moving(number, way) {
  const one = { come: "comes", go: "goes" }[way];
  return `${figure(number)} ${number === 1 ? one : way}`;
}

function entry(node) {
  return h("li", {}, h("a", { href: linkTo("readers", blank("readers", node.id)) }, called("user", node)));
}

/** Those who come, or who go. */
function people(way) {
  let rest;
  const [heading, list] = [h("h4"), h("ul.names")];
  const more = button("button.quiet.more", showAll);
  const element = h("div", { hidden: true }, heading, list, more);

  function show(nodes, number, changed) {
    element.hidden = !changed || number === 0;
    heading.textContent = moving(number, way);
    put(list, nodes.slice(0, SHOWN).map(entry));
    more.hidden = nodes.length <= SHOWN;
    more.textContent = `Show ${figure(nodes.length - SHOWN)} more`;
    rest = [nodes, number - nodes.length];
  }

  function showAll() {
    const [nodes, unnamed] = rest;
    put(list, nodes.map(entry), unnamed > 0 && h("li.quiet", {}, `and ${count(unnamed, "user")} more`));
    more.hidden = true;
    list.children[SHOWN].firstElementChild.focus();
  }
  return { element, show };
}
