// Tabs as screen readers know them: arrow keys go from one to the next, Home and End to the ends.

import { button } from "/page/dom.js";
import { openTab, state } from "/page/state.js";

/** Fills the bar with tabs of [[name, words, panel]]; `show()` marks the one that is open. */
export function tabBar(bar, tabs) {
  const buttons = tabs.map(([name, words, panel]) => {
    Object.assign(panel, { id: `panel-${name}` });
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    return button("button", () => openTab(name), { role: "tab", id: `tab-${name}`, "aria-controls": panel.id }, words);
  });
  bar.append(...buttons);
  bar.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = buttons.at(to % buttons.length);
    next.focus();
    next.click();
  });

  function show() {
    tabs.forEach(([name, , panel], at) => {
      const here = name === state.tab;
      buttons[at].setAttribute("aria-selected", String(here));
      buttons[at].tabIndex = here ? 0 : -1;
      panel.hidden = !here;
    });
  }
  return { show };
}
