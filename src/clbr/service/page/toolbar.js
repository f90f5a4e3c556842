// The toolbar of a tab: undo, redo, start over, copy the link, and the length of the list.

import { announce, button, fill, h, icon } from "/page/dom.js";
import { change, isEdited, redo, setK, state, undo, unedited } from "/page/state.js";

const LENGTHS = [5, 10, 20, 40, 50, 100];

/** `show()` updates it. */
export function toolbar(tab) {
  const tool = (name, words, hint, onclick) => button("button.muted", onclick, { title: hint }, icon(name), words);
  const back = tool("undo", "Undo", "Undo (Ctrl+Z)", () => undoStep(tab));
  const forward = tool("redo", "Redo", "Redo (Ctrl+Shift+Z)", () => redoStep(tab));
  const reset = tool("restore", "Start over", "Discard all changes", () => {
    change(tab, unedited(tab, state.subjects[tab].now.id));
    announce("All changes are discarded");
  });
  const link = tool("link", "Copy link", "A link to what is shown", copyLink);
  const lengths = h("select", { onchange: () => setK(Number(lengths.value)) });
  const element = h("div.toolbar", { role: "group", "aria-label": "Changes" },
    back, forward, reset, link, h("label.length", {}, "Show the first ", lengths));

  function show() {
    const { now, past, future } = state.subjects[tab];
    // Not `disabled`: a button that is used with the keyboard must not lose focus when there is no further step.
    setDisabled(back, past.length === 0);
    setDisabled(forward, future.length === 0);
    setDisabled(reset, !isEdited(now));
    const offered = new Set([...LENGTHS.filter((length) => length <= state.maxK), state.k]);
    const sorted = [...offered].sort((one, other) => one - other);
    fill(lengths, sorted.map((length) => h("option", { value: length }, String(length))));
    lengths.value = String(state.k);
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

function setDisabled(button, disabled) {
  button.setAttribute("aria-disabled", String(disabled));
}

export function undoStep(tab) {
  announce(undo(tab) ? "Undone" : "Nothing to undo");
}

export function redoStep(tab) {
  announce(redo(tab) ? "Redone" : "Nothing to redo");
}
