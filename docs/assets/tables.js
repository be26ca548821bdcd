"use strict";
// A table that is wider than the page is shown as one block of lines per row, so that nothing is cut.
const tables = [...document.querySelectorAll(".md-typeset table:not([class])")];
for (const table of tables) {
  const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, number) => { if (headings[number]) cell.dataset.label = headings[number]; });
  }
}
function fitTables() {
  for (const table of tables) {
    table.classList.remove("stacked");
    if (!table.classList.length) table.removeAttribute("class");
    const room = table.closest(".doc-contents, .md-content__inner").getBoundingClientRect(), own = table.getBoundingClientRect();
    if (Math.max(own.right, own.left + table.scrollWidth) > room.right + 1) table.classList.add("stacked");
  }
}
window.addEventListener("resize", fitTables);
window.addEventListener("load", fitTables); // the theme wraps tables before
