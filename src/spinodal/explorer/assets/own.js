/* The reader's own file: sent, looked at, solved, and shown. The server reads and computes; this shows what it says, as text. */
(function () {
  "use strict";
  const { go, table, paragraph, PAINT, repaint, painted, empty } = window.spinodal;
  const POLL = 300; // milliseconds between two looks at work under way
  const KEPT = "spinodal-own";
  const READING = ["own-transpose", "own-header", "own-comma", "own-na"];
  let limits = null; // what the server says once
  let file = null; // as the server knows it
  let read = null; // what it found in it
  let readBy = null; // the work that found it
  let job = null; // under way, or the last one
  let asked = null; // the promise of it: it can be cancelled before the server has said what it calls it

  const at = (id) => document.getElementById(id);
  const say = (id, text) => { at(id).textContent = text; };
  const show = (id, is) => { at(id).hidden = !is; };

  function put(path, body) {
    return window.fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then(answered);
  }
  function answered(answer) {
    return answer.ok ? answer.json() : answer.text().then((text) => Promise.reject(new Error(text)));
  }
  function refuse(error) {
    working(false);
    say("own-progress", "");
    say("own-message", error instanceof TypeError ? "The server does not answer." : error.message);
  }
  function working(is) {
    at("own-solve").disabled = is || !read;
    at("own-cancel").disabled = !is;
    at("own").setAttribute("aria-busy", String(is));
    at("own-progress").classList.toggle("busy", is);
  }

  /* Put the browser's inputs where the page has room for them. */
  window.spinodal.furnish = function (constants) {
    limits = constants.own;
    for (const room of document.querySelectorAll("[data-input]")) {
      if (room.firstChild) continue;
      const { input, id, ...more } = room.dataset;
      const made = Object.assign(document.createElement("input"), { type: input, id, autocomplete: "off" });
      for (const name of Object.keys(more)) made.setAttribute(name, more[name]);
      if (at(id + "-tip")) made.setAttribute("aria-describedby", id + "-tip");
      room.appendChild(made);
    }
    repaint("own-course");
    working(false);
    restore();
  };

  function choose(chosen) {
    if (!chosen || !limits) return;
    say("own-message", "");
    show("own-read", false);
    show("own-found", false);
    read = job = asked = null;
    if (chosen.size > limits.most) return refuse(new Error(limits.too_long));
    if (!limits.kinds.some((kind) => chosen.name.toLowerCase().endsWith(kind)))
      return refuse(new Error("The file must end in one of " + limits.kinds.join(", ") + ", but " + JSON.stringify(chosen.name.slice(-60)) + " was given."));
    if (!chosen.size) return refuse(new Error("The file must have something in it, but " + JSON.stringify(chosen.name.slice(-60)) + " is empty."));
    working(true);
    say("own-progress", "Sending…");
    window
      .fetch(limits.upload + "?name=" + encodeURIComponent(chosen.name.toWellFormed ? chosen.name.toWellFormed() : chosen.name), { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: chosen })
      .then(answered)
      .then((told) => { file = told; look(); })
      .catch(refuse);
  }

  function options() {
    const number = (id) => (at(id).value.trim() === "" ? null : Number(at(id).value));
    return {
      transpose: at("own-transpose").checked, header: at("own-header").checked, comma: at("own-comma").checked, na: at("own-na").value.trim(),
      keep_means: at("own-means").checked, channel: at("own-channel").value.trim(), n_atoms: number("own-atoms"), seed: number("own-seed"),
      density: number("own-density"), noise_variance: number("own-noise"), eta: number("own-eta"),
    };
  }

  function begin(path, words) {
    working(true);
    say("own-message", "");
    say("own-progress", words);
    const { transpose, header, comma, na } = options();
    asked = put(path, { file: file.file, options: path.endsWith("read") ? { transpose, header, comma, na } : options() });
    return asked.then(follow).catch(refuse);
  }
  function look() { return begin("/data/read", "Reading " + file.name + "…"); }
  function solve() {
    if (!read) return;
    show("own-found", false);
    begin("/data/solve", "Starting…");
  }

  const STAGES = { compiling: "Compiling for this size", iterating: "Iterating", predicting: "Looking at what was found", report: "Writing the report" };
  function follow(seen) {
    job = seen;
    if (seen.status === "read") readBy = seen.id;
    keep();
    if (!seen.done) {
      const last = seen.progress[seen.progress.length - 1];
      if (last) say("own-progress", (STAGES[last[0]] || last[0]) + (last[1] ? ", iteration " + last[1] : "") + (last[2] === null ? "" : ", residual " + last[2].toPrecision(3)) + ".");
      repaint("own-course");
      window.setTimeout(() => job === seen && put("/job", { id: seen.id }).then(follow).catch(refuse), POLL);
      return;
    }
    working(false);
    if (/^(refused|failed)/.test(seen.status)) return refuse(new Error(seen.status.replace(/^refused: /, "")));
    if (seen.status === "cancelled") return say("own-progress", "Cancelled.");
    if (seen.status === "read") shown(seen);
    else found(seen);
  }

  function list(room, words, title) {
    room.replaceChildren();
    if (!words.length) return;
    const items = document.createElement("ul");
    for (const each of words) items.appendChild(Object.assign(document.createElement("li"), { textContent: each }));
    room.append(Object.assign(paragraph(title), { className: "warned" }), items);
  }

  function shown(seen) {
    read = seen.result;
    show("own-read", true);
    say("own-progress", file.name + " was read: " + read.M + " measurements of " + read.P + " signals.");
    const corner = read.corner;
    at("own-summary").replaceChildren(
      table(["quantity", "value", "remark"], read.rows, "Summary of " + file.name),
      table(["row", ...corner.columns], corner.rows.map((name, k) => [name, ...corner.cells[k]]), "Its upper left corner")
    );
    list(at("own-warnings"), read.warnings, "Something looks wrong with the data:");
    at("own-atoms").value = read.n_atoms;
    at("own-atoms").disabled = read.f_prime;
    at("own-eta").disabled = !read.f_prime;
    for (const [name, id] of [["density", "own-density"], ["noise_variance", "own-noise"], ["eta", "own-eta"]]) at(id).placeholder = read.given[name] || "learned";
    working(false);
    described();
    repaint("own-course");
  }

  /* What the numbers in the form mean, and the same as a command. */
  function described() {
    if (!read || !file) return;
    const given = options();
    const N = given.n_atoms;
    say("own-ratios", N > 0 ? "α = M/N = " + Number((read.M / N).toPrecision(3)) + ", π = P/N = " + Number((read.P / N).toPrecision(3)) + "." : "");
    const quoted = (text) => (/^[\w./,:=+-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'");
    const words = ["spinodal solve", quoted(file.name.startsWith("-") ? "./" + file.name : file.name)];
    if (!read.f_prime && N) words.push("--n-atoms " + N);
    for (const [name, option] of [["density", "--density"], ["noise_variance", "--noise-variance"], ["eta", "--eta"]]) if (given[name] !== null) words.push(option + " " + given[name]);
    if (given.channel) words.push("--channel " + quoted(given.channel));
    if (given.na) words.push("--na " + quoted(given.na));
    for (const [name, option] of [["transpose", "--transpose"], ["header", "--header"], ["keep_means", "--no-center"]]) if (given[name]) words.push(option);
    if (given.comma) words.push("--decimal ,");
    words.push("--seed " + (given.seed || 0), "--report report.html");
    say("own-command", words.join(" "));
  }

  function found(seen) {
    const result = seen.result;
    show("own-found", true);
    say("own-progress", "Solved: " + seen.status.replace("_", " ") + ".");
    const box = at("own-result");
    const verdict = Object.assign(document.createElement("div"), { className: "verdict " + (result.trusted ? "good" : "bad") });
    verdict.append(Object.assign(document.createElement("strong"), { textContent: result.verdict }), paragraph(result.reason), paragraph("Next step: " + result.next));
    const warned = document.createElement("div");
    list(warned, result.warnings, "Something looks wrong with the data or the model:");
    box.replaceChildren(verdict, warned, table(["quantity", "what was found"], result.facts, "Solution of " + seen.name));
    for (const link of document.querySelectorAll("[data-file]")) {
      link.hidden = !seen.files.includes(link.dataset.file);
      link.href = "/job/" + seen.id + "/" + link.dataset.file;
      link.setAttribute("download", "spinodal-" + link.dataset.file);
    }
    show("own-report", seen.files.includes("report.html"));
    if (seen.files.includes("report.html")) at("own-report").src = "/job/" + seen.id + "/page";
    show("own-place", Boolean(result.place));
    repaint("own-course");
  }

  /* The report is as tall as what is in it, and as light or dark as this page. */
  function fitted() {
    const page = at("own-report") && at("own-report").contentDocument;
    if (!page || !page.body || !page.body.childElementCount) return;
    page.documentElement.dataset.theme = document.documentElement.dataset.theme || "light";
    at("own-report").style.height = page.documentElement.scrollHeight + 4 + "px";
  }
  document.addEventListener("load", (event) => event.target.id === "own-report" && fitted(), true);
  window.addEventListener("resize", fitted);
  new MutationObserver(fitted).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

  PAINT["own-course"] = function () {
    const steps = job && job.progress ? job.progress.filter((each) => each[0] === "iterating" && each[2] > 0) : [];
    if (!steps.length) return painted(empty("residual", job && !job.done && job.status !== "read" ? "running…" : "Solve to see"));
    return painted({
      data: [{ type: "scatter", mode: "lines+markers", x: steps.map((_, k) => k + 1), y: steps.map((each) => each[2]), marker: { size: 4, color: "@signals" }, line: { color: "@signals", width: 1 }, name: "mean squared residual" }],
      layout: {
        title: { text: "residual while it is solved" },
        xaxis: { title: { text: "time (every run begins anew)" }, zeroline: false, showticklabels: false },
        yaxis: { type: "log", exponentformat: "power", title: { text: "mean squared residual" } },
      },
    });
  };

  /* A tab that is loaded again finds its file and its work again. */
  function keep() { window.sessionStorage.setItem(KEPT, JSON.stringify({ file, id: job.id, readBy })); }
  function restore() {
    const kept = JSON.parse(window.sessionStorage.getItem(KEPT) || "null");
    if (!kept || !kept.file) return;
    file = kept.file;
    asked = put("/job", { id: kept.id });
    asked.then(function (seen) {
      if (seen.id === kept.readBy || !kept.readBy) return follow(seen);
      return put("/job", { id: kept.readBy }).then(function (first) {
        readBy = first.id;
        shown(first);
        follow(seen);
      });
    }).catch(() => window.sessionStorage.removeItem(KEPT));
  }

  document.addEventListener("click", function (event) {
    if (event.target.id === "own-solve") solve();
    if (event.target.id === "own-cancel" && asked) asked.then((begun) => put("/job/cancel", { id: begun.id })).then(follow).catch(refuse);
    if (event.target.id === "own-place") {
      go(Object.assign({ x: "gauss-bernoulli", f: "gaussian", channel: "gaussian" }, job.result.place));
      at("figures").focus();
    }
  });
  document.addEventListener("change", function (event) {
    if (event.target.id === "own-file") choose(event.target.files[0]);
    else if (READING.includes(event.target.id) && file) look();
  });
  document.addEventListener("input", (event) => event.target.id && event.target.id.startsWith("own-") && described());

  /* A file may be dropped anywhere. */
  const holds = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  document.addEventListener("dragover", function (event) {
    if (!holds(event)) return;
    event.preventDefault();
    at("own-drop").classList.add("over");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || (at("own-drop") && at("own-drop").classList.remove("over")));
  document.addEventListener("drop", function (event) {
    if (!holds(event)) return;
    event.preventDefault();
    at("own-drop").classList.remove("over");
    at("own").scrollIntoView();
    choose(event.dataTransfer.files[0]);
  });
})();
