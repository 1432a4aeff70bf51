"use strict";
// Without this script the page shows the same; with it, tables can be sorted and filtered, and the
// values of pictures can be read one by one.

const UNKNOWN = "-";
const FILTERED = 12; // rows from which on a table has a filter

function keyOf(row, column) {
  const cell = row.cells[column];
  if ("v" in cell.dataset) return Number(cell.dataset.v || cell.textContent);
  return cell.textContent === UNKNOWN ? null : cell.textContent;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(table, column, isAscending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
  const known = rows.filter(([key]) => key !== null);
  known.sort(([one], [other]) => (isAscending ? compare(one, other) : compare(other, one)));
  const unknown = rows.filter(([key]) => key === null); // always last
  body.append(...[...known, ...unknown].map(([, row]) => row));
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      const isAscending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
      sort(table, column, isAscending);
    });
    head.append(button);
  });
}

function makeFilterable(region, table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTERED) return;
  const line = document.createElement("p");
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("output");
  line.className = "filter";
  label.append("Filter rows", input);
  input.type = "search";
  input.setAttribute("aria-label", `Filter rows: ${table.caption.textContent}`);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  line.append(label, count);
  region.before(line);
}

function makeReadable(figure) {
  const svg = figure.querySelector("svg");
  const titles = [...svg.querySelectorAll("title")].filter((each) => each.parentNode !== svg);
  if (titles.length < 2) return;
  const line = document.createElement("p");
  const label = document.createElement("label");
  const input = document.createElement("input");
  const value = document.createElement("span");
  const show = (place) => {
    titles.forEach((each, other) => each.parentNode.classList.toggle("read", other === place));
    value.textContent = titles[place].textContent;
    input.value = place;
    input.setAttribute("aria-valuetext", value.textContent);
  };
  line.className = "reading";
  label.append("Read values", input);
  input.type = "range";
  input.min = input.value = 0;
  input.max = titles.length - 1;
  input.setAttribute("aria-label", `Read values: ${svg.querySelector("title").textContent}`);
  input.setAttribute("aria-valuetext", titles[0].textContent);
  for (const event of ["input", "focus"]) {
    input.addEventListener(event, () => show(Number(input.value)));
  }
  titles.forEach((each, place) => {
    each.parentNode.addEventListener("pointerenter", () => show(place));
  });
  line.append(label, value);
  svg.after(line);
}

document.querySelectorAll("figure").forEach(makeReadable);
for (const region of document.querySelectorAll(".table")) {
  const table = region.querySelector("table");
  if (table.tBodies[0].rows.length < 2) continue;
  makeSortable(table);
  makeFilterable(region, table);
}
