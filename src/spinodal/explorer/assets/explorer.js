/* The browser's half: labels, the address, the figures and their colours. A slider that moves asks the server for figures and draws them
   here, without Dash, which takes as long as drawing does; Dash hears of the new state when the slider rests. */
(function () {
  "use strict";
  const { shown, parsed, valued, short, tabulate, begun, ended } = window.spinodal;
  const SLIDERS = ["alpha", "rho", "eta", "delta", "pi"];
  const CHOICES = ["x", "f", "channel"];
  const SLIDER_NAMES = { alpha: "α", rho: "ρ", eta: "η", delta: "Δ", pi: "π" };
  const REST = 200; // milliseconds without a change after which a slider rests
  let moving = null; // a clock, while one does not
  let constants = null; // what the server says once
  let theme = "light";
  let live = null; // the run under way, or the last one
  let now = null; // the state on screen
  let instance = null; // size and seed of a run
  let around = null; // what the diagram depends on: the state without its place in it
  const figures = {}; // as the server sent them
  let diagram = {}; // as it was last drawn, and the place where we are
  const nothing = () => window.dash_clientside.no_update;

  function same(a, b) { return JSON.stringify(a) === JSON.stringify(b); }
  function whole(value, low, high, otherwise) {
    return Number.isInteger(value) && value >= low && value <= high ? value : otherwise;
  }

  /* Names of colours ("@hard") become colours; everything else is copied. */
  function coloured(value, theme) {
    if (typeof value === "string") return value[0] === "@" ? theme[value.slice(1)] : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((v) => coloured(v, theme));
    if (value && typeof value === "object") {
      const copy = {};
      for (const key of Object.keys(value)) copy[key] = coloured(value[key], theme);
      return copy;
    }
    return value;
  }

  /* Sizes on a projector's or a large screen are a third larger. */
  function letters(size) { return window.innerWidth >= 1800 ? Math.round(1.35 * size) : size; }

  function painted(figure) {
    const colours = constants.themes[theme];
    const out = coloured(figure, colours);
    const axis = { gridcolor: colours.faint, linecolor: colours.muted, tickcolor: colours.muted, showline: true, ticks: "outside", ticklen: 3, ticklabeloverflow: "allow" };
    out.layout = Object.assign(
      {
        margin: { l: letters(52), r: 10, t: letters(28), b: letters(38) },
        showlegend: false,
        hovermode: "closest",
        autosize: true,
      },
      out.layout,
      {
        font: { family: "system-ui, sans-serif", size: letters(11), color: colours.ink },
        paper_bgcolor: colours.paper,
        plot_bgcolor: colours.paper,
        hoverlabel: { font: { color: colours.ink }, bgcolor: colours.paper },
      }
    );
    out.layout.title = Object.assign({ font: { size: letters(13) }, x: 0.02, xanchor: "left", y: 0.985, yanchor: "top" }, out.layout.title);
    for (const side of ["xaxis", "yaxis"]) {
      const given = out.layout[side];
      // Powers are written a quarter larger than other labels.
      out.layout[side] = Object.assign({}, axis, { tickfont: { size: letters(given.type === "log" ? 9 : 11) } }, given);
    }
    return out;
  }

  /* Where we are in the diagram: a ring over the figure, which moves without the figure being drawn again. */
  function mark(graph) {
    let ring = document.getElementById("here-ring");
    if (!ring) {
      ring = document.createElement("div");
      ring.id = "here-ring";
      graph.parentElement.appendChild(ring);
      graph.on("plotly_afterplot", () => mark(graph));
    }
    const { xaxis, yaxis, _size } = graph._fullLayout;
    const [left, top] = [_size.l + xaxis.d2p(diagram.x), _size.t + yaxis.d2p(diagram.y)];
    const inside = left >= _size.l && left <= _size.l + _size.w && top >= _size.t && top <= _size.t + _size.h;
    ring.style.transform = "translate(" + left + "px, " + top + "px)";
    ring.hidden = !inside;
    ring.dataset.place = diagram.x + " " + diagram.y;
  }

  function matches(live, state) {
    if (!live || !live.query || !state) return false;
    const then = new URLSearchParams(live.query);
    return Object.keys(state).every((name) => then.get(name) === String(state[name]) || Number(then.get(name)) === Number(state[name]));
  }

  function empty(title, note) {
    return {
      data: [],
      layout: {
        title: { text: title },
        xaxis: { visible: false }, yaxis: { visible: false },
        annotations: [{ text: note, showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: "@muted", size: 12 } }],
      },
    };
  }

  /* What each figure shows now; null if that is not known yet, or drawn already. */
  const PAINT = {
    potential: () => figures.potential && painted(figures.potential),
    curve: () => figures.curve && painted(figures.curve),

    diagram: function (graph) {
      if (!figures.diagram) return null;
      const dense = isDense(now);
      const [x, y, alpha] = [Number(dense ? now.rho : now.alpha), Number(now.pi), Number(now.alpha)];
      const out = painted(figures.diagram);
      if (dense) out.layout.xaxis.range = [0, Math.min(1, Math.max(1.25 * alpha, 1.06 * x))];
      const [low, high] = out.layout.yaxis.range;
      out.layout.yaxis.range = [Math.min(low, Math.log10(y) - 0.05), Math.max(high, Math.log10(y) + 0.05)];
      const frame = [theme, out.layout.xaxis.range, out.layout.yaxis.range];
      const drawn = diagram.figure === figures.diagram && same(diagram.frame, frame);
      diagram = { figure: figures.diagram, frame, x, y };
      if (!drawn) return out;
      mark(graph); // only the place is another
      return null;
    },

    errors: function () {
      if (!figures.errors) return null;
      const figure = figures.errors;
      const out = { data: figure.data.slice(), layout: figure.layout };
      if (matches(live, figures.state) && live.iterations.length) {
        const steps = live.iterations.map((t) => t + 1);
        const dots = (y, name, colour, symbol) => ({
          type: "scatter", mode: "markers", x: steps, y: y, name: name, marker: { size: 5, color: colour, symbol: symbol },
        });
        const typical = dots(live.median_X, "E of the median signal, AMP", "@signals", "circle-open");
        out.data.push(dots(live.mse_X, "E, AMP", "@signals", "circle"), typical, dots(live.mse_F, "D, AMP", "@matrix", "square"));
        const all = live.mse_X.concat(live.median_X, live.mse_F);
        const lowest = Math.min(...all.filter((v) => v > 0));
        const highest = Math.max(...all);
        const [low, high] = figure.layout.yaxis.range;
        const range = [Math.min(low, Math.log10(lowest) - 0.3), Math.max(high, Math.log10(highest) + 0.3)];
        out.layout = Object.assign({}, out.layout, { yaxis: Object.assign({}, out.layout.yaxis, { range: range }), title: { text: "state evolution and a live run" } });
      }
      return painted(out);
    },

    recovered: function () {
      const result = live && live.result;
      if (!result) return painted(empty("recovered X", waiting()));
      const ends = [Math.min(...result.true_X), Math.max(...result.true_X)];
      return painted({
        data: [
          { type: "scatter", mode: "markers", x: result.true_X, y: result.found_X, marker: { size: 4, color: "@amp", opacity: 0.5 }, hoverinfo: "skip" },
          { type: "scatter", mode: "lines", x: ends, y: ends, line: { width: 1, color: "@muted" }, hoverinfo: "skip" },
        ],
        layout: {
          title: { text: "recovered X" },
          xaxis: { title: { text: "true X" }, zeroline: false }, yaxis: { title: { text: "recovered X, scales fitted" }, zeroline: false },
        },
      });
    },

    atoms: function () {
      const result = live && live.result;
      if (!result) return painted(empty("atoms", waiting()));
      const order = result.angle.map((v) => Math.max(v, 1e-16)).sort((a, b) => a - b);
      const share = Math.round(1000 * result.recovered) / 10;
      return painted({
        data: [
          { type: "scatter", mode: "markers", x: order.map((_, k) => k + 1), y: order, marker: { size: 5, color: "@matrix" }, name: "atoms", hoverinfo: "y" },
          { type: "scatter", mode: "lines", x: [1, order.length], y: [result.threshold, result.threshold], line: { width: 1, dash: "dot", color: "@muted" }, name: "recovered below", hoverinfo: "skip" },
        ],
        layout: {
          title: { text: "atoms: " + share + "% recovered" },
          xaxis: { title: { text: "atom, best first" }, zeroline: false },
          yaxis: { type: "log", exponentformat: "power", title: { text: "1 − cos² to the true atom" }, range: [Math.log10(order[0]) - 0.3, 0.2] },
        },
      });
    },
  };

  Object.assign(window.spinodal, {
    go, PAINT,
    repaint: (...names) => repaint(...names),
    painted: (figure) => painted(figure),
    theme: () => theme,
    empty: (...words) => empty(...words),
    furnish: () => {}, // own.js does
  });

  function waiting() { return live && live.status && !live.done ? "running…" : "Run AMP to see"; }
  function isDense(state) { return !constants.without_density.includes(state.x); }

  /* Draw figures again. One that Dash has not put on the page yet is tried again soon. */
  function repaint(...names) {
    for (const name of names) {
      const graph = document.querySelector("#" + name + " .js-plotly-plot");
      if (!constants || !window.Plotly || !graph || !graph._fullLayout) {
        window.setTimeout(() => repaint(name), 50);
        continue;
      }
      const figure = PAINT[name](graph);
      if (figure) window.Plotly.react(graph, figure.data, figure.layout, constants.config[name]);
      if (figure && name === "diagram") mark(graph);
      if (figure) tabulate(name);
    }
  }

  /* Ask the server what belongs to a state. While an answer is awaited only the newest question is kept. */
  const asked = {};
  function ask(path, state, then) {
    const question = asked[path] || (asked[path] = { busy: false, next: null });
    question.next = state;
    if (question.busy) return;
    question.busy = true;
    begun();
    const put = function () {
      const state = question.next;
      question.next = null;
      window
        .fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(state) })
        .then((answer) => (answer.ok ? answer.json() : answer.text().then((said) => Promise.reject(said))))
        .then((answer) => [answer, state], (said) => complain(typeof said === "string" && said ? said : "The server does not answer."))
        .then((told) => {
          if (question.next) put(); // computed while this is drawn
          else {
            question.busy = false;
            ended();
          }
          if (told) then(...told);
        });
    };
    put();
  }

  function complain(text) { window.dash_clientside.set_props("message", { children: text }); }

  /* Have the page show a state: labels and the place at once, figures when the server has answered. */
  function show(state) {
    if (same(state, now)) return;
    now = state;
    for (const name of SLIDERS) {
      const label = shown(state[name]);
      const number = entry(name);
      if (document.activeElement !== number || number.dataset.settled) number.value = label;
      slider(name).setAttribute("aria-valuetext", label);
    }
    able("rho", isDense(state));
    able("delta", !constants.without_noise.includes(state.channel));
    for (const [name, preset] of Object.entries(constants.presets)) {
      const is = Object.keys(state).every((key) => String(preset[key]) === String(state[key]));
      document.getElementById("preset-" + name).setAttribute("aria-pressed", String(is));
    }
    ask("/figures", state, function (answer, state) {
      Object.assign(figures, answer, { state: state });
      repaint("potential", "curve", "errors");
    });
    const dense = isDense(state);
    const old = around;
    around = Object.assign({}, state, { pi: constants.values.pi[0], [dense ? "rho" : "alpha"]: constants.values[dense ? "rho" : "alpha"][0] });
    if (same(around, old)) return repaint("diagram");
    ask("/diagram", around, function (answer) {
      figures.diagram = answer;
      repaint("diagram");
    });
  }

  function address(state, instance) {
    window.history.replaceState(null, "", window.location.pathname + "?" + new URLSearchParams(Object.assign({}, state, instance)));
  }

  function slider(name) {
    let input = document.getElementById(name);
    if (!input) {
      input = Object.assign(document.createElement("input"), { type: "range", id: name, min: 0, max: constants.values[name].length - 1, step: 1 });
      input.setAttribute("aria-describedby", name + "-tip");
      document.getElementById(name + "-slider").appendChild(input);
    }
    return input;
  }

  /* The number beside a slider. */
  function entry(name) {
    let input = document.getElementById(name + "-number");
    if (!input) {
      const room = document.getElementById(name + "-entry");
      input = Object.assign(document.createElement("input"), { type: "text", id: name + "-number", inputMode: "decimal", autocomplete: "off", size: 7 });
      input.setAttribute("aria-label", room.dataset.label);
      input.setAttribute("aria-describedby", name + "-tip");
      room.appendChild(input);
    }
    return input;
  }
  function able(name, is) {
    slider(name).disabled = !is;
    entry(name).disabled = !is;
  }

  /* A number was entered: the nearest value of the slider is taken, and said where it is another. */
  function entered(name) {
    const input = entry(name);
    const value = parsed(input.value);
    const values = constants.values[name].map(valued);
    const finite = values.filter(Number.isFinite);
    const low = finite[0];
    const high = finite[finite.length - 1];
    const fits = value === Infinity ? values.includes(Infinity) : value >= low && value <= high;
    if (!fits) {
      complain(SLIDER_NAMES[name] + " must be a number from " + low + " to " + high + (values.includes(Infinity) ? ", or inf" : "") + ", but " + JSON.stringify(input.value.slice(0, 30)) + " was given.");
      input.setAttribute("aria-invalid", "true");
      return;
    }
    input.removeAttribute("aria-invalid");
    const place = nearest(name, value, name !== "alpha" && name !== "rho");
    complain(values[place] === value ? "" : SLIDER_NAMES[name] + " = " + value + " lies between two steps of its slider; " + constants.values[name][place] + " is shown.");
    slider(name).value = place;
    input.value = shown(constants.values[name][place]);
    if (constants.values[name][place] !== now[name]) moved();
  }

  function nearest(name, value, log) {
    const words = constants.values[name];
    const size = (number) => (log ? Math.log(Math.max(number, 1e-300)) : number);
    const far = (word) => (valued(word) === value ? 0 : Math.abs(size(valued(word)) - size(value)));
    return words.reduce((best, word, k) => (far(word) < far(words[best]) ? k : best), 0);
  }

  function chosen(choices) {
    const words = {};
    for (const name of SLIDERS) words[name] = constants.values[name][Number(slider(name).value)];
    return Object.assign(words, choices);
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    spinodal: {
      collect: function (places, choices, n, seed, oldState, oldInstance, said) {
        if (!constants) window.setTimeout(() => window.spinodal.furnish(said), 0);
        constants = said;
        for (const name of SLIDERS) if (!moving) slider(name).value = places[name];
        const state = chosen(choices);
        for (const name of CHOICES) {
          const select = document.getElementById(name);
          if (select && select.value !== choices[name]) select.value = choices[name];
        }
        const old = oldInstance || { n: 100, seed: 1 };
        instance = { n: whole(n, 10, 400, old.n), seed: whole(seed, 0, 999999, old.seed) };
        show(state);
        address(state, instance);
        return [same(state, oldState) ? nothing() : state, same(instance, oldInstance) ? nothing() : instance];
      },

      theme: function (clicks, kept) {
        const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
        let next = kept || system;
        if (clicks) next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        document.documentElement.dataset.theme = next;
        return [next, clicks ? next : nothing(), next === "dark" ? "Light" : "Dark"];
      },

      follow: function (run, chosenTheme) {
        const other = chosenTheme && chosenTheme !== theme;
        const result = (each) => JSON.stringify([each && each.result ? each.id : null, each && each.done]);
        const fresh = !live || result(run) !== result(live);
        live = run;
        theme = chosenTheme || theme;
        repaint("errors", ...(fresh || other ? ["recovered", "atoms"] : []), ...(other ? ["potential", "curve", "diagram", "own-course"] : []));
        return nothing();
      },

      progress: function (live, state) {
        if (!live) return ["", true, false];
        if (live.refused) return [live.refused, true, false];
        const count = live.iterations.length;
        const last = count ? " Iteration " + live.iterations[count - 1] + ": E = " + short(live.mse_X[count - 1]) + ", D = " + short(live.mse_F[count - 1]) + "." : "";
        const words = { compiling: "Compiling for this size…", running: "Running.", cancelled: "Cancelled.", converged: "Converged.", max_iterations: "Out of iterations.", diverged: "Diverged.", degenerate: "Settled, but atoms are missing or copied." };
        const other = matches(live, state) ? "" : " (of other settings)";
        return [(words[live.status] || live.status) + other + last, live.done, !live.done];
      },

      save: function (clicks) {
        if (!clicks) return nothing();
        const which = document.getElementById("which").value;
        const format = document.getElementById("format").value;
        if (format !== "svg" && format !== "png") return { which: which, format: format, clicks: clicks };
        const graph = document.querySelector("#" + which + " .js-plotly-plot");
        const figure = { data: graph.data.slice(), layout: Object.assign({}, graph.layout, { showlegend: true }) };
        if (which === "diagram")
          figure.data.push({ type: "scatter", mode: "markers", x: [diagram.x], y: [diagram.y], name: "here", marker: { size: 11, symbol: "circle-open", line: { width: 3 }, color: graph.layout.font.color } });
        window.Plotly.downloadImage(figure, { format: format, filename: "spinodal-" + which, scale: format === "png" ? 2 : 1, width: 720, height: 480 });
        return nothing();
      },
    },
  });

  /* Sliders that move. Dash is not told before they rest. */
  function moved() {
    window.clearTimeout(moving);
    moving = window.setTimeout(function () {
      moving = null;
      window.dash_clientside.set_props("places", { data: Object.fromEntries(SLIDERS.map((name) => [name, Number(slider(name).value)])) });
    }, REST);
    show(chosen(Object.fromEntries(CHOICES.map((name) => [name, now[name]]))));
    address(now, instance);
  }
  document.addEventListener("input", function (event) {
    if (SLIDERS.includes(event.target.id) && now) moved();
  });

  document.addEventListener("change", function (event) {
    const number = event.target.id.match(/^(\w+)-number$/);
    if (number && SLIDERS.includes(number[1])) return entered(number[1]);
    if (!CHOICES.includes(event.target.id)) return;
    window.dash_clientside.set_props("choices", { data: Object.fromEntries(CHOICES.map((name) => [name, document.getElementById(name).value])) });
  });
  /* Go to a whole state, or to a part of one: a preset, or where someone's data lie. */
  function go(wanted) {
    for (const name of SLIDERS) if (wanted[name] !== undefined) slider(name).value = constants.values[name].indexOf(String(wanted[name]));
    const places = Object.fromEntries(SLIDERS.map((name) => [name, Number(slider(name).value)]));
    const set = window.dash_clientside.set_props;
    complain("");
    set("choices", { data: Object.fromEntries(CHOICES.map((name) => [name, wanted[name] === undefined ? now[name] : wanted[name]])) });
    set("places", { data: places });
    for (const name of ["n", "seed"]) if (wanted[name] !== undefined) set(name, { value: wanted[name] });
  }
  document.addEventListener("click", function (event) {
    const name = event.target.dataset && event.target.dataset.preset;
    if (!name || !constants) return;
    go(constants.presets[name]);
    document.getElementById("preset-says").textContent = constants.says[name];
  });

  /* On paper everything is light. */
  window.matchMedia("print").addEventListener("change", function (event) {
    if (!constants) return;
    const kept = document.documentElement.dataset.theme || theme;
    theme = event.matches ? "light" : kept;
    repaint(...Object.keys(PAINT));
  });

  /* A click anywhere in the diagram selects the nearest point that the sliders can reach. */
  document.addEventListener("click", function (event) {
    const graph = document.querySelector("#diagram .js-plotly-plot");
    if (!graph || !graph._fullLayout || !event.target.closest("#diagram .nsewdrag")) return;
    const { xaxis, yaxis } = graph._fullLayout;
    const box = event.target.getBoundingClientRect();
    const at = [xaxis.p2d(event.clientX - box.left), yaxis.p2d(event.clientY - box.top)];
    const across = document.getElementById("rho").disabled ? "alpha" : "rho";
    slider(across).value = nearest(across, at[0], false);
    slider("pi").value = nearest("pi", at[1], true);
    moved();
  });
})();
