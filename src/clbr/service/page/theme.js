// Light or dark: the system's setting, until the button is used; then the choice is stored.

import { fill, icon } from "/page/dom.js";
import { permanentStorage } from "/page/storage.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

apply();

function stored() {
  const theme = permanentStorage.get("theme");
  return ["light", "dark"].includes(theme) ? theme : null;
}

function isDark() {
  return stored() ? stored() === "dark" : system.matches;
}

function apply() {
  if (stored()) root.dataset.theme = stored();
}

/** Sets up the button that switches. */
export function themeButton(button) {
  const update = () => {
    const words = isDark() ? "Light" : "Dark";
    fill(button, icon(words.toLowerCase()), words);
    button.setAttribute("aria-label", `Switch to ${words.toLowerCase()} colours`);
  };
  button.addEventListener("click", () => {
    permanentStorage.set("theme", isDark() ? "light" : "dark");
    apply();
    update();
  });
  system.addEventListener("change", update);
  update();
}
