// Tables that the browser saves as a file.

const TYPE = "text/csv;charset=utf-8";
const MARK = "\ufeff"; // spreadsheets read a file as UTF-8 only if it begins with this

/** Saves rows of values under these columns. */
export function download(filename, columns, rows) {
  const text = [columns, ...rows].map((row) => row.map(quote).join(",")).join("\r\n");
  const address = URL.createObjectURL(new Blob([MARK, text, "\r\n"], { type: TYPE }));
  Object.assign(document.createElement("a"), { href: address, download: filename }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A value as a cell. A text that a spreadsheet would compute as a formula gets an apostrophe before it. */
function quote(value) {
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = `${formula ? "'" : ""}${value ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
