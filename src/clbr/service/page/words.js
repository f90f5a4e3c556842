// What users, bundles and items are called here, and text that depends on it.

let words = { user: ["user", "users"], bundle: ["bundle", "bundles"], item: ["item", "items"] };

/** Sets singular and plural by kind. */
export function setWords(given) {
  words = given;
}

/** "book", or "books" for any number but one. */
export function word(kind, number = 1) {
  return words[kind][number === 1 ? 0 : 1];
}

export function plural(kind) {
  return words[kind][1];
}

export function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "a book", "an outfit", "a user". */
export function withArticle(kind) {
  return `${/^([aeio]|u(?!se|ni))/i.test(word(kind)) ? "an" : "a"} ${word(kind)}`;
}

/** "1 book", "1,204 books". */
export function count(number, kind) {
  return `${formatNumber(number)} ${word(kind, number)}`;
}

export function formatNumber(number) {
  return number.toLocaleString("en");
}

/** A node's name, or "Reader 17" for one without a name. */
export function label(kind, node) {
  return node.name || `${capitalize(word(kind))} ${node.id}`;
}

/** A segment of users in words: how many bundles they have chosen. */
export function segmentLabel(name) {
  const kind = plural("bundle");
  return { heavy: `many ${kind} chosen`, light: `a few ${kind} chosen`, cold: `no ${kind} chosen yet` }[name] ?? name;
}

export function isKind(kind) {
  return Object.hasOwn(words, kind);
}

/** A message of the service in these words: "a user has 3 items" becomes "a reader has 3 books". */
export function translate(text) {
  const kinds = /(?<![\w'“-])(?:(an?) )?(user|bundle|item)(s?)(?![\w-])/gi; // whole words only: an id may contain one
  return text.replace(kinds, (match, article, kind, ending) => {
    const found = article ? withArticle(kind.toLowerCase()) : word(kind.toLowerCase(), ending ? 2 : 1);
    return /^[A-Z]/.test(match) ? capitalize(found) : found;
  });
}
