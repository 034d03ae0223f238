"use strict";
// The theme button, and tables that sort and filter. The page is complete without any of it.

const redraw = new Event("redraw");

(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} theme`);
    document.dispatchEvent(redraw);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  matchMedia("print").addEventListener("change", () => document.dispatchEvent(redraw));
  addEventListener("beforeprint", () => {
    for (const closed of document.querySelectorAll("details:not([open])")) closed.open = true;
  });
  show();
})();

for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table");
  if (!table) continue;
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];

  const value = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return typeof a === "number" ? 1 : -1; // unknown figures are the smallest
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    if (!button.textContent) return;
    head.append(button);
    button.addEventListener("click", () => {
      // figures are wanted largest first, texts from A; the third click brings back the first order
      const ways = head.classList.contains("number") ? ["descending", "ascending"] : ["ascending", "descending"];
      const next = ways[ways.indexOf(head.getAttribute("aria-sort")) + 1];
      for (const other of heads) other.removeAttribute("aria-sort");
      const rows = [...original];
      if (next) {
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        rows.sort((a, b) => sign * compare(value(a, column), value(b, column)));
      }
      body.append(...rows);
    });
  });

  const filter = box.querySelector("input");
  if (!filter) continue;
  const count = box.querySelector("output");
  const texts = new Map(
    original.map((row) => [row, `${row.textContent} ${row.cells[0].title}`.toLowerCase()]),
  );
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of original) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length ? `${shown} of ${original.length}` : "";
  });
}
