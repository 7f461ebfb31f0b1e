// SPDX-License-Identifier: Apache-2.0
// Call chains by what they own, what they grew by, what they allocated; threads; sizes.
const ROWS = 25, MORE = 200, LABEL = 40;  // a size takes so many pixels

const VIEWS = {
  owned: { title: "own at the instant", size: "bytes", when: () => true },
  grown: { title: "grown in the interval", size: "growth", when: () => state.other !== null },
  leaks: { title: "not freed at the end", size: "bytes", when: () => profile.exact.some((e) => e.kind === "end") },
  mapped: { title: "mapped by the program", size: "resident", when: () => profile.accounts.some((a) => a.bytes.some((v) => v > 0)) },
  allocated: { title: "allocated over the run", size: "bytes", when: () => profile.chains.node.length > 0 },
  temporary: { title: "temporary", size: "allocations freed by the next call", when: () => profile.chains.temporary.some((v) => v > 0) },
};

const tables = {
  view: "owned", shown: ROWS,

  rows() {
    const chains = profile.chains;
    const of = (values) => Array.from(chains.node, (node, i) => ({ node, size: values[i], more: `${whole.format(chains.allocations[i])} allocations` }));
    if (this.view === "mapped") {
      const { node, bytes, blocks } = accountAt(state.instant);
      return Array.from(node, (n, i) => ({ node: n, size: bytes[i], more: `${whole.format(blocks[i])} ${blocks[i] === 1 ? "mapping" : "mappings"}` }));
    }
    if (this.view === "allocated") return of(chains.allocated);
    if (this.view === "temporary") return Array.from(chains.node, (node, i) => ({
      node, size: chains.temporary[i], number: whole.format(chains.temporary[i]), more: `${Math.round(100 * chains.temporary[i] / Math.max(1, chains.allocations[i]))} % of its allocations`,
    }));
    const known = profile.exact.find((e) => (this.view === "leaks" ? e.kind === "end" : e.time === state.instant));
    if (this.view !== "grown" && known) {
      return Array.from(known.node, (node, i) => ({
        node, size: known.bytes[i], more: `${whole.format(known.blocks[i])} ${known.blocks[i] === 1 ? "block" : "blocks"}${known.error[i] >= 1 ? `, ± ${bytesText(known.error[i])}` : ""}`,
      }));
    }
    const own = owned(flame.sums), before = this.view === "grown" ? owned(composition(state.other)) : null;
    const found = [];
    for (let n = 1; n < count; n++) {
      const size = before ? own[n] - before[n] : own[n];
      if (size > 0) found.push({ node: n, size, more: before ? `${bytesText(before[n])} then, ${bytesText(own[n])} now` : "" });
    }
    return found;
  },

  draw() {
    if (!VIEWS[this.view].when()) this.view = "owned";
    const tabs = document.getElementById("tabs");
    tabs.replaceChildren(...Object.entries(VIEWS).filter(([, v]) => v.when()).map(([key, v]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.role = "tab";
      button.textContent = v.title;
      button.ariaSelected = String(key === this.view);
      button.dataset.view = key;
      button.addEventListener("click", () => { this.view = key; this.shown = ROWS; this.draw(); });
      return button;
    }));
    const all = this.rows().filter((r) => r.size > 0 && (!flame.hits || chainOf(r.node).some((n) => flame.hits.has(profile.frame[n]))));
    all.sort((a, b) => b.size - a.size);
    const sum = all.reduce((s, r) => s + r.size, 0), temporary = this.view === "temporary";
    const shown = all.slice(0, this.shown), parted = partings(shown.map((row) => telling(row.node)));
    const body = shown.map((row, index) => {
      const tr = document.createElement("tr"), size = tr.insertCell(), share = tr.insertCell(), cell = tr.insertCell();
      size.className = share.className = "number";
      size.textContent = row.number || bytesText(row.size);
      share.textContent = `${(100 * row.size / (sum || 1)).toFixed(1)} %`;
      const end = telling(row.node), details = document.createElement("details"), summary = document.createElement("summary");
      const name = document.createElement("b"), place = document.createElement("small");
      name.textContent = nameOf(end);
      place.textContent = ` ${placeOf(end)}${row.more ? ` · ${row.more}` : ""}`;
      summary.append(name, place);
      if (parted[index] !== null) {
        const caller = document.createElement("small");
        caller.className = "caller";
        caller.textContent = `< … < ${parted[index]}`;
        summary.append(caller);
      }
      details.append(summary);
      details.addEventListener("toggle", () => {
        if (details.childElementCount > 1) return;
        const list = document.createElement("ol");
        for (const node of chainOf(row.node)) {
          const item = document.createElement("li");
          item.textContent = `${profile.files[profile.frame[node]]} `;
          const where = document.createElement("small");
          where.textContent = placeOf(node);
          item.append(where);
          list.append(item);
        }
        details.append(list);
      });
      cell.append(details);
      return tr;
    });
    const table = document.getElementById("chains"), head = document.createElement("thead"), content = document.createElement("tbody");
    const heading = head.insertRow();
    for (const [text, number] of [[temporary ? "allocations" : VIEWS[this.view].size, true], ["share", true], ["allocated by (open for its callers)", false]]) {
      const th = document.createElement("th");
      th.textContent = text;
      if (number) th.className = "number";
      heading.append(th);
    }
    content.append(...body);
    if (all.length > this.shown) {
      const cell = content.insertRow().insertCell(), button = document.createElement("button");
      cell.colSpan = 3;
      const left = all.slice(this.shown).reduce((s, r) => s + r.size, 0);
      button.type = "button";
      button.textContent = `${whole.format(all.length - this.shown)} more, ${temporary ? whole.format(left) : bytesText(left)} together`;
      button.addEventListener("click", () => { this.shown += MORE; this.draw(); });
      cell.append(button);
    }
    table.replaceChildren(head, content);
  },

  threads() {
    const table = document.getElementById("threads"), head = document.createElement("thead"), body = document.createElement("tbody");
    const heading = head.insertRow();
    for (const text of ["thread", "peak", "own at the end", "allocated"]) {
      const th = document.createElement("th");
      th.textContent = text;
      if (text !== "thread") th.className = "number";
      heading.append(th);
    }
    for (const thread of profile.threads) {
      const tr = body.insertRow();
      tr.insertCell().textContent = `${thread.name || "thread"} ${thread.id}`;
      for (const size of [thread.peak, thread.live, thread.allocated]) {
        const cell = tr.insertCell();
        cell.className = "number";
        cell.textContent = bytesText(size);
      }
    }
    table.replaceChildren(head, body);
  },

  // Bins: below 4 one byte each, from there quarters of powers of two; drawn by power of two.
  sizes() {
    const byPower = new Map();
    for (const [bin, blocks] of profile.sizes) {
      const power = bin < 4 ? 2 : Math.floor(bin / 4) + 1;
      byPower.set(power, (byPower.get(power) || 0) + blocks);
    }
    const { pen, width, height } = prepared(document.getElementById("sizes"));
    if (!byPower.size) return;
    const powers = [...byPower.keys()], first = Math.min(...powers), last = Math.max(...powers), most = Math.max(...byPower.values());
    const step = (width - 10) / (last - first + 1), all = [...byPower.values()].reduce((a, b) => a + b, 0);
    pen.textAlign = "center";
    for (let power = first; power <= last; power++) {
      const blocks = byPower.get(power) || 0, tall = blocks / most * (height - 44), x = 5 + (power - first) * step;
      pen.fillStyle = css("--band-0");
      pen.fillRect(x + 1, height - 20 - tall, Math.max(1, step - 2), tall);
      pen.fillStyle = css("--soft");
      if ((power - first) % Math.ceil(LABEL / step) === 0) pen.fillText(bytesText(2 ** power).replace("iB", ""), x + step / 2, height - 8);
      if (blocks / all > 0.03 && step > 26) pen.fillText(`${Math.round(100 * blocks / all)} %`, x + step / 2, height - 26 - tall);
    }
  },
};
