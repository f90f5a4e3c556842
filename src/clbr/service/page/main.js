// Where the page begins: asks what is served, makes the tabs, and shows what the link says.

import { connect, get } from "/page/api.js";
import { announce, button, h, put } from "/page/dom.js";
import { modelTab } from "/page/model.js";
import { readersTab } from "/page/readers.js";
import { listen, readLink, state } from "/page/state.js";
import { studioTab } from "/page/studio.js";
import { tabBar } from "/page/tabs.js";
import { themeButton } from "/page/theme.js";
import { askToken } from "/page/token.js";
import { goBack, goForth } from "/page/toolbar.js";
import { attempt } from "/page/trouble.js";
import { capital, figure, many, setWords, word } from "/page/words.js";

const content = document.getElementById("content");
const notices = document.getElementById("notices");
const [trouble, swapped, cut] = [h("div"), h("div"), h("div")];
let served = null;
let tabs = null;

themeButton(document.getElementById("theme"));
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
notices.append(trouble, swapped, cut);
connect({ token: askToken, artifact: noticeArtifact });
start();

function start() {
  put(trouble);
  return attempt(trouble, async () => build(await get("/api/about")), start);
}

function build(about) {
  served ??= about.artifact;
  setWords(about.words);
  Object.assign(state, { longest: about.limits.top, most: about.limits.edits });
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
    tellLeftOut();
    const here = state.tab;
    await tabs[here].show();
    if (here === state.tab) document.title = [tabs[here].title(), about.data, "clbr"].filter(Boolean).join(" · ");
  });
  addEventListener("hashchange", () => readLink());
  addEventListener("keydown", shortcut);
  readLink();
}

/** Another artifact may take the place of the one that the page was built for. */
function noticeArtifact(artifact) {
  if (served === null || artifact === served) return;
  served = artifact;
  put(swapped, h("p.notice", {},
    "Another model answers now than when this page was opened; names and figures may differ. ",
    button("button", () => location.reload(), {}, "Reload the page")));
}

/** A link may have more changes than can be asked at once. */
function tellLeftOut() {
  const { leftOut, most } = state;
  const words = `This link has more changes than can be looked at together: at most ${figure(most)} of each sort are `
    + `here, ${figure(leftOut)} are left out.`;
  if (leftOut && !cut.childElementCount) announce(words);
  put(cut, leftOut > 0 && h("p.notice", {}, words));
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
