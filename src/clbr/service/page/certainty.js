// How sure the effects of changes are: what was measured for this recommender, said beside each effect.

import { h } from "/page/dom.js";

let agreement = null;

/** Sets the measured agreement with retraining; null if it was not measured. */
export function setAgreement(measured) {
  agreement = measured;
}

/** A line below an effect. */
export function certainty() {
  const words = agreement === null
    ? "How sure: agreement with retraining was not measured."
    : `How sure: agreement with retraining ${agreement.toFixed(2)} (1: the same changes, 0: unrelated).`;
  return h("p.certainty", {}, words);
}
