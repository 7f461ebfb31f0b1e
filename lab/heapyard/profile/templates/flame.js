// SPDX-License-Identifier: Apache-2.0
// Flame graph of an instant, or of what changed between two: callers above, who allocated below.
const ROW = 18, NARROWEST = 0.6;

// At most so many characters; what tells siblings apart (namesApart) goes last.
function fitted(text, fits) {
  if (text.length <= fits) return text;
  const part = text.endsWith("›") ? text.slice(text.indexOf("‹")) : "";
  return part.length < fits ? `${text.slice(0, Math.max(part ? 0 : 1, fits - 1 - part.length))}…${part}` : `${text.slice(0, Math.max(1, fits - 1))}…`;
}

const flame = {
  canvas: document.getElementById("flame"), tip: document.getElementById("flame-tip"),
  root: 0, boxes: [], hits: null,

  // `sums`: what each node holds; `before`: the same earlier, for differences, or null.
  show(sums, before) {
    this.sums = sums;
    this.before = before;
    this.lay();
  },
  weight(node) { return this.before ? Math.max(this.sums[node], this.before[node]) : this.sums[node]; },

  lay() {
    const width = this.canvas.getBoundingClientRect().width || 800;
    this.boxes = [];
    let depth = 0;
    const path = chainOf(this.root).slice(1).reverse();
    if (this.root !== 0) path.unshift(0);
    path.forEach((node, level) => this.boxes.push({ node, x: 0, width, level, name: nameOf(node) }));
    const base = path.length, total = this.weight(this.root) || 1;
    const open = [[this.root, 0, base, nameOf(this.root)]];
    while (open.length) {
      const [node, x, level, name] = open.pop();
      const w = this.weight(node) / total * width;
      if (w < NARROWEST) continue;
      this.boxes.push({ node, x, width: w, level, name });
      depth = Math.max(depth, level);
      const below = Array.from(kids.subarray(firstKid[node], firstKid[node + 1])).filter((k) => this.weight(k) > 0);
      below.sort((a, b) => this.weight(b) - this.weight(a));
      // Children of a difference may outweigh their parent; then they share its width.
      const sum = below.reduce((s, k) => s + this.weight(k), 0), squeeze = sum > this.weight(node) ? this.weight(node) / sum : 1;
      const names = namesApart(below.map((kid) => profile.frame[kid]));
      let at = x;
      below.forEach((kid, index) => {
        open.push([kid, at, level + 1, names[index]]);
        at += this.weight(kid) / total * width * squeeze;
      });
    }
    this.canvas.style.height = `${(depth + 1) * ROW + 2}px`;
    this.draw();
  },

  color(node) {
    if (this.hits && this.hits.has(profile.frame[node])) return css("--hit");
    if (!this.before) return css(`--band-${node === 0 ? 5 : profile.frame[node] % 12}`);
    const change = this.sums[node] - this.before[node], share = Math.abs(change) / (this.weight(node) || 1);
    return share < 0.02 ? css("--rest") : css(change > 0 ? "--more" : "--less");
  },

  draw() {
    const { pen } = prepared(this.canvas);
    pen.textBaseline = "middle";
    const colors = new Map();
    for (const box of this.boxes) {
      const key = this.before ? `n${box.node}` : profile.frame[box.node];
      if (!colors.has(key)) colors.set(key, this.color(box.node));
      pen.fillStyle = colors.get(key);
      pen.globalAlpha = this.hits && !this.hits.has(profile.frame[box.node]) ? 0.45 : 1;
      pen.fillRect(box.x, box.level * ROW, Math.max(0.5, box.width - 0.7), ROW - 1);
      pen.globalAlpha = 1;
      if (box.width > 34) {
        const room = box.width - 6;
        let fits = Math.floor(room / 6.4), text = fitted(box.name, fits);
        while (text.endsWith("›") && fits > 1 && pen.measureText(text).width > room) text = fitted(box.name, --fits);
        pen.fillStyle = css(this.hits && !this.hits.has(profile.frame[box.node]) ? "--ink" : "--cell");
        pen.save();
        pen.beginPath();
        pen.rect(box.x, box.level * ROW, box.width - 3, ROW);
        pen.clip();
        pen.fillText(text, box.x + 3, box.level * ROW + ROW / 2);
        pen.restore();
      }
    }
  },

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = null;
    tables.shown = ROWS;
    let said = "";
    if (wanted) {
      this.hits = new Set();
      profile.names.forEach((name, index) => {
        if (index && (profile.files[index].toLowerCase().includes(wanted) || profile.places[index].toLowerCase().includes(wanted))) this.hits.add(index);
      });
      // The outermost hit of each chain counts, so that nothing counts twice.
      let sum = 0;
      const open = [0];
      while (open.length) {
        const node = open.pop();
        if (this.hits.has(profile.frame[node])) {
          sum += this.sums[node];
          continue;
        }
        for (let k = firstKid[node]; k < firstKid[node + 1]; k++) if (this.sums[kids[k]] > 0) open.push(kids[k]);
      }
      said = this.hits.size === 0 ? "Nothing matches." : `${whole.format(this.hits.size)} functions match; ${bytesText(sum)} of ${bytesText(this.sums[0])} passes through them.`;
    }
    if (this.hits && this.hits.size === 0) this.hits = null;
    document.getElementById("found").textContent = said;
    this.draw();
  },

  boxAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left, level = Math.floor((event.clientY - bounds.top) / ROW);
    return this.boxes.find((b) => b.level === level && x >= b.x && x < b.x + b.width);
  },
  zoom(node) {
    this.root = node;
    document.getElementById("unzoom").hidden = node === 0;
    this.lay();
  },
  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.boxAt(event), bounds = this.canvas.getBoundingClientRect();
      if (!box) { this.tip.hidden = true; return; }
      const size = this.sums[box.node], lines = [profile.files[profile.frame[box.node]] || "all", placeOf(box.node)];
      lines.push(this.before ? `${bytesText(this.before[box.node])} then, ${bytesText(size)} now` : `${bytesText(size)}, ${(100 * size / (this.sums[0] || 1)).toPrecision(3)} %`);
      placeTip(this.tip, event.clientX - bounds.left, event.clientY - bounds.top, bounds.width, lines.filter(Boolean));
    });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => {
      const box = this.boxAt(event);
      if (box) this.zoom(box.node);
    });
    this.canvas.addEventListener("keydown", (event) => { if (event.key === "Escape") this.zoom(0); });
    document.getElementById("unzoom").addEventListener("click", () => this.zoom(0));
  },
};
