// SPDX-License-Identifier: Apache-2.0
// What is chosen, and who is told of it.
const state = { instant: 0, other: null };

// An instant, and for a difference an earlier one, else null.
function choose(instant, other) {
  state.instant = instant;
  state.other = other;
  const sums = composition(instant), before = other === null ? null : composition(other);
  const exact = profile.exact.find((e) => e.time === instant);
  const title = document.getElementById("flame-title");
  if (other === null) {
    const kind = exact ? (exact.kind === "peak" ? "at the peak, " : "at the end, ") : "";
    title.textContent = `Who owned it ${kind}after ${timeText(instant)}: ${bytesText(exact ? exact.total : sums[0])}`;
  } else {
    const change = sums[0] - before[0];
    title.textContent = `What changed from ${timeText(other)} to ${timeText(instant)}: ${change >= 0 ? "+" : ""}${bytesText(change)} (orange grew, blue shrank)`;
  }
  flame.show(sums, before);
  flame.search(document.getElementById("search").value);
  if (other !== null && tables.view === "owned") tables.view = "grown";
  if (other === null && tables.view === "grown") tables.view = "owned";
  tables.draw();
  timeline.paint();
}

document.getElementById("live").hidden = false;
{
  const peak = profile.exact.find((e) => e.kind === "peak"), end = profile.exact.find((e) => e.kind === "end");
  state.instant = peak ? peak.time : profile.seconds;
  const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);
  const resident = document.getElementById("resident");
  resident.checked = timeline.resident = most(profile.totals.rss) < 4 * most(profile.totals.live);  // else bands are flat
  resident.addEventListener("change", () => { timeline.resident = resident.checked; timeline.draw(); });
  timeline.regroup("function");
  timeline.listen();
  flame.listen();
  choose(state.instant, null);
  tables.threads();
  tables.sizes();
  document.getElementById("grouping").addEventListener("change", (event) => timeline.regroup(event.target.value));
  const toPeak = document.getElementById("to-peak"), toEnd = document.getElementById("to-end");
  toPeak.hidden = !peak;
  toEnd.hidden = !end;
  toPeak.addEventListener("click", () => choose(peak.time, null));
  toEnd.addEventListener("click", () => choose(end.time, null));
  let waiting = 0;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { flame.search(event.target.value); tables.draw(); }, 60);
  });
  const redraw = () => { timeline.draw(); flame.lay(); tables.sizes(); };
  new ResizeObserver(redraw).observe(document.body);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.documentElement.dataset.ready = "yes";
}
