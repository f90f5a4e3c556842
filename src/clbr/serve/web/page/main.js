// Where the page begins: asks what is served, makes the tabs, and shows what the link says.

import { connect, get } from "/page/api.js";
import { button, h, put } from "/page/dom.js";
import { modelTab } from "/page/model.js";
import { readersTab } from "/page/readers.js";
import { listen, readLink, state } from "/page/state.js";
import { studioTab } from "/page/studio.js";
import { tabBar } from "/page/tabs.js";
import { themeButton } from "/page/theme.js";
import { askToken } from "/page/token.js";
import { goBack, goForth } from "/page/toolbar.js";
import { attempt } from "/page/trouble.js";
import { capital, many, setWords, word } from "/page/words.js";

const content = document.getElementById("content");
const notices = document.getElementById("notices");
let served = null;
let tabs = null;

themeButton(document.getElementById("theme"));
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
connect({ token: askToken, artefact: noticeArtefact });
start();

function start() {
  put(notices);
  return attempt(notices, async () => build(await get("/api/about")), start);
}

function build(about) {
  served ??= about.artefact;
  setWords(about.words);
  state.longest = about.limits.top;
  document.getElementById("data").textContent = about.data;
  const panel = () => h("div.panel");
  const panels = { readers: panel(), studio: panel(), model: panel() };
  content.append(...Object.values(panels));
  const bar = tabBar(document.getElementById("tabs"), [
    ["readers", capital(many("user")), panels.readers],
    ["studio", `${capital(word("bundle"))} studio`, panels.studio],
    ["model", "Model", panels.model],
  ]);
  tabs = {
    readers: readersTab(panels.readers, about),
    studio: studioTab(panels.studio, about),
    model: modelTab(panels.model, about),
  };
  listen(async () => {
    bar.show();
    const here = state.tab;
    await tabs[here].show();
    if (here === state.tab) document.title = [tabs[here].title(), about.data, "clbr"].filter(Boolean).join(" · ");
  });
  addEventListener("hashchange", () => readLink());
  addEventListener("keydown", shortcut);
  readLink();
}

/** Another artefact may take the place of the one that the page was built for. */
function noticeArtefact(artefact) {
  if (served === null || artefact === served) return;
  served = artefact;
  put(notices, h("p.notice", {},
    "Another model answers now than when this page was opened; names and figures may differ. ",
    button("button", () => location.reload(), {}, "Reload the page")));
}

function shortcut(event) {
  const typing = event.target.closest?.("input, select, textarea");
  const filled = typing?.value && typing.tagName === "INPUT"; // there the keys undo what was typed
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !filled && state.tab !== "model") {
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) goForth(state.tab);
    else goBack(state.tab);
  } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && tabs[state.tab].search) {
    event.preventDefault();
    tabs[state.tab].search.focus();
  }
}
