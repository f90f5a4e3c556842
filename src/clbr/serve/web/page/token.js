// Asks for the token of a service that has one. It is kept until the browser tab is closed.

import { h } from "/page/dom.js";

const NEEDED = "Ask whoever runs the service for it. It is kept only until you close this browser tab.";
const REFUSED = "The service does not know the token that was given. Look for a missing letter, or ask again for it.";

/** A promise of what was typed; `refused` says whether one was tried already. */
export function askToken(refused) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-why",
    });
    const dialog = h("dialog.token", { "aria-labelledby": "token-title" },
      h("form", { onsubmit: (event) => { event.preventDefault(); given(); } },
        h("h2", { id: "token-title" }, "This service needs a token"),
        h("p", { id: "token-why" }, refused ? REFUSED : NEEDED),
        h("label", { for: "token" }, "Token"),
        input,
        h("button.primary", {}, "Go on")));
    function given() {
      if (!input.value.trim()) return;
      dialog.remove();
      resolve(input.value.trim());
    }
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing can be shown without it
    document.body.append(dialog);
    dialog.showModal();
  });
}
