(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colours = () => {
    const ink = dark.matches ? "#ececec" : "#1a1a1a", line = dark.matches ? "#45494e" : "#d0d0d0";
    const text = { labelColor: ink, titleColor: ink };
    return { background: "transparent", view: { stroke: line }, axis: { ...text, gridColor: line, gridOpacity: 0.5, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12 },
      legend: { ...text, orient: "bottom", columns: window.innerWidth < 600 ? 2 : 4, symbolLimit: 0, labelFontSize: 12 }, header: text, title: { color: ink }, text: { color: ink, fill: ink }, rule: { color: ink } };
  };
  const draw = async (name) => {
    const place = document.getElementById("fig-" + name);
    if (!place || place.closest("details:not([open])")) return;
    const spec = structuredClone(specs[name]);
    if (spec.facet && window.innerWidth < 760) spec.columns = window.innerWidth < 560 ? 1 : 2;
    spec.config = { ...spec.config, ...colours() };
    const drawn = document.createElement("div");
    drawn.className = "chart drawn";
    place.after(drawn);
    try {
      const view = await vegaEmbed(drawn, spec, { actions: false, renderer: "svg" });
      drawn.id = place.id; drawn.setAttribute("role", "figure"); drawn.setAttribute("aria-label", place.getAttribute("aria-label"));
      place.remove();
      return view;
    } catch (error) { drawn.remove(); }
  };
  const all = () => Object.keys(specs).forEach(draw);
  document.querySelectorAll("details").forEach((d) => d.addEventListener("toggle", () => {
    if (d.open) d.querySelectorAll("[id^=fig-]:not(.drawn)").forEach((f) => draw(f.id.slice(4)));
  }));
  document.querySelectorAll("button.copy").forEach((b) => b.addEventListener("click", async () => {
    await navigator.clipboard.writeText(b.parentElement.querySelector("code").textContent);
    b.textContent = "Copied";
  }));
  dark.addEventListener("change", all);
  all();
})();
