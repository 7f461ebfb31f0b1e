// SPDX-License-Identifier: Apache-2.0
// Live bytes over time, stacked by who allocated them.
const BANDS = 12, FUNCTIONS = 3, LEFT = 62, BOTTOM = 22, TOP = 8;

// Nodes of a band: the ends of its chains. The largest bands over the run, judged at the peak, the end and 24 other instants.
function bandsBy(grouping) {
  const most = new Map();
  const instants = [...profile.exact.map((e) => e.time), ...Array.from({ length: 24 }, (_, i) => profile.seconds * (i + 0.5) / 24)];
  for (const time of instants) {
    const own = owned(composition(time)), sums = new Map();
    for (let n = 1; n < count; n++) {
      if (own[n] <= 0) continue;
      const end = telling(n), key = grouping === "function" ? profile.frame[end] : n;
      sums.set(key, (sums.get(key) || 0) + own[n]);
    }
    for (const [key, size] of sums) if (size > (most.get(key) || 0)) most.set(key, size);
  }
  const keys = [...most].sort((a, b) => b[1] - a[1]).slice(0, BANDS).map(([key]) => key);
  const nodes = new Map(keys.map((key) => [key, []]));
  for (let n = 1; n < count; n++) {
    if (!ends[n]) continue;
    const list = nodes.get(grouping === "function" ? profile.frame[telling(n)] : n);
    if (list) list.push(n);
  }
  const inner = keys.map((key) => telling(grouping === "function" ? nodes.get(key)[0] : key)), parted = partings(inner);
  return keys.map((key, index) => {
    const end = inner[index], name = parted[index] === null ? `${nameOf(end)} ${placeOf(end)}` : `… < ${parted[index]}`;
    return { nodes: nodes.get(key), color: `--band-${index}`, name, end };
  });
}

// Bands of all resident memory: what FUNCTIONS have mapped, the largest first, then the other parts. Steps from look to look.
function residentBands() {
  const { accounts } = profile, steps = new Map(), mapped = new Map();
  const put = (map, key, look, size) => {
    if (!map.has(key)) map.set(key, new Float64Array(accounts.length));
    map.get(key)[look] += size;
  };
  accounts.forEach((account, look) => {
    const { node, bytes, parts } = account;
    for (let i = 0; i < node.length; i++) put(mapped, profile.frame[telling(node[i])], look, bytes[i]);
    for (const [name, size] of Object.entries(parts)) put(steps, name, look, size);
  });
  const most = (values) => values.reduce((a, b) => Math.max(a, b), 0), sizes = ([, values]) => most(values);
  const functions = [...mapped].sort((a, b) => sizes(b) - sizes(a)), few = functions.slice(0, FUNCTIONS);
  const others = new Float64Array(accounts.length);
  for (const [, values] of functions.slice(FUNCTIONS)) values.forEach((size, look) => { others[look] += size; });
  const bands = [
    ...few.map(([frame, values]) => [`mapped by ${profile.names[frame]} ${profile.places[frame]}`, values]),
    ["mapped by others", others], ...[...steps].sort((a, b) => sizes(b) - sizes(a)),
  ].filter(([, values]) => most(values) > 0).slice(0, BANDS);
  return bands.map(([name, values], index) => ({ steps: values, color: `--band-${index}`, name, end: 0 }));
}

function stepSeries(values, times) {
  let look = 0;
  return times.map((time) => {
    while (look < values.length && profile.accounts[look].time <= time) look++;
    return look ? values[look - 1] : 0;
  });
}

// A band's bytes in each column: what its nodes hold less what their children hold. O(columns x nodes of the band).
function bandSeries(band, times) {
  const sums = new Float64Array(times.length);
  const add = (node, sign) => {
    let at = profile.starts[node];
    const end = profile.starts[node + 1];
    let value = 0;
    for (let c = 0; c < times.length; c++) {
      while (at < end && profile.times[at] <= times[c]) value = profile.values[at++];
      sums[c] += sign * value;
    }
  };
  for (const node of band.nodes) {
    if (profile.starts[node] === profile.starts[node + 1]) continue;
    add(node, 1);
    for (let k = firstKid[node]; k < firstKid[node + 1]; k++) {
      if (profile.starts[kids[k]] !== profile.starts[kids[k] + 1]) add(kids[k], -1);
    }
  }
  for (let c = 0; c < sums.length; c++) if (sums[c] < 0) sums[c] = 0;
  return sums;
}

const timeline = {
  canvas: document.getElementById("timeline"), tip: document.getElementById("tip"),
  from: 0, to: profile.seconds || 1, bands: [], grouping: "function",
  resident: true,  // is shown, and the axis reaches as far

  ofResident() { return this.grouping === "resident"; },

  // Totals by column: last value, least, most, resident.
  totalsOver(times) {
    const { time, live, low, high, rss } = profile.totals;
    const rows = { live: new Float64Array(times.length), low: new Float64Array(times.length), high: new Float64Array(times.length), rss: new Float64Array(times.length) };
    let at = 0;
    for (let c = 0; c < times.length; c++) {
      let least = at ? live[at - 1] : 0, most = least;
      while (at < time.length && time[at] <= times[c]) {
        least = Math.min(least, low[at]);
        most = Math.max(most, high[at]);
        at++;
      }
      rows.live[c] = at ? live[at - 1] : 0;
      rows.rss[c] = at ? rss[at - 1] : 0;
      rows.low[c] = Math.min(least, rows.live[c]);
      rows.high[c] = Math.max(most, rows.live[c]);
    }
    return rows;
  },

  prepare() {
    const { pen, width, height } = prepared(this.canvas);
    this.width = width;
    this.height = height;
    this.pen = pen;
    const columns = Math.max(50, Math.floor(width - LEFT));
    this.times = Float64Array.from({ length: columns }, (_, c) => this.from + (this.to - this.from) * (c + 1) / columns);
    this.totals = this.totalsOver(this.times);
    for (const e of profile.exact) {
      const c = this.column(e.time);
      if (c >= 0 && c < columns && e.kind === "peak") this.totals.high[c] = Math.max(this.totals.high[c], e.total);
    }
    this.series = this.bands.map((band) => (band.steps ? stepSeries(band.steps, this.times) : bandSeries(band, this.times)));
    this.whole = this.ofResident() ? this.totals.rss : this.totals.live;
    this.top = Math.max(1, ...this.totals.high, ...(this.resident || this.ofResident() ? this.totals.rss : [])) * 1.05;
  },
  column(time) { return Math.min(this.times.length - 1, Math.ceil((time - this.from) / (this.to - this.from) * this.times.length) - 1); },
  timeAt(x) { return Math.min(this.to, Math.max(this.from, this.from + (x - LEFT) / (this.width - LEFT) * (this.to - this.from))); },
  x(time) { return LEFT + (time - this.from) / (this.to - this.from) * (this.width - LEFT); },
  y(size) { return TOP + (this.height - TOP - BOTTOM) * (1 - size / this.top); },

  draw() {
    this.prepare();
    this.paint();
  },
  paint() {
    const { pen, width, height, times } = this;
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const tick of ticks(this.top, 6, 2)) {
      pen.fillStyle = css("--grid");
      pen.fillRect(LEFT, Math.round(this.y(tick)), width - LEFT, 1);
      pen.fillStyle = css("--soft");
      pen.fillText(bytesText(tick), LEFT - 6, this.y(tick));
    }
    const under = new Float64Array(times.length);
    const fill = (upper, color) => {
      pen.fillStyle = css(color);
      pen.beginPath();
      pen.moveTo(LEFT, this.y(under[0]));
      for (let c = 0; c < times.length; c++) pen.lineTo(LEFT + c + 0.5, this.y(upper[c]));
      for (let c = times.length - 1; c >= 0; c--) pen.lineTo(LEFT + c + 0.5, this.y(under[c]));
      pen.fill();
    };
    this.series.forEach((series, index) => {
      // Bands never reach above the whole: records of the parts may be older than those of the whole.
      const upper = under.map((u, c) => Math.min(u + series[c], Math.max(u, this.whole[c])));
      fill(upper, this.bands[index].color);
      under.set(upper);
    });
    const all = this.whole.map((v, c) => Math.max(v, under[c]));
    fill(all, "--rest");
    pen.strokeStyle = css("--ink");
    pen.lineWidth = 1;
    pen.beginPath();
    for (let c = 0; !this.ofResident() && c < times.length; c++) {
      pen.moveTo(LEFT + c + 0.5, this.y(this.totals.low[c]));
      pen.lineTo(LEFT + c + 0.5, this.y(this.totals.high[c]) - 0.5);
    }
    pen.stroke();
    pen.strokeStyle = css("--soft");
    pen.setLineDash([4, 3]);
    pen.beginPath();
    const dashed = this.ofResident() ? this.totals.live : this.totals.rss;
    for (let c = 0; this.resident && c < times.length; c++) pen.lineTo(LEFT + c + 0.5, this.y(dashed[c]));
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = css("--soft");
    pen.textAlign = "center";
    for (const tick of ticks(this.to - this.from, Math.max(2, Math.floor(width / 110)), 10)) {
      const at = this.x(this.from + tick);
      pen.textAlign = at < LEFT + 20 ? "left" : at > width - 30 ? "right" : "center";
      pen.fillText(timeText(this.from + tick), at, height - BOTTOM / 2 + 2);
    }
    for (const mark of profile.marks) {
      if (mark.time < this.from || mark.time > this.to) continue;
      pen.fillStyle = css("--hit");
      pen.fillRect(this.x(mark.time), TOP, 1, height - TOP - BOTTOM);
    }
    const { instant, other } = state;
    pen.fillStyle = css("--ink");
    if (other !== null) {
      pen.globalAlpha = 0.15;
      pen.fillRect(this.x(Math.min(instant, other)), TOP, Math.abs(this.x(instant) - this.x(other)), height - TOP - BOTTOM);
      pen.globalAlpha = 1;
    }
    for (const time of other === null ? [instant] : [instant, other]) {
      if (time >= this.from && time <= this.to) pen.fillRect(this.x(time) - 0.75, TOP, 1.5, height - TOP - BOTTOM);
    }
  },
  legend() {
    const list = document.getElementById("legend");
    const item = (color, name, title) => {
      const li = document.createElement("li"), swatch = document.createElement("span"), text = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = `var(${color})`;
      text.className = "name";
      text.textContent = name;
      li.title = title;
      li.append(swatch, text);
      return li;
    };
    list.replaceChildren(
      ...this.bands.map((b) => item(b.color, b.name, chainOf(b.end).slice(0, 12).map(nameOf).join("\n< "))),
      this.ofResident() ? item("--rest", "what has come since the last look", "The collector looks closely when the memory has grown by a twentieth.")
        : item("--rest", "all other, and what is below the recording's floor", `Call chains that never held more than ${bytesText(profile.floor)} are not recorded one by one.`),
    );
    document.getElementById("bands").textContent = this.ofResident()
      ? "Resident bytes of each part over time. The dashed line is live blocks." : "Bytes a band owned over time. The dashed line is resident memory.";
    document.getElementById("dashed").textContent = this.ofResident() ? "live blocks" : "resident memory";
  },
  regroup(grouping) {
    this.grouping = grouping;
    this.bands = this.ofResident() ? residentBands() : bandsBy(grouping);
    this.legend();
    this.draw();
  },
  listen() {
    let pressed = null;
    const at = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
    this.canvas.addEventListener("pointerdown", (event) => {
      pressed = this.timeAt(at(event));
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const x = at(event), c = this.column(this.timeAt(x));
      const rows = this.bands.map((b, i) => [b, this.series[i][c]]).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).slice(0, 6);
      placeTip(this.tip, x, event.clientY - this.canvas.getBoundingClientRect().top, this.width, [
        `${timeText(this.timeAt(x))}: ${bytesText(this.totals.live[c])} live, ${bytesText(this.totals.rss[c])} resident`,
        ...rows.map(([b, v]) => `${bytesText(v)} ${b.name}`),
      ]);
      if (pressed !== null && Math.abs(this.x(pressed) - x) > 4) {
        state.other = pressed;
        state.instant = this.timeAt(x);
        this.paint();
      }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (pressed === null) return;
      const time = this.timeAt(at(event));
      if (Math.abs(this.x(pressed) - at(event)) > 4) choose(Math.max(pressed, time), Math.min(pressed, time));
      else choose(time, null);
      pressed = null;
    });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / 200 * (event.shiftKey ? 10 : 1);
      if (event.key === "ArrowLeft") choose(Math.max(this.from, state.instant - step), null);
      else if (event.key === "ArrowRight") choose(Math.min(this.to, state.instant + step), null);
      else return;
      event.preventDefault();
    });
  },
};
