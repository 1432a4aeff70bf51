"use strict";
const step = document.getElementById("step");
const left = document.getElementById("left");
const lines = document.getElementById("lines");
const head = document.querySelector("thead");
const body = document.querySelector("tbody");
const events = new EventSource("events");
let view = null; // the newest content
let ahead = 0; // s by which the clock of this computer is ahead of the server's
let failures = 0;

function put(element, text) {
  if (element.textContent !== text) element.textContent = text; // as text, whatever it contains
}

function resize(parent, count, name) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(document.createElement(name(parent.children.length)));
}

function duration(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

function countDown() {
  if (view === null || view.state !== "running" || view.ends === null) return put(left, "");
  const now = Date.now() / 1000 - ahead;
  const phase = `${view.phase}, ${duration(Math.max(0, view.phase_ends - now))}`;
  put(left, `${phase}; about ${duration(Math.max(0, view.ends - now))} left`);
}

function showTable() {
  resize(head, 1, () => "tr");
  resize(head.rows[0], view.head.length, () => "th");
  view.head.forEach((text, column) => {
    const cell = head.rows[0].cells[column];
    cell.scope = "col";
    cell.classList.toggle("n", view.numbers.includes(column));
    put(cell, text);
  });
  resize(body, view.rows.length, () => "tr");
  view.rows.forEach((texts, number) => {
    const row = body.rows[number];
    row.classList.toggle("active", view.active.includes(number));
    resize(row, texts.length, (column) => (column ? "td" : "th"));
    texts.forEach((text, column) => {
      const cell = row.cells[column];
      if (!column) cell.scope = "row";
      cell.classList.toggle("n", view.numbers.includes(column));
      cell.dataset.head = view.head[column];
      put(cell, text);
    });
  });
}

function show() {
  put(step, view.step);
  step.className = view.state;
  showTable();
  resize(lines, view.lines.length, () => "p");
  view.lines.forEach((text, number) => put(lines.children[number], text));
  countDown();
}

events.addEventListener("clock", (event) => {
  ahead = Date.now() / 1000 - Number(event.data);
});

events.onmessage = (event) => {
  failures = 0;
  view = JSON.parse(event.data);
  if (view.has_report) {
    events.close();
    location.replace("report");
    return;
  }
  show();
};

events.onerror = () => {
  failures += 1;
  if (events.readyState !== EventSource.CLOSED && failures < 5) return; // it connects again
  events.close();
  view = null;
  step.className = "broken";
  put(step, "The server of this page has ended, or too many pages are open.");
  countDown();
};

setInterval(countDown, 1000);
