// Pictures: rows that move to their new places, lines from the old places to the new ones, and bars.

import { h, keyed, put, svg } from "/page/dom.js";
import { figure } from "/page/words.js";

const STUB = 16; // pixels
const TIME = { duration: 480, easing: "cubic-bezier(.2, .7, .2, 1)" };

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Changes lists and lets each row glide from where it was; a row of one list may come from another. */
export function moveRows(lists, update) {
  const rows = () => lists.flatMap((list) => [...list.children]);
  const before = new Map(rows().map((row) => [row.dataset.key, row.getBoundingClientRect()]));
  update();
  if (calm() || before.size === 0) return;
  for (const row of rows()) {
    const was = before.get(row.dataset.key);
    if (!was) {
      row.animate([{ opacity: 0, transform: "translateX(-1.5rem)" }, {}], TIME);
      continue;
    }
    const is = row.getBoundingClientRect();
    const [right, down] = [was.left - is.left, was.top - is.top];
    if (Math.abs(down) > 1) row.animate([{ transform: `translate(${right}px, ${down}px)` }, {}], TIME);
  }
}

/**
 * Lines from each bundle's place before, at the left, to its row now, at the right. `moves` have before, after and a
 * row; the picture stands beside the rows and says nothing that they do not say in words.
 */
export function drawMoves(picture, moves, rows) {
  const box = picture.getBoundingClientRect();
  if (box.width === 0) return;
  const middle = (row) => {
    const head = row.firstElementChild.getBoundingClientRect();
    return row.offsetTop - rows[0].offsetTop + head.height / 2; // where it comes to rest, not where it is on its way
  };
  const heights = rows.map(middle);
  const [left, right] = [20, box.width - 4];
  const known = moves.filter((move) => move.before !== null);
  const origin = (move) => heights[move.before - 1] ?? heights.at(-1);
  const lines = known.map((move) => {
    const from = origin(move);
    if (move.way === "gone") return svg("path.gone", { d: `M${left} ${from}q${STUB} 0 ${STUB} ${STUB}` }); // it leaves
    const to = middle(move.row);
    const bend = (left + right) / 2;
    return svg(`path.${move.way}`, { d: `M${left} ${from}C${bend} ${from} ${bend} ${to} ${right} ${to}` });
  });
  const numbers = known.map((move) => svg("text", { x: left - 5, y: origin(move), dy: ".35em" }, String(move.before)));
  const news = moves.filter((move) => move.before === null)
    .map((move) => svg("circle.new", { cx: right - 3, cy: middle(move.row), r: 3.5 }));
  put(picture, lines, numbers, news);
}

/** Bars in pairs, before and after: rows of {key, label, note, before, after}. Kept bars grow and shrink. */
export function drawBars(list, rows) {
  const most = Math.max(1, ...rows.flatMap((row) => [row.before, row.after]));
  keyed(list, rows, (row) => row.key, makeBars, (element, row) => {
    const [label, before, after] = element.children;
    put(label, h("span", {}, row.label), " ", h("span.quiet", {}, row.note));
    setBar(before, row.before, most, "before");
    setBar(after, row.after, most, "now");
  });
}

function makeBars() {
  const bar = (name) => h(name, {}, h("i"), h("b"), h("span.hidden"));
  return h("li", {}, h("p.bar-label"), bar("div.bar.before"), bar("div.bar.after"));
}

function setBar(bar, value, most, when) {
  const [length, number, words] = bar.children;
  length.style.width = `calc(${value / most} * (100% - 4rem))`; // room for the number
  number.textContent = figure(value);
  words.textContent = ` ${when}`;
}
