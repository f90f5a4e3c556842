// A user's list: the rank of each bundle, how it moved, and a button that asks why it is there.

import { button, fill, h, svg, updateList } from "/page/dom.js";
import { describe, fullLabel, repeated, updateId } from "/page/names.js";
import { plural } from "/page/words.js";

const STUB = 16; // pixels: the line of a bundle that leaves the list
const ANIMATION = { duration: 480, easing: "cubic-bezier(.2, .7, .2, 1)" };

/** The list. `explain(bundle, row, button)` is called for "Why?"; null for a model without what-if. */
export function recommendationList(explain) {
  const lines = svg("svg.moves", { "aria-hidden": "true" });
  const columns = h("p.column-heads.muted", { "aria-hidden": "true" }, h("span", {}, "before"), h("span", {}, "now"));
  const ranked = h("ol.ranked");
  const gone = h("ul.ranked.gone");
  const goneSection = h("div", { hidden: true }, h("h4"), gone);
  const element = h("div.ranking", {}, columns, lines, h("div.rows", {}, ranked, goneSection));
  let shown = [];

  const redraw = () => {
    const rows = [...ranked.children];
    if (!rows.length || !element.classList.contains("moved")) return fill(lines);
    const byKey = new Map([...rows, ...gone.children].map((row) => [row.dataset.key, row]));
    return drawLines(lines, shown.map((move) => ({ ...move, row: byKey.get(move.id) })), rows);
  };
  new ResizeObserver(redraw).observe(element);

  /** Shows the moves of a what-if answer; `changed` says whether there are edits. */
  function show(moves, changed, k) {
    shown = moves;
    const focused = element.contains(document.activeElement) && document.activeElement.closest("li")?.dataset.key;
    const again = repeated("bundle", moves);
    animateRows([ranked, gone], () => {
      const make = (move) => makeRow(move, again, explain);
      const update = (row, move) => updateRow(row, move, again);
      const draw = (list, part) => updateList(list, part, (move) => move.id, make, update);
      draw(ranked, moves.filter((move) => move.rank_after !== null));
      draw(gone, moves.filter((move) => move.rank_after === null));
      goneSection.hidden = !gone.children.length;
      goneSection.firstChild.textContent = `No longer in the first ${k}`;
      element.classList.toggle("moved", changed);
    });
    if (focused && !element.contains(document.activeElement)) findRow(focused)?.querySelector("a").focus(); // it moved
    redraw();
  }

  function findRow(key) {
    return [...ranked.children, ...gone.children].find((row) => row.dataset.key === key);
  }
  return { element, show };
}

/** "up", "down", "new", "gone" or "same". */
function direction({ rank_before: before, rank_after: after }) {
  if (after === null) return "gone";
  if (before === null) return "new";
  return after === before ? "same" : after < before ? "up" : "down";
}

function makeRow(move, again, explain) {
  const onclick = (event) => explain(move, event.currentTarget.closest("li"), event.currentTarget);
  const properties = { "aria-label": `Why ${fullLabel("bundle", move, again)}?`, "aria-expanded": "false" };
  const why = explain && button("button.muted.why", onclick, properties, "Why?");
  return h("li", {}, h("div.ranked-row", {}, h("span.rank"), h("span.move"), describe("bundle", move, again), why));
}

function updateRow(row, move, again) {
  const moved = direction(move);
  updateId(row, move, again);
  row.className = moved;
  row.querySelector(".rank").textContent = move.rank_after ?? "";
  const by = Math.abs((move.rank_after ?? 0) - (move.rank_before ?? 0));
  const [sign, words] = {
    up: [`▲ ${by}`, `, up by ${by}`],
    down: [`▼ ${by}`, `, down by ${by}`],
    new: ["new", ", new"],
    gone: ["gone", `, gone, had rank ${move.rank_before}`],
    same: ["", ""],
  }[moved];
  fill(row.querySelector(".move"), h("span", { "aria-hidden": "true" }, sign), h("span.hidden", {}, words));
  const why = row.querySelector(".why");
  if (why) why.hidden = moved === "new" || moved === "gone"; // an explanation is about the list without the edits
}

/** The moves in a sentence; null without edits. */
export function summarize(moves, changed, k) {
  if (!changed) return null;
  const number = (name) => moves.filter((move) => direction(move) === name).length;
  const parts = [[number("up"), "up"], [number("down"), "down"], [number("new"), "new"], [number("gone"), "gone"]];
  const words = parts.filter(([some]) => some > 0).map(([some, name]) => `${some} ${name}`);
  if (!words.length) return `Your changes do not move the first ${k} ${plural("bundle")}`;
  return `${words.join(", ")} among the first ${k}`;
}

/** Updates lists and animates each row from its old position; a row may come from another of the lists. */
function animateRows(lists, update) {
  const rows = () => lists.flatMap((list) => [...list.children]);
  const before = new Map(rows().map((row) => [row.dataset.key, row.getBoundingClientRect()]));
  update();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || before.size === 0) return;
  for (const row of rows()) {
    const old = before.get(row.dataset.key);
    if (!old) {
      row.animate([{ opacity: 0, transform: "translateX(-1.5rem)" }, {}], ANIMATION);
      continue;
    }
    const current = row.getBoundingClientRect();
    const [right, down] = [old.left - current.left, old.top - current.top];
    if (Math.abs(down) > 1) row.animate([{ transform: `translate(${right}px, ${down}px)` }, {}], ANIMATION);
  }
}

/**
 * Draws lines from each bundle's rank before, at the left, to its row now, at the right. Each move has its row. The
 * rows say the same in words.
 */
function drawLines(picture, moves, rows) {
  const box = picture.getBoundingClientRect();
  if (box.width === 0) return;
  const middle = (row) => {
    const head = row.firstElementChild.getBoundingClientRect();
    return row.offsetTop - rows[0].offsetTop + head.height / 2; // its final position, not that of the animation
  };
  const heights = rows.map(middle);
  const [left, right] = [20, box.width - 4];
  const known = moves.filter((move) => move.rank_before !== null);
  const origin = (move) => heights[move.rank_before - 1] ?? heights.at(-1);
  const lines = known.map((move) => {
    const [from, moved] = [origin(move), direction(move)];
    if (moved === "gone") return svg("path.gone", { d: `M${left} ${from}q${STUB} 0 ${STUB} ${STUB}` });
    const [to, bend] = [middle(move.row), (left + right) / 2];
    return svg(`path.${moved}`, { d: `M${left} ${from}C${bend} ${from} ${bend} ${to} ${right} ${to}` });
  });
  const numbers = known.map((move) => (
    svg("text", { x: left - 5, y: origin(move), dy: ".35em" }, String(move.rank_before))));
  const dots = moves.filter((move) => move.rank_before === null)
    .map((move) => svg("circle.new", { cx: right - 3, cy: middle(move.row), r: 3.5 }));
  fill(picture, lines, numbers, dots);
}
