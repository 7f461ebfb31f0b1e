// SPDX-License-Identifier: Apache-2.0
// The page works without this script: it only makes figures answer, and adds search and copying.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  all(".needs-script").forEach((element) => { element.hidden = false; });

  all("button.copy").forEach((button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // A page opened from a file may have no clipboard: select the text instead.
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      button.textContent = "Selected";
    }
  }));

  const search = document.querySelector("[data-search]");
  search?.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/);
    const items = all("[data-list=runs] > li");
    items.forEach((item) => { item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word)); });
    document.querySelector("[data-found]").textContent = `${items.filter((item) => !item.hidden).length} of ${items.length}`;
  });

  // A link into a closed part opens it first.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target?.closest("details");
    if (part && !part.open) { part.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  reveal();

  const source = document.getElementById("data");
  if (!source || !window.vegaEmbed) return;
  const data = JSON.parse(source.textContent);
  const narrow = matchMedia("(max-width: 760px)");
  const choice = (name) => document.querySelector(`[data-choose=${name}]`)?.value ?? "";
  const kind = (treatment, highlight) => treatment === data.baseline ? "baseline" : treatment === highlight ? "highlighted" : "other";
  const directions = { lower: "lower is better", higher: "higher is better", neutral: "neither is better" };
  const named = (name) => data.metrics.find((metric) => metric.name === name);

  const rowsOf = {
    scatter: () => null, // its rows depend on the shape and come with the description
    forest: () => data.comparisons[choice("forest")].map(([p, t, ratio, low, high, verdict, label]) =>
      ({ program: data.programs[p], treatment: data.treatments[t], ratio, low, high, verdict, label })),
    trials: () => {
      const at = +choice("trials"), program = choice("program"), highlight = choice("highlight");
      const bytes = named(data.trialMetrics[at]).unit === "B";
      return data.trials
        .map(([label, p, t, control, round, place, block, began, values]) => ({
          label, program: data.programs[p], treatment: data.treatments[t], round, place, block, at: began,
          value: bytes && values[at] !== null ? values[at] / 2 ** 20 : values[at], shown: values[at] === null ? "" : bytes ? `${(values[at] / 2 ** 20).toPrecision(4)} MiB` : `${values[at]}`,
          kind: control ? "A/A control" : kind(data.treatments[t], highlight) }))
        .filter((row) => row.value !== null && (!program || row.program === program))
        .map((row) => ({ ...row, layer: row.kind === "other" ? 0 : 1 }))
        .sort((a, b) => a.layer - b.layer);
    },
    memory: () => {
      const program = choice("program"), highlight = choice("highlight");
      return data.curves.filter(([p]) => !program || data.programs[p] === program)
        .flatMap(([p, t, trial, points]) => points.map(([seconds, mib, mark = 0]) =>
          ({ program: data.programs[p], treatment: data.treatments[t], trial, seconds, mib, mark, kind: kind(data.treatments[t], highlight) })))
        .map((row) => ({ ...row, layer: row.kind === "other" ? 0 : 1 }))
        .sort((a, b) => a.layer - b.layer);
    },
  };
  const parts = {
    scatter: () => ({}),
    forest: () => {
      const { title, direction, low, high } = data.metrics[choice("forest")];
      return { x: narrow.matches ? `ratio (${directions[direction]})` : `${title}, ratio to the baseline (${directions[direction]})`, low, high };
    },
    trials: () => { const m = named(data.trialMetrics[+choice("trials")]); return { y: m.title + (m.unit === "1" ? "" : m.unit === "B" ? ", MiB" : `, ${m.unit}`) }; },
    memory: () => ({}),
  };

  const picked = (row) => {
    const place = document.getElementById("picked");
    if (!place || !row?.label) return;
    place.textContent = `Trial ${row.label}: ${row.program} under ${row.treatment}, ${row.shown}, block ${row.block}. `;
    const command = document.createElement("code");
    command.textContent = `heapyard show ${data.experiment} --trial ${row.label}`;
    place.append(command);
  };

  const draw = async (name) => {
    const figure = document.querySelector(`[data-figure=${name}]`);
    const shapes = data.specs[name];
    if (!figure || !shapes) return;
    let text = JSON.stringify(shapes[narrow.matches ? "narrow" : "wide"]);
    for (const [key, part] of Object.entries(parts[name]())) text = text.replaceAll(`"@${key}"`, JSON.stringify(part));
    const spec = JSON.parse(text), rows = rowsOf[name]();
    if (rows) spec.datasets = { rows };
    try {
      const { view } = await window.vegaEmbed(figure.querySelector(".live"), spec, { actions: false, renderer: "svg" });
      figure.classList.add("is-live"); // only now the fixed picture may go
      if (name === "trials") view.addEventListener("click", (_, item) => picked(item?.datum));
    } catch (error) {
      figure.classList.remove("is-live");
      console.error(error);
    }
  };

  const drawAll = () => Object.keys(data.specs).forEach(draw);
  document.addEventListener("change", ({ target }) => {
    const name = target.dataset?.choose;
    if (name === "forest") draw("forest");
    else if (name === "trials") draw("trials");
    else if (name) ["trials", "memory"].forEach(draw);
  });
  narrow.addEventListener("change", drawAll);
  drawAll();
})();
