// Values that the browser stores for this page. Where storage is blocked, they last until the page is left.

function storage(find) {
  const memory = new Map();
  return {
    get(key) {
      try {
        return find().getItem(key) ?? memory.get(key) ?? null;
      } catch { // blocked
        return memory.get(key) ?? null;
      }
    },
    set(key, value) {
      memory.set(key, value);
      try {
        find().setItem(key, value);
      } catch { // blocked, or full
      }
    },
  };
}

/** Until the browser tab is closed. */
export const tabStorage = storage(() => sessionStorage);
/** Without an end. */
export const permanentStorage = storage(() => localStorage);
