// The audience of a bundle: how many users have it among their first k, before and now, and who enters and leaves.

import { button, fill, h, updateList } from "/page/dom.js";
import { linkTo, unedited } from "/page/state.js";
import { capitalize, count, formatNumber, label, plural, segmentLabel } from "/page/words.js";

const SHOWN = 12; // users, until "Show more" is used

export function audienceChart() {
  const [heading, large, detail] = [h("h3"), h("p.large"), h("p.detail")];
  const legend = h("p.legend.muted", { "aria-hidden": "true" },
    h("span.before", {}, "before"), h("span.after", {}, "now"));
  const bars = h("ul.bars");
  const [entered, left] = [userList("enter"), userList("leave")];
  const element = h("div.audience", { hidden: true }, heading, large, detail, legend, bars,
    h("div.people", {}, entered.element, left.element));

  /** Shows an answer; `summary` is the change in words, null without edits. */
  function show(answer, summary) {
    const changed = summary !== null;
    element.hidden = false;
    heading.textContent = `${capitalize(plural("user"))} who have it among their first ${answer.k}`;
    const before = answer.before !== answer.after && [h("s", {}, formatNumber(answer.before)), " → "];
    fill(large, h("strong", {}, before, formatNumber(answer.after)), ` of ${count(answer.users, "user")}`);
    detail.textContent = summary ?? `Remove, add or swap ${plural("item")} to see who enters and leaves.`;
    legend.hidden = !changed;
    bars.classList.toggle("changed", changed);
    drawBars(bars, Object.entries(answer.segments));
    entered.show(answer.entered, answer.entered_count, changed);
    left.show(answer.left, answer.left_count, changed);
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

/** Two bars a segment, before and now; the bars are reused, so that they grow and shrink. */
function drawBars(list, segments) {
  const most = Math.max(1, ...segments.flatMap(([, segment]) => [segment.before, segment.after]));
  updateList(list, segments, ([name]) => name, makeBars, (element, [name, segment]) => {
    const [caption, before, after] = element.children;
    fill(caption, h("span", {}, capitalize(segmentLabel(name))), " ",
      h("span.muted", {}, `of ${formatNumber(segment.users)}`));
    setBar(before, segment.before, most, "before");
    setBar(after, segment.after, most, "now");
  });
}

function makeBars() {
  const bar = (name) => h(name, {}, h("i"), h("b"), h("span.hidden"));
  return h("li", {}, h("p.bar-label"), bar("div.bar.before"), bar("div.bar.after"));
}

function setBar(bar, value, most, when) {
  const [length, number, words] = bar.children;
  length.style.width = `calc(${value / most} * (100% - 4rem))`; // the rest is for the number
  number.textContent = formatNumber(value);
  words.textContent = ` ${when}`;
}

/** The users who enter, or who leave. */
function userList(verb) {
  let [nodes, unlisted] = [[], 0];
  const [heading, list] = [h("h4"), h("ul.names")];
  const more = button("button.muted.more", showAll);
  const element = h("div", { hidden: true }, heading, list, more);

  function show(listed, number, changed) {
    [nodes, unlisted] = [listed, number - listed.length];
    element.hidden = !changed || number === 0;
    heading.textContent = conjugate(number, verb);
    fill(list, nodes.slice(0, SHOWN).map(userLink));
    more.hidden = nodes.length <= SHOWN;
    more.textContent = `Show ${formatNumber(nodes.length - SHOWN)} more`;
  }

  function showAll() {
    fill(list, nodes.map(userLink), unlisted > 0 && h("li.muted", {}, `and ${count(unlisted, "user")} more`));
    more.hidden = true;
    list.children[SHOWN].firstElementChild.focus();
  }
  return { element, show };
}

function userLink(node) {
  return h("li", {}, h("a", { href: linkTo("users", unedited("users", node.id)) }, label("user", node)));
}
