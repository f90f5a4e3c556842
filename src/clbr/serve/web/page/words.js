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
  return node.name ?? `${capital(word(kind))} ${node.id}`;
}

/** How much is known of someone, in words. */
export function segment(name) {
  const kind = many("bundle");
  return { heavy: `many ${kind} chosen`, light: `a few ${kind} chosen`, cold: `no ${kind} chosen yet` }[name] ?? name;
}

/** "Ann, Ben and 3 more". */
export function series(names, most = 3) {
  if (names.length > most + 1) return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
