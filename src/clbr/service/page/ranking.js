// A reader's list: where each stands, how it moved, and why it is there.

import { button, h, keyed, put, svg } from "/page/dom.js";
import { drawMoves, moveRows } from "/page/draw.js";
import { blank, linkTo } from "/page/state.js";
import { called, many } from "/page/words.js";

/** The list. `explain(bundle, row, button)` is called where reasons are asked for; null where nothing can be asked. */
export function ranking(explain) {
  const picture = svg("svg.moves", { "aria-hidden": "true" });
  const heads = h("p.heads.quiet", { "aria-hidden": "true" }, h("span", {}, "before"), h("span", {}, "now"));
  const places = h("ol.places");
  const gone = h("ul.places.gone");
  const goneBox = h("div", { hidden: true }, h("h4"), gone);
  const element = h("div.ranking", {}, heads, picture, h("div.rows", {}, places, goneBox));
  let moves = [];

  const redraw = () => {
    const rows = [...places.children];
    if (!rows.length || !element.classList.contains("moved")) return put(picture);
    const byKey = new Map([...rows, ...gone.children].map((row) => [row.dataset.key, row]));
    return drawMoves(picture, moves.map((move) => ({ ...move, row: byKey.get(move.id), way: way(move) })), rows);
  };
  new ResizeObserver(redraw).observe(element);

  /** Shows moves as the service tells them; `changed` says whether there are edits at all. */
  function show(told, changed, top) {
    moves = told;
    const focused = element.contains(document.activeElement) && document.activeElement.closest("li")?.dataset.key;
    moveRows([places, gone], () => {
      const draw = (list, part) => keyed(list, part, (move) => move.id, (move) => makeRow(move, explain), updateRow);
      draw(places, told.filter((move) => move.after !== null));
      draw(gone, told.filter((move) => move.after === null));
      goneBox.hidden = !gone.children.length;
      goneBox.firstChild.textContent = `No longer in her first ${top}`;
      element.classList.toggle("moved", changed);
    });
    if (focused && !element.contains(document.activeElement)) rowOf(focused)?.querySelector("a").focus(); // it has left
    redraw();
  }

  function rowOf(key) {
    return [...places.children, ...gone.children].find((row) => row.dataset.key === key);
  }
  return { element, show };
}

/** "up", "down", "new", "gone" or "same". */
function way(move) {
  if (move.after === null) return "gone";
  if (move.before === null) return "new";
  return move.after === move.before ? "same" : move.after < move.before ? "up" : "down";
}

function makeRow(move, explain) {
  const name = h("a.name", { href: linkTo("studio", blank("studio", move.id)) }, called("bundle", move));
  const onclick = (event) => explain(move, event.currentTarget.closest("li"), event.currentTarget);
  const label = { "aria-label": `Why ${called("bundle", move)}?`, "aria-expanded": "false" };
  const ask = explain && button("button.quiet.why", onclick, label, "Why?");
  return h("li", {}, h("div.place", {}, h("span.number"), h("span.move"), name, ask));
}

function updateRow(row, move) {
  const here = way(move);
  row.className = here;
  row.querySelector(".number").textContent = move.after ?? "";
  const by = Math.abs((move.after ?? 0) - (move.before ?? 0));
  const [sign, words] = {
    up: [`▲ ${by}`, `, up by ${by}`],
    down: [`▼ ${by}`, `, down by ${by}`],
    new: ["new", ", new"],
    gone: ["gone", `, gone, was at place ${move.before}`],
    same: ["", ""],
  }[here];
  put(row.querySelector(".move"), h("span", { "aria-hidden": "true" }, sign), h("span.hidden", {}, words));
  const ask = row.querySelector(".why");
  if (ask) ask.hidden = here === "new" || here === "gone"; // it is asked of things as they are, without the edits
}

/** What became of the list, in a sentence. */
export function summary(moves, changed, top) {
  if (!changed) return null;
  const number = (name) => moves.filter((move) => way(move) === name).length;
  const parts = [[number("up"), "up"], [number("down"), "down"], [number("new"), "new"], [number("gone"), "gone"]];
  const told = parts.filter(([some]) => some > 0).map(([some, name]) => `${some} ${name}`);
  if (!told.length) return `Your changes leave her first ${top} ${many("bundle")} where they were`;
  return `${told.join(", ")} among her first ${top}`;
}
