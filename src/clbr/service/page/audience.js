// The audience of a bundle: how many users have it among their first k, before and now, and who enters and leaves.

import { certainty } from "/page/certainty.js";
import { button, fill, h, updateList } from "/page/dom.js";
import { nameOf, repeated } from "/page/names.js";
import { capitalize, count, formatNumber, plural, segmentLabel } from "/page/words.js";

const SHOWN = 12; // users, until "Show more" is used
export const LISTED = 200; // users at most, then
const FEW = 10; // users: a bar for fewer would make a difference of one look large

export function audienceChart() {
  const [heading, large, detail, sure] = [h("h3"), h("p.large"), h("p.detail"), certainty("bundle")];
  const legend = h("p.legend.muted", { "aria-hidden": "true" },
    h("span.before", {}, "before"), h("span.after", {}, "now"));
  const bars = h("ul.bars");
  const [entered, left] = [userList(), userList()];
  const element = h("div.audience", { hidden: true }, heading, large, detail, sure, legend, bars,
    h("div.people", {}, entered.element, left.element));

  /** Shows an answer; `summary` is the change in words, null without edits. */
  function show(answer, summary) {
    const changed = summary !== null;
    element.hidden = false;
    heading.textContent = `${capitalize(plural("user"))} who have it among their first ${answer.k}`;
    const before = answer.before !== answer.after && [h("s", {}, formatNumber(answer.before)), " → "];
    fill(large, h("strong", {}, before, formatNumber(answer.after)), ` of ${count(answer.users, "user")}`);
    detail.textContent = summary ?? `Remove, add or swap ${plural("item")} to see who enters and leaves.`;
    sure.hidden = !changed;
    bars.classList.toggle("changed", changed);
    const few = drawBars(bars, Object.entries(answer.segments));
    legend.hidden = !changed || few;
    entered.show(answer.entered, changed ? answer.entered_count : 0, conjugate(answer.entered_count, "enter"));
    left.show(answer.left, changed ? answer.left_count : 0, conjugate(answer.left_count, "leave"));
  }
  return { element, show };
}

/** The change in a sentence. */
export function summarize(answer) {
  const by = answer.after - answer.before;
  if (answer.entered_count + answer.left_count === 0) return "Your changes do not change who has it.";
  const change = by === 0 ? "As many as before" : `${count(Math.abs(by), "user")} ${by > 0 ? "more" : "fewer"}`;
  const parts = [[answer.entered_count, "enter"], [answer.left_count, "leave"]].filter(([number]) => number > 0);
  return `${change}: ${parts.map(([number, verb]) => conjugate(number, verb)).join(", ")}.`;
}

/** "1 enters", "3 enter". */
function conjugate(number, verb) {
  return `${formatNumber(number)} ${verb}${number === 1 ? "s" : ""}`;
}

/** Two bars a segment, before and now, reused so that they grow and shrink; true if there are numbers instead. */
function drawBars(list, segments) {
  const most = Math.max(1, ...segments.flatMap(([, segment]) => [segment.before, segment.after]));
  list.classList.toggle("few", most < FEW);
  updateList(list, segments, ([name]) => name, makeBars, (element, [name, segment]) => {
    const [caption, before, after] = element.children;
    fill(caption, h("span", {}, capitalize(segmentLabel(name))), " ",
      h("span.muted", {}, `of ${formatNumber(segment.users)}`));
    setBar(before, segment.before, most, "before");
    setBar(after, segment.after, most, "now");
  });
  return most < FEW;
}

function makeBars() {
  const bar = (name) => h(name, {}, h("i"), h("b"), h("span.when"));
  return h("li", {}, h("p.bar-label"), bar("div.bar.before"), bar("div.bar.after"));
}

function setBar(bar, value, most, when) {
  const [length, number, words] = bar.children;
  length.style.width = `calc(${value / most} * (100% - 4rem))`; // the rest is for the number
  number.textContent = formatNumber(value);
  words.textContent = ` ${when}`;
}

/** Users as links, the first ones until "Show more" is used. */
export function userList() {
  let [nodes, unlisted] = [[], 0];
  const [heading, list] = [h("h4"), h("ul.names")];
  const more = button("button.muted.more", showMore);
  const element = h("div", { hidden: true }, heading, list, more);

  /** Shows users of `number` in all; nothing if that is 0. */
  function show(given, number, title) {
    nodes = given.slice(0, LISTED);
    unlisted = number - nodes.length;
    element.hidden = number === 0;
    heading.textContent = title;
    fill(list, links().slice(0, SHOWN));
    more.hidden = nodes.length <= SHOWN;
    more.textContent = `Show ${formatNumber(nodes.length - SHOWN)} more`;
  }

  function showMore() {
    fill(list, links(), unlisted > 0 && h("li.muted", {}, `and ${count(unlisted, "user")} more`));
    more.hidden = true;
    list.children[SHOWN].firstElementChild.focus();
  }

  function links() {
    const again = repeated("user", nodes);
    return nodes.map((node) => h("li", {}, nameOf("user", node),
      again.has(node.id) && node.name && h("span.id.muted", {}, ` ${node.id}`),
      node.rank && h("span.muted", {}, ` rank ${formatNumber(node.rank)}`)));
  }
  return { element, show };
}
