// How sure the effects of changes are: what was measured for this recommender, said beside each effect.

import { h } from "/page/dom.js";

let agreement = {};

/** Sets the measured agreement with retraining, by kind of edits; empty if it was not measured. */
export function setAgreement(measured) {
  agreement = measured;
}

const KINDS = { user: ["items-added", "bundles-added"], bundle: ["swaps"] };

/** A line below an effect of editing a user, or a bundle. */
export function certainty(edited) {
  const measured = Object.entries(agreement)
    .filter(([kind]) => KINDS[edited].includes(kind))
    .map(([kind, one]) => `${figure(one)} for ${kind.replace("-", " ")}`);
  const words = measured.length === 0
    ? "How sure: agreement with retraining was not measured."
    : `How sure: agreement with retraining ${measured.join(", ")} (1: the same changes, 0: unrelated).`;
  return h("p.certainty", {}, words);
}

/** The corrected correlation with its interval. */
function figure({ corrected, low, high }) {
  if (corrected === null) return "not known";
  return low === null ? corrected.toFixed(2) : `${corrected.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
}
