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

function quote(value) {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
