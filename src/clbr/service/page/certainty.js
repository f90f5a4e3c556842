// How sure the effects of changes are: what was measured for this recommender, said beside each effect.

import { h } from "/page/dom.js";

let agreement = {};

/** Sets the measured agreement with retraining, by kind of edits; empty if it was not measured. */
export function setAgreement(measured) {
  agreement = measured;
}

/** A line below an effect. */
export function certainty() {
  const measured = Object.entries(agreement)
    .map(([kind, one]) => `${one.corrected === null ? "not known" : one.corrected.toFixed(2)} for ${kind.replace("-", " ")}`);
  const words = measured.length === 0
    ? "How sure: agreement with retraining was not measured."
    : `How sure: agreement with retraining ${measured.join(", ")} (1: the same changes, 0: unrelated).`;
  return h("p.certainty", {}, words);
}
