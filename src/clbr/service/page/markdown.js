// Renders the Markdown of a model card: headings, paragraphs, lists, tables; **strong**, *em*, `code` and links.

import { h } from "/page/dom.js";

const INLINE = /\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;

/** The text as elements; its first heading is of `level`. */
export function markdown(text, level = 2) {
  return blocks(text.split(/\r?\n/)).map((lines) => block(lines, level));
}

/** Groups lines into blocks; a heading is a block of its own. */
function blocks(lines) {
  const found = [];
  let open = false;
  for (const line of lines) {
    const heading = /^#{1,6} /.test(line);
    if (!line.trim()) open = false;
    else if (open && !heading) found.at(-1).push(line);
    else {
      found.push([line]);
      open = !heading;
    }
  }
  return found;
}

function block(lines, level) {
  const [first] = lines;
  const heading = /^(#{1,6}) (.*)/.exec(first);
  if (heading) return h(`h${Math.min(6, heading[1].length + level - 1)}`, {}, inline(heading[2]));
  if (/^[-*] /.test(first)) return h("ul", {}, entries(lines, /^[-*] /));
  if (/^\d+\. /.test(first)) return h("ol", {}, entries(lines, /^\d+\. /));
  if (first.startsWith("|") && /^\|[\s:|-]+$/.test(lines[1] ?? "")) return table(lines);
  return h("p", {}, inline(lines.join(" ")));
}

/** The entries of a list; a line without a marker continues the entry before. */
function entries(lines, marker) {
  const found = [];
  for (const line of lines) {
    if (marker.test(line)) found.push(line.replace(marker, ""));
    else found[found.length - 1] += ` ${line.trim()}`;
  }
  return found.map((entry) => h("li", {}, inline(entry)));
}

function table(lines) {
  const cells = (line) => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => cell.trim());
  const head = cells(lines[0]).map((cell) => h("th", { scope: "col" }, inline(cell)));
  const rows = lines.slice(2).map((line) => {
    const [first, ...others] = cells(line).map(inline);
    return h("tr", {}, h("th", { scope: "row" }, first), others.map((cell) => h("td", {}, cell)));
  });
  // A wide table scrolls by itself, also with the keyboard, so that the page does not.
  return h("div.scroll", { tabindex: "0", role: "group", "aria-label": `Table: ${cells(lines[0]).join(", ")}` },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

function inline(text) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [matched, strong, em, code, words, address] = match;
    found.push(text.slice(end, match.index));
    if (strong) found.push(h("strong", {}, strong));
    else if (em) found.push(h("em", {}, em));
    else if (code) found.push(h("code", {}, code));
    else found.push(h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, words));
    end = match.index + matched.length;
  }
  return [...found, text.slice(end)].filter((part) => part !== "");
}
