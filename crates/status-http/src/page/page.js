// Keeps the page as the daemon is: sections come as HTML that the daemon has escaped.
"use strict";

const live = document.getElementById("live");

function show(state, text) {
  if (live.className !== state) {
    live.className = state;
    live.textContent = text;
  }
}

// How long ago, or until, in words; the moment itself is in the title.
function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

function tellTimes() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const text = seconds >= -1 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

const events = new EventSource("/events");
events.addEventListener("open", () => show("on", "live"));
events.addEventListener("error", () => show("off", "connection lost, trying again"));
events.addEventListener("sections", (event) => {
  for (const [id, html] of Object.entries(JSON.parse(event.data))) {
    const section = document.getElementById(id);
    if (section) section.innerHTML = html;
  }
  tellTimes();
});

tellTimes();
setInterval(() => { if (!document.hidden) tellTimes(); }, 1000);
