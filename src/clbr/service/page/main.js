// The start of the page: asks the service what it serves, builds the tabs, and shows what the link says.

import { connect, get } from "/page/api.js";
import { bundleTab } from "/page/bundle_tab.js";
import { setAgreement } from "/page/certainty.js";
import { announce, button, fill, h } from "/page/dom.js";
import { draftsTab } from "/page/drafts_tab.js";
import { attempt } from "/page/errors.js";
import { modelTab } from "/page/model_tab.js";
import { onChange, openTab, readLink, state } from "/page/state.js";
import { themeButton } from "/page/theme.js";
import { askToken } from "/page/token.js";
import { redoStep, undoStep } from "/page/toolbar.js";
import { userTab } from "/page/user_tab.js";
import { capitalize, formatNumber, plural, setWords, word } from "/page/words.js";

const content = document.getElementById("content");
const notices = document.getElementById("notices");
const [startError, swapNotice, linkNotice] = [h("div"), h("div"), h("div")];
let artifact = null; // that answered last
let tabs = null;

themeButton(document.getElementById("theme"));
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
notices.append(startError, swapNotice, linkNotice);
connect({ askToken, onArtifact });
start();

function start() {
  fill(startError);
  return attempt(startError, async () => build(await get("/about")), start);
}

function build(about) {
  artifact ??= about.artifact;
  setWords(about.words);
  setAgreement(about.whatif_agreement);
  Object.assign(state, { maxK: about.limits.k, maxEdits: about.limits.edits });
  document.getElementById("data").textContent = about.data;
  const panel = () => h("div.panel");
  const panels = { users: panel(), bundles: panel(), drafts: panel(), model: panel() };
  const footer = document.getElementById("caveat");
  footer.textContent = about.caveat;
  content.append(...Object.values(panels));
  const bar = tabBar(document.getElementById("tabs"), [
    ["users", capitalize(plural("user")), panels.users],
    ["bundles", `${capitalize(word("bundle"))} studio`, panels.bundles],
    ["drafts", `New ${word("bundle")}`, panels.drafts],
    ["model", "Model", panels.model],
  ]);
  tabs = {
    users: userTab(panels.users, about),
    bundles: bundleTab(panels.bundles, about),
    drafts: draftsTab(panels.drafts, about),
    model: modelTab(panels.model, about),
  };
  onChange(async () => {
    bar.show();
    footer.hidden = state.tab === "model" && about.card.includes(about.caveat); // it is shown there already
    showOmitted();
    const { tab } = state;
    await tabs[tab].show();
    if (tab === state.tab) document.title = [tabs[tab].title(), about.data, "clbr"].filter(Boolean).join(" · ");
  });
  addEventListener("hashchange", () => readLink());
  addEventListener("keydown", handleShortcut);
  readLink();
}

/** Fills the ARIA tab list with [[name, words, panel]]; `show()` marks the open tab. Arrow keys, Home and End work. */
function tabBar(bar, parts) {
  const buttons = parts.map(([name, words, panel]) => {
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
    parts.forEach(([name, , panel], at) => {
      const open = name === state.tab;
      buttons[at].setAttribute("aria-selected", String(open));
      buttons[at].tabIndex = open ? 0 : -1;
      panel.hidden = !open;
    });
  }
  return { show };
}

/** Shows a notice when another artifact answers than the one that the page was built for. */
function onArtifact(answering) {
  if (artifact === null || answering === artifact) return;
  artifact = answering;
  fill(swapNotice, h("p.notice", {},
    "Another model answers now than when this page was opened; names and numbers may differ. ",
    button("button", () => location.reload(), {}, "Reload the page")));
}

/** Shows a notice when a link has more edits than one request may have. */
function showOmitted() {
  const { omitted, maxEdits } = state;
  const words = `This link has more changes than one request may have: at most ${formatNumber(maxEdits)} of each sort `
    + `are shown, ${formatNumber(omitted)} are left out.`;
  if (omitted && !linkNotice.childElementCount) announce(words);
  fill(linkNotice, omitted > 0 && h("p.notice", {}, words));
}

function handleShortcut(event) {
  const field = event.target.closest?.("input, select, textarea");
  const typing = field?.value && field.tagName === "INPUT"; // there the keys undo the typing
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !typing && state.tab !== "model") {
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) redoStep(state.tab);
    else undoStep(state.tab);
  } else if (event.key === "/" && !field && !event.ctrlKey && !event.metaKey && tabs[state.tab].search) {
    event.preventDefault();
    tabs[state.tab].search.focus();
  }
}
