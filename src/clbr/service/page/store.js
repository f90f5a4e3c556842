// What the browser keeps for this page. Storage can be blocked: then it is known until the page is left.

function shelf(find) {
  const here = new Map();
  return {
    get(key) {
      try {
        return find().getItem(key) ?? here.get(key) ?? null;
      } catch { // blocked
        return here.get(key) ?? null;
      }
    },
    set(key, value) {
      here.set(key, value);
      try {
        find().setItem(key, value);
      } catch { // blocked, or full
      }
    },
  };
}

export const untilClosed = shelf(() => sessionStorage);
export const forGood = shelf(() => localStorage);
