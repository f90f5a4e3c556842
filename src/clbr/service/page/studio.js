// The second tab: a bundle, what is in it, and who would have it in their lists were it different.

import { post } from "/page/api.js";
import { audience } from "/page/audience.js";
import { announce, h, put } from "/page/dom.js";
import { briefBar, cannotAsk, deskTab, subjectHead, trustNote, waysBack } from "/page/desk.js";
import { edited, editsOf, state } from "/page/state.js";
import { suggestions } from "/page/suggest.js";
import { thingGroup } from "/page/things.js";
import { toolbar } from "/page/toolbar.js";
import { attempt, busy } from "/page/trouble.js";
import { called, capital, count, inWords, many, word } from "/page/words.js";

/** Fills the panel; `show()` brings it up to date with the state. */
export function studioTab(panel, about) {
  const question = `Which ${word("bundle")} shall we work on?`;
  const make = (body, bundle, again) => bundleDesk(body, bundle, about, again);
  return deskTab(panel, { tab: "studio", kind: "bundle", question, make });
}

function bundleDesk(body, bundle, about, again) {
  const name = called("bundle", bundle);
  const bar = toolbar("studio");
  const contents = thingGroup({
    tab: "studio", kind: "item", title: `${capital(many("item"))} in it`, none: `There is no ${word("item")} in it.`,
    strike: "Remove", struck: "removed", editable: about.supports_whatif, swaps: true,
  });
  const picture = audience();
  const swaps = suggestions(bundle);
  const [trouble, warnings, note, brief] = [h("div"), h("div"), trustNote(), briefBar(picture.element)];
  put(body, subjectHead(name, bundle, `Chosen by ${count(bundle.chosen_by, "user")}`),
    about.supports_whatif ? bar.element : cannotAsk(about),
    h("div.columns", {},
      h("section.card", { "aria-label": "Contents" }, contents.element),
      about.supports_whatif && h("section.card.main", { "aria-label": "Audience" },
        trouble, warnings, picture.element, swaps.element)),
    brief.element, note.element);

  async function show(now, signal) {
    bar.show();
    await contents.show(bundle.items, signal);
    if (!about.supports_whatif) return;
    swaps.show();
    await attempt(trouble, async () => {
      const asked = { bundle: now.id, ...editsOf(now), top: state.top };
      const answer = await busy(picture.element, () => post("/api/whatif/bundle", asked, signal));
      put(trouble);
      put(warnings, answer.warnings.map((warning) => h("p.warning", {}, inWords(warning))));
      picture.show(answer, edited(now));
      note.show(answer.note);
      brief.show(edited(now) ? picture.words(answer) : null);
      if (edited(now)) announce(picture.words(answer));
    }, again, waysBack("studio", now));
  }
  return { title: name, show, leave: swaps.leave };
}
