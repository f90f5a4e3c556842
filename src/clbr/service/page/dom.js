// Elements of the page. Data becomes a text node or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("p.muted", {id: "why"}, "text", child). A property that is null or false is left out. */
export function h(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return build(document.createElement(tag), classes, properties, children);
}

/** The same for SVG. */
export function svg(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return build(document.createElementNS(SVG, tag), classes, properties, children);
}

function build(element, classes, properties, children) {
  if (classes.length) element.classList.add(...classes);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces all children. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(Boolean));
  return parent;
}

/**
 * Makes the children of a list match `entries`, in their order. An element whose key is still there is reused, so that
 * focus and open answers stay.
 */
export function updateList(list, entries, keyOf, make, update) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const wanted = entries.map((entry) => {
    const key = String(keyOf(entry));
    const element = old.get(key) ?? make(entry);
    element.dataset.key = key;
    update(element, entry);
    return element;
  });
  const reused = new Set(wanted);
  for (const child of [...list.children]) if (!reused.has(child)) child.remove();
  // An element that is moved loses focus, so the focused one stays and the others are moved around it.
  const focused = wanted.findIndex((element) => element.contains(document.activeElement));
  if (focused >= 0 && wanted[focused].parentElement === list) {
    wanted.slice(0, focused).forEach((element) => list.insertBefore(element, wanted[focused]));
    wanted.slice(focused + 1).forEach((element) => list.append(element));
  } else list.append(...wanted);
}

/** Marks an element as busy during the work; a style shows it only if the work takes a while. */
export async function busy(element, work) {
  const job = {};
  element.job = job;
  element.setAttribute("aria-busy", "true");
  try {
    return await work();
  } finally {
    if (element.job === job) element.removeAttribute("aria-busy"); // later work may still be running
  }
}

let announcements = [];
let timer;
/** Announces a text to screen readers; texts that follow each other closely are announced together. */
export function announce(text) {
  announcements.push(text.replace(/\.$/, ""));
  clearTimeout(timer);
  timer = setTimeout(() => {
    document.getElementById("announcer").textContent = `${announcements.join(". ")}.`;
    announcements = [];
  }, 300);
}

const PATHS = {
  remove: "M4 4l8 8M12 4l-8 8",
  restore: "M3.5 8a4.5 4.5 0 1 0 1.6-3.4M5.4 2v3h3",
  swap: "M3 5.5h9M9.5 3 12 5.5 9.5 8M13 10.5H4M6.5 8 4 10.5 6.5 13",
  undo: "M6 3 3 6l3 3M3 6h6.5a3.5 3.5 0 0 1 0 7H6",
  redo: "M10 3l3 3-3 3M13 6H6.5a3.5 3.5 0 0 0 0 7H10",
  link: "M7 9.5 9.5 7M6.5 5.5l1.7-1.7a2.8 2.8 0 0 1 4 4L10.5 9.5M9.5 10.5l-1.7 1.7a2.8 2.8 0 0 1-4-4L5.5 6.5",
  light: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6"
    + "M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1",
  dark: "M13 9.4A5.3 5.3 0 0 1 6.6 3a5.3 5.3 0 1 0 6.4 6.4z",
};

/** An icon, hidden from screen readers: the button around it has a label. */
export function icon(name) {
  return svg("svg.icon", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

/** A button; `name` may have classes, as in "button.primary". */
export function button(name, onclick, properties, ...children) {
  return h(name, { type: "button", onclick, ...properties }, ...children);
}

/** A button with an icon and a label for screen readers. */
export function iconButton(name, label, onclick) {
  return button("button.icon-button", onclick, { "aria-label": label, title: label }, icon(name));
}
