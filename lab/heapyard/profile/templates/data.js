// SPDX-License-Identifier: Apache-2.0
// The profile's arrays, and what they say of an instant.
const raw = JSON.parse(document.getElementById("profile").textContent);

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const decoded = (e) => ({
  ...e, node: unpacked(e.node, Int32Array), bytes: unpacked(e.bytes, Float64Array), blocks: unpacked(e.blocks, Float64Array),
  error: unpacked(e.error, Float64Array),
});

const profile = {
  ...raw,
  parent: unpacked(raw.parent, Int32Array),
  frame: unpacked(raw.frame, Int32Array),
  starts: unpacked(raw.starts, Uint32Array),
  times: unpacked(raw.times, Float32Array),
  values: unpacked(raw.values, Float32Array),
  totals: Object.fromEntries(Object.entries(raw.totals).map(([k, v]) => [k, unpacked(v, Float64Array)])),
  chains: Object.fromEntries(Object.entries(raw.chains).map(([k, v]) => [k, unpacked(v, Float64Array)])),
  exact: raw.exact.map(decoded),
  accounts: raw.accounts.map(decoded),
  wrappers: new Set(raw.wrappers),
  scripts: new Set(raw.scripts),
};
const count = profile.parent.length;

// Children of each node, one after the other: node n's are kids[firstKid[n] .. firstKid[n + 1]).
const firstKid = new Int32Array(count + 1);
for (let n = 1; n < count; n++) firstKid[profile.parent[n] + 1]++;
for (let n = 0; n < count; n++) firstKid[n + 1] += firstKid[n];
const kids = new Int32Array(Math.max(0, count - 1));
{
  const place = firstKid.slice();
  for (let n = 1; n < count; n++) kids[place[profile.parent[n]]++] = n;
}

// Where chains end; only these own memory themselves. A trace that was cut off does not say: then any node may.
const ends = new Uint8Array(count).fill(profile.chains.node.length ? 0 : 1);
for (const node of profile.chains.node) ends[node] = 1;

// What a node holds at a time, by its last record; 0 before the first. O(log records).
function held(node, time) {
  let low = profile.starts[node], high = profile.starts[node + 1];
  const first = low;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (profile.times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low > first ? profile.values[low - 1] : 0;
}

// What every node holds at a time, from the exact composition where there is one. A parent never holds less than its children.
function composition(time) {
  const sums = new Float64Array(count);
  const known = profile.exact.find((e) => e.time === time);
  if (known) {
    for (let i = 0; i < known.node.length; i++) sums[known.node[i]] += known.bytes[i];
    for (let n = count - 1; n > 0; n--) sums[profile.parent[n]] += sums[n];
    return sums;
  }
  const below = new Float64Array(count);
  for (let n = count - 1; n >= 0; n--) {
    sums[n] = Math.max(held(n, time), below[n]);
    if (n > 0) below[profile.parent[n]] += sums[n];
  }
  return sums;
}

// The account of the resident memory that was made nearest to a time; undefined if there is none. O(accounts).
const accountAt = (time) => profile.accounts.reduce((a, b) => (a && Math.abs(a.time - time) <= Math.abs(b.time - time) ? a : b), undefined);

// What each node holds itself, beyond its children.
function owned(sums) {
  const own = sums.slice();
  for (let n = 1; n < count; n++) own[profile.parent[n]] -= sums[n];
  for (let n = 0; n < count; n++) if (!ends[n] || own[n] < 1e-6 * sums[n]) own[n] = 0;
  own[0] = 0;
  return own;
}

const nameOf = (node) => profile.names[profile.frame[node]];
const placeOf = (node) => profile.places[profile.frame[node]];

// From the node outwards: the innermost function of a script if any is named, else without malloc's wrappers.
function telling(node) {
  for (let at = node; profile.scripts.size > 0 && at > 0; at = profile.parent[at]) if (profile.scripts.has(profile.frame[at])) return at;
  let at = node;
  while (profile.wrappers.has(profile.frame[at]) && profile.parent[at] > 0) at = profile.parent[at];
  return at;
}
function chainOf(node) {
  const chain = [];
  for (let at = node; at > 0; at = profile.parent[at]) chain.push(at);
  return chain;
}

// What functions are called side by side: their names and, where several have one, the part in which they differ, or a place.
function namesApart(frames) {
  const names = frames.map((frame) => profile.names[frame]), alike = new Map();
  names.forEach((name, index) => (alike.has(name) ? alike.get(name).push(index) : alike.set(name, [index])));
  for (const [name, some] of alike) {
    if (some.length < 2) continue;
    const whole = some.map((index) => profile.files[frames[index]]);
    const parts = new Set(whole).size > 1 ? differing(whole) : some.map((index) => profile.places[frames[index]]);
    some.forEach((index, n) => { if (parts[n]) names[index] = `${name} ‹${parts[n]}›`; });
  }
  return names;
}

// The middle of each text without what all begin and end with, from word to word.
function differing(texts) {
  const [first] = texts, shortest = texts.reduce((least, t) => Math.min(least, t.length), first.length);
  const word = (char) => /\w/.test(char);
  let from = 0, to = 0;
  while (from < shortest && texts.every((t) => t[from] === first[from])) from++;
  while (from > 0 && word(first[from - 1])) from--;
  while (to < shortest - from && texts.every((t) => t.at(-1 - to) === first.at(-1 - to))) to++;
  while (to > 0 && word(first.at(-to))) to--;
  return texts.map((t) => t.slice(from, t.length - to));
}

// Of each chain from `inner` outwards the caller at which it parts from those that begin as it does, and what it is called;
// null where no other begins so. O(frames).
function partings(inner) {
  const chains = inner.map(chainOf), found = inner.map(() => null);
  const part = (group, depth) => {
    if (group.length < 2) return;
    const ways = new Map();
    for (const index of group) {
      const frame = depth < chains[index].length ? profile.frame[chains[index][depth]] : -1;
      if (!ways.has(frame)) ways.set(frame, []);
      ways.get(frame).push(index);
    }
    const names = new Set([...ways.keys()].map((frame) => profile.names[frame]));
    for (const [frame, some] of ways) {
      if (frame < 0) continue;
      const name = names.size < ways.size ? profile.files[frame] : profile.names[frame];
      if (depth > 0 && ways.size > 1) for (const index of some) found[index] = name;
      part(some, depth + 1);
    }
  };
  part(inner.map((_, index) => index), 0);
  return found;
}

function bytesText(size) {
  const sign = size < 0 ? "−" : "";
  let left = Math.abs(size);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (left < 999.5 || unit === "TiB") return `${sign}${unit === "B" ? Math.round(left) : left.toPrecision(3).replace(/\.?0+$/, (m) => (m.includes(".") ? "" : m))} ${unit}`;
    left /= 1024;
  }
}
function timeText(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 60) return `${seconds.toPrecision(3)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A canvas as large as it is shown, in device pixels; drawn in CSS pixels.
function prepared(canvas) {
  const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * scale));
  canvas.height = Math.max(1, Math.round(box.height * scale));
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width: box.width, height: box.height };
}

// Round numbers for an axis: at most `most` of them between 0 and `top`.
function ticks(top, most, base) {
  if (!(top > 0)) return [0];
  let step = Math.pow(base, Math.floor(Math.log(top) / Math.log(base)));
  for (const part of base === 10 ? [0.1, 0.2, 0.5, 1, 2, 5] : [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) {
    if (top / (step * part) <= most) { step *= part; break; }
  }
  const found = [];
  for (let at = 0; at <= top * 1.0001; at += step) found.push(at);
  return found;
}

// A tooltip beside the pointer, inside its chart.
function placeTip(tip, x, y, width, lines) {
  tip.replaceChildren(...lines.map((line, index) => {
    const element = document.createElement(index ? "div" : "strong");
    element.textContent = line;
    return element;
  }));
  tip.hidden = false;
  const own = tip.getBoundingClientRect().width;
  tip.style.left = `${x + 14 + own > width ? Math.max(0, x - 14 - own) : x + 14}px`;
  tip.style.top = `${y + 14}px`;
}
