// Light or dark: as the system has it, until the button is used; then that is kept.

import { icon, put } from "/page/dom.js";
import { forGood } from "/page/store.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

apply();

function kept() {
  const theme = forGood.get("theme");
  return ["light", "dark"].includes(theme) ? theme : null;
}

function isDark() {
  return kept() ? kept() === "dark" : system.matches;
}

function apply() {
  if (kept()) root.dataset.theme = kept();
}

/** Makes the button that switches. */
export function themeButton(button) {
  const label = () => {
    const words = isDark() ? "Light" : "Dark";
    put(button, icon(words.toLowerCase()), words);
    button.setAttribute("aria-label", `Switch to ${words.toLowerCase()} colours`);
  };
  button.addEventListener("click", () => {
    forGood.set("theme", isDark() ? "light" : "dark");
    apply();
    label();
  });
  system.addEventListener("change", label);
  label();
}
