// Names of nodes that are known by id only, as in a link: from earlier answers, or from the service.

import { get } from "/page/api.js";

const PARALLEL = 4; // requests: a link may have many ids, and other requests should not wait for them
const known = new Map();

const keyOf = (kind, id) => `${kind} ${id}`;

/** Caches a node. */
export function remember(kind, node) {
  known.set(keyOf(kind, node.id), node);
}

/** Nodes by their ids; one that the service does not know is {id, name: null, unknown: true}. */
export async function lookUp(kind, ids, signal) {
  const wanted = ids.filter((id) => !known.has(keyOf(kind, id)));
  const work = async () => {
    while (wanted.length) remember(kind, await request(kind, wanted.shift(), signal));
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return ids.map((id) => known.get(keyOf(kind, id)));
}

async function request(kind, id, signal) {
  try {
    return await get(`/${kind}`, { id }, signal);
  } catch (error) {
    if (error.kind !== "unknown" && error.kind !== "rejected") throw error;
    return { id, name: null, unknown: true };
  }
}
