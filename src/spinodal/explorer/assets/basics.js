/* What the other scripts use: numbers as people write them, tables, what is under way, copying. */
(function () {
  "use strict";

  function shown(text) {
    const value = Number(text);
    if (text === "inf") return "∞";
    if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4)) return String(value);
    const [m, e] = value.toExponential().split("e");
    const power = String(Number(e)).split("").map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return m === "1" ? "10" + power : m + "·10" + power;
  }

  /* A number as people write it, and as the page shows it: 1e-4, 10⁻⁴, 2·10⁻⁴, 0,5, inf, ∞. NaN if it is none. */
  function parsed(text) {
    const flat = text.trim().replace("−", "-").replace(",", ".").replace(/[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+/, (all) => "^" + [...all].map((c) => (c === "⁻" ? "-" : "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c))).join(""));
    if (/^(inf|infinity|∞)$/i.test(flat)) return Infinity;
    const power = flat.match(/^(?:([\d.]+)\s*[·*x]\s*)?10\^(-?\d+)$/);
    return power ? Number((power[1] || "1") + "e" + power[2]) : flat === "" ? NaN : Number(flat);
  }

  function valued(word) { return word === "inf" ? Infinity : Number(word); }

  /* The numbers of a figure as a table, for those who do not see it: some points of every line. Made when it is opened. */
  const ROWS = 12; // of each line
  function tabulate(name) {
    const room = document.getElementById(name + "-numbers");
    const graph = document.querySelector("#" + name + " .js-plotly-plot");
    if (!room || !room.parentElement.open || !graph || !graph.layout) return;
    const title = (side) => ((graph.layout[side] || {}).title || {}).text || "";
    const head = ["line", title("xaxis"), title("yaxis")];
    const rows = [];
    for (const trace of graph.data) {
      if (trace.fill || !trace.x) continue; // a region is between its lines
      const kept = [...trace.x.keys()].filter((k) => trace.x[k] !== null && trace.y[k] !== null);
      const step = Math.max(1, Math.ceil(kept.length / ROWS));
      for (const k of kept.filter((_, place) => place % step === 0 || place === kept.length - 1))
        rows.push([plain(trace.name || name), short(trace.x[k]), short(trace.y[k])]);
    }
    room.replaceChildren(rows.length ? table(head.map(plain), rows, plain((graph.layout.title || {}).text || name)) : paragraph("Nothing is drawn yet."));
  }
  function plain(text) { return String(text).replace(/<[^>]*>/g, ""); }
  function short(value) {
    const size = Math.abs(Number(value));
    return size && size < 1e-3 ? Number(value).toExponential(2) : String(Number(Number(value).toPrecision(4)));
  }
  function paragraph(text) { return Object.assign(document.createElement("p"), { textContent: text }); }
  function table(head, rows, caption) {
    const cell = (kind, text, more) => Object.assign(document.createElement(kind), { textContent: text }, more);
    const made = document.createElement("table");
    if (caption) made.createCaption().textContent = caption;
    const first = made.createTHead().insertRow();
    for (const name of head) first.appendChild(cell("th", name, { scope: "col" }));
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((text, k) => line.appendChild(k ? cell("td", text) : cell("th", text, { scope: "row" })));
    }
    return made;
  }
  document.addEventListener("toggle", (event) => {
    const room = event.target.querySelector && event.target.querySelector("[id$=-numbers]");
    if (room) tabulate(room.id.replace("-numbers", ""));
  }, true);

  /* What is under way: said when it takes longer than a moment, and taken back when all is there. */
  const PATIENCE = 200; // milliseconds of waiting after which the page says that it computes
  let pending = 0;
  let clock = null;
  function begun() {
    pending += 1;
    clock = clock || window.setTimeout(() => busy(true), PATIENCE);
  }
  function ended() {
    pending -= 1;
    if (pending) return;
    window.clearTimeout(clock);
    clock = null;
    busy(false);
  }
  function busy(is) {
    const room = document.getElementById("busy");
    if (!room) return;
    room.hidden = !is;
    room.textContent = is ? "Computing…" : "";
    document.getElementById("figures").setAttribute("aria-busy", String(is));
  }

  /* Copies what a button says it copies, also where the browser has no clipboard for pages like this one. */
  document.addEventListener("click", function (event) {
    const from = event.target.dataset && event.target.dataset.copies;
    if (!from) return;
    const text = from === "address" ? window.location.href : document.getElementById(from).textContent;
    const button = event.target;
    button.dataset.label = button.dataset.label || button.textContent;
    const said = (word) => {
      button.textContent = word;
      window.setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
    };
    const by_hand = function () {
      const room = Object.assign(document.createElement("textarea"), { value: text });
      document.body.appendChild(room);
      room.select();
      const done = document.execCommand("copy");
      room.remove();
      button.focus();
      said(done ? "Copied" : "Select it and copy");
    };
    if (window.navigator.clipboard) window.navigator.clipboard.writeText(text).then(() => said("Copied"), by_hand);
    else by_hand();
  });

  window.spinodal = { shown, parsed, valued, short, table, paragraph, tabulate, begun, ended };
})();
