// What things are called, for a link with nothing but ids: known from what was shown before, or asked of the service.

import { get } from "/page/api.js";

const AT_ONCE = 4; // requests: a link may have many ids, and others want an answer, too
const known = new Map();

const key = (kind, id) => `${kind} ${id}`;

/** Keeps what a node is called. */
export function remember(kind, node) {
  known.set(key(kind, node.id), node);
}

/** Nodes by their ids; one that the service does not know is {id, name: null, unknown: true}. */
export async function nodesOf(kind, ids, signal) {
  const wanted = ids.filter((id) => !known.has(key(kind, id)));
  const work = async () => {
    while (wanted.length) remember(kind, await lookUp(kind, wanted.shift(), signal));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return ids.map((id) => known.get(key(kind, id)));
}

async function lookUp(kind, id, signal) {
  try {
    return await get(`/api/${kind}`, { id }, signal);
  } catch (error) {
    if (error.kind !== "unknown" && error.kind !== "refused") throw error;
    return { id, name: null, unknown: true };
  }
}
