// What can be done with edits as a whole: undo, redo, start over, copy a link; and how long a list is looked at.

import { announce, button, h, icon, put } from "/page/dom.js";
import { blank, change, edited, redo, setTop, state, undo } from "/page/state.js";

const LENGTHS = [5, 10, 20, 40, 50, 100];

/** The bar of a tab; `show()` brings it up to date. */
export function toolbar(tab) {
  const tool = (name, words, hint, onclick) => button("button.quiet", onclick, { title: hint }, icon(name), words);
  const back = tool("undo", "Undo", "Undo (Ctrl+Z)", () => goBack(tab));
  const forth = tool("redo", "Redo", "Redo (Ctrl+Shift+Z)", () => goForth(tab));
  const over = tool("back", "Start over", "Take all changes back", () => {
    change(tab, blank(tab, state.desks[tab].now.id));
    announce("All changes are taken back");
  });
  const link = tool("link", "Copy link", "A link that shows just this", copyLink);
  const choice = h("select", { onchange: () => setTop(Number(choice.value)) });
  const element = h("div.toolbar", { role: "group", "aria-label": "Changes" },
    back, forth, over, link, h("label.length", {}, "Look at the first ", choice));

  function show() {
    const here = state.desks[tab];
    // Not `disabled`: a button that is used with the keyboard must not lose focus when there is no further step.
    setOff(back, here.past.length === 0);
    setOff(forth, here.future.length === 0);
    setOff(over, !edited(here.now));
    const lengths = new Set([...LENGTHS.filter((length) => length <= state.longest), state.top]);
    const inOrder = [...lengths].sort((one, other) => one - other);
    put(choice, inOrder.map((length) => h("option", { value: length }, String(length))));
    choice.value = String(state.top);
  }

  async function copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      link.lastChild.textContent = "Copied";
      setTimeout(() => { link.lastChild.textContent = "Copy link"; }, 1600);
      announce("The link is copied");
    } catch {
      announce("The browser does not allow copying: the link is in the address bar");
      link.lastChild.textContent = "It is in the address bar";
    }
  }
  return { element, show };
}

function setOff(button, off) {
  button.setAttribute("aria-disabled", String(off));
}

export function goBack(tab) {
  announce(undo(tab) ? "Undone" : "Nothing to undo");
}

export function goForth(tab) {
  announce(redo(tab) ? "Done again" : "Nothing to redo");
}
