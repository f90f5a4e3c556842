// Asks for the token of a service that has one. It is kept until the browser tab is closed.

import { h } from "/page/dom.js";

const NEEDED = "Ask whoever runs the service for it. It is kept only until you close this browser tab.";
const REFUSED = "The service does not know the token that was given. Look for a missing letter, or ask again for it.";
const STRANGE = "A token is made of plain letters, digits and signs, without spaces. There is something else in this "
  + "one: curly quotes perhaps, or a letter with an accent. Copy it once more, from where it was given to you.";
const PLAIN = /^[\x21-\x7e]+$/; // nothing else can be sent

/** A promise of what was typed; `refused` says whether one was tried already. */
export function askToken(refused) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-why token-wrong",
    });
    const wrong = h("p", { id: "token-wrong", role: "alert" });
    const dialog = h("dialog.token", { "aria-labelledby": "token-title" },
      h("form", { onsubmit: (event) => { event.preventDefault(); given(); } },
        h("h2", { id: "token-title" }, "This service needs a token"),
        h("p", { id: "token-why" }, refused ? REFUSED : NEEDED),
        h("label", { for: "token" }, "Token"),
        input, wrong,
        h("button.primary", {}, "Go on")));
    function given() {
      const token = input.value.trim();
      wrong.textContent = token && !PLAIN.test(token) ? STRANGE : "";
      input.setAttribute("aria-invalid", String(!PLAIN.test(token)));
      if (!PLAIN.test(token)) return input.focus();
      dialog.remove();
      return resolve(token);
    }
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing can be shown without it
    document.body.append(dialog);
    dialog.showModal();
  });
}
