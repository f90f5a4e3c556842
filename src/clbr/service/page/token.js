// The dialog that asks for the service's token.

import { h } from "/page/dom.js";

const NEEDED = "Ask whoever runs the service for it. It is stored only until you close this browser tab.";
const WRONG = "The service does not accept this token. Check it for a missing letter, or ask for it again.";
const INVALID = "A token has plain letters, digits and signs, without spaces. This one contains something else: curly "
  + "quotes perhaps, or a letter with an accent. Copy it again from where you got it.";
const PLAIN = /^[\x21-\x7e]+$/; // a header can contain nothing else

/** Promises the typed token; `rejected` says whether the service has rejected one already. */
export function askToken(rejected) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-why token-wrong",
    });
    const wrong = h("p", { id: "token-wrong", role: "alert" });
    const dialog = h("dialog.token", { "aria-labelledby": "token-title" },
      h("form", { onsubmit: (event) => { event.preventDefault(); submit(); } },
        h("h2", { id: "token-title" }, "This service needs a token"),
        h("p", { id: "token-why" }, rejected ? WRONG : NEEDED),
        h("label", { for: "token" }, "Token"),
        input, wrong,
        h("button.primary", {}, "Continue")));
    function submit() {
      const token = input.value.trim();
      wrong.textContent = token && !PLAIN.test(token) ? INVALID : "";
      input.setAttribute("aria-invalid", String(!PLAIN.test(token)));
      if (!PLAIN.test(token)) return input.focus();
      dialog.remove();
      return resolve(token);
    }
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing can be shown without a token
    document.body.append(dialog);
    dialog.showModal();
  });
}
