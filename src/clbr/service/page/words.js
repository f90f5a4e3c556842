// What users, bundles and items are called here, and the sentences that hang on it.

let words = { user: ["user", "users"], bundle: ["bundle", "bundles"], item: ["item", "items"] };

export function setWords(told) {
  words = told;
}

/** "book", or "books" where there is any other number than one. */
export function word(kind, count = 1) {
  return words[kind][count === 1 ? 0 : 1];
}

export function many(kind) {
  return words[kind][1];
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "a book", "an outfit", "a user". */
export function one(kind) {
  return `${/^([aeio]|u(?!se|ni))/i.test(word(kind)) ? "an" : "a"} ${word(kind)}`;
}

/** "1 book", "1,204 books". */
export function count(number, kind) {
  return `${figure(number)} ${word(kind, number)}`;
}

export function figure(number) {
  return number.toLocaleString("en");
}

/** Her name, or "Reader 17" where there is none. */
export function called(kind, node) {
  return node.name || `${capital(word(kind))} ${node.id}`;
}

/** How much is known of someone, in words. */
export function segment(name) {
  const kind = many("bundle");
  return { heavy: `many ${kind} chosen`, light: `a few ${kind} chosen`, cold: `no ${kind} chosen yet` }[name] ?? name;
}

export function isKind(kind) {
  return Object.hasOwn(words, kind);
}

/** What the service says, in the words of the house: "a user has 3 items" becomes "a reader has 3 books". */
export function inWords(text) {
  const plain = /(?<![\w'“-])(?:(an?) )?(user|bundle|item)(s?)(?![\w-])/gi; // as a word; an id may hold one, too
  return text.replace(plain, (found, article, kind, plural) => {
    const said = article ? one(kind.toLowerCase()) : word(kind.toLowerCase(), plural ? 2 : 1);
    return /^[A-Z]/.test(found) ? capital(said) : said;
  });
}
