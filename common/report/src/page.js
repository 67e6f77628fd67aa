// Interactive charts: zoom and values at the pointer. All data are already in the page, in the link
// `data (CSV)`; without this script the charts remain static.
(() => {
  "use strict";
  const LOG_LEAST_SHARE = 1e-6;

  function parseCsv(text) {
    const rows = [];
    for (const line of text.split("\n").slice(1)) {
      if (!line) continue;
      const fields = [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)];
      rows.push(fields.map((m) => (m[1] === undefined ? m[2] : m[1].replaceAll('""', '"'))));
    }
    return rows;
  }

  const share = (axis, value) =>
    axis.log
      ? Math.log(value / axis.from) / Math.log(axis.to / axis.from)
      : (value - axis.from) / (axis.to - axis.from);
  const value = (axis, part) =>
    axis.log
      ? axis.from * (axis.to / axis.from) ** part
      : axis.from + (axis.to - axis.from) * part;

  function ticks(axis) {
    const found = [];
    if (axis.log) {
      const [low, high] = [Math.floor(Math.log10(axis.from)), Math.ceil(Math.log10(axis.to))];
      const every = Math.max(1, Math.ceil((high - low) / 10));
      const steps = high - low <= 2 ? [1, 2, 5] : [1];
      for (let e = low; e <= high; e += every) for (const s of steps) found.push(s * 10 ** e);
      const inside = found.filter((t) => t >= axis.from * 0.999999 && t <= axis.to * 1.000001);
      if (inside.length >= 2) return inside;
      found.length = 0;
    }
    const least = (axis.to - axis.from) / 6;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least * 0.999999);
    for (let i = Math.ceil(axis.from / step - 1e-9); i * step <= axis.to + step * 1e-9; i++) {
      found.push(i * step);
    }
    return found;
  }

  function plain(number) {
    if (number === 0) return "0";
    for (const [unit, sign] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
      if (Math.abs(number) >= unit) return `${Number((number / unit).toPrecision(4))} ${sign}`;
    }
    return String(Number(number.toPrecision(4)));
  }

  function startChart(figure) {
    const plan = JSON.parse(figure.dataset.chart);
    const svg = figure.querySelector("svg.chart");
    const plot = svg.querySelector("g.plot");
    const href = figure.querySelector("a.data").href;
    const [left, top, right, bottom] = plan.area;
    const isBoxes = plan.kind === "boxes";
    const series = plan.series.map(([name, reference]) => ({ name, reference, points: [] }));
    const byName = new Map(series.map((one) => [one.name, one]));
    for (const [name, ...numbers] of parseCsv(decodeURIComponent(href.slice(href.indexOf(",") + 1)))) {
      byName.get(name)?.points.push(numbers.map(Number));
    }
    const home = { x: { ...plan.x }, y: { ...plan.y } };
    let view = { x: { ...plan.x }, y: { ...plan.y } };

    const px = (x) => left + (right - left) * Math.min(10, Math.max(-10, share(view.x, x)));
    const py = (y) => bottom + (top - bottom) * Math.min(10, Math.max(-10, share(view.y, y)));
    const fits = (x, y) => (!view.x.log || x > 0) && (!view.y.log || y > 0);

    function element(parent, name, attributes, text) {
      const made = document.createElementNS(svg.namespaceURI, name);
      for (const [key, wanted] of Object.entries(attributes)) made.setAttribute(key, wanted);
      if (text !== undefined) made.textContent = text;
      parent.append(made);
      return made;
    }
    const path = (parent, kind, d) => element(parent, "path", { class: kind, d });
    const text = (parent, kind, x, y, anchor, words) =>
      element(parent, "text", { class: kind, x, y, "text-anchor": anchor }, words);

    function drawAxes() {
      if (plan.rows.length) {
        plan.rows.forEach((name, row) => {
          const y = py(row + 0.5);
          if (y < top || y > bottom) return;
          path(plot, "grid", `M${left} ${y}H${right}`);
          text(plot, "tick", left - 8, y + 4, "end", name);
        });
      } else {
        for (const tick of ticks(view.y)) {
          path(plot, "grid", `M${left} ${py(tick)}H${right}`);
          text(plot, "tick", left - 8, py(tick) + 4, "end", plain(tick));
        }
      }
      for (const tick of ticks(view.x)) {
        path(plot, "grid", `M${px(tick)} ${top}V${bottom}`);
        text(plot, "tick", px(tick), bottom + 18, "middle", plain(tick));
      }
      path(plot, "axis", `M${left} ${top}V${bottom}H${right}`);
      text(plot, "name", (left + right) / 2, bottom + 38, "middle", plan.x.label);
      const turned = `translate(24 ${(top + bottom) / 2}) rotate(-90)`;
      const name = { class: "name", transform: turned, "text-anchor": "middle" };
      element(plot, "text", name, plan.y.label);
    }

    function steps(one) {
      if (isBoxes) {
        const shown = one.points.filter(([x0, x1, y0, y1]) => fits(x0, y0) && fits(x1, y1));
        return shown.map(([x0, x1, y0, y1]) => {
          const [w, h] = [Math.max(1, px(x1) - px(x0)), Math.max(1, py(y0) - py(y1))];
          return `M${px(x0)} ${py(y1)}h${w}v${h}h${-w}Z`;
        }).join("");
      }
      const shown = one.points.filter(([x, y]) => fits(x, y)).map(([x, y]) => [px(x), py(y)]);
      if (!shown.length) return "";
      if (plan.kind === "dots") return shown.map(([x, y]) => `M${x} ${y}h0`).join("");
      if (plan.kind === "lines") return "M" + shown.map(([x, y]) => `${x} ${y}`).join("L");
      const floor = `M${Math.min(left, shown[0][0])} ${bottom}`;
      const end = `H${Math.max(right, shown.at(-1)[0])}`;
      return floor + shown.map(([x, y]) => `H${x}V${y}`).join("") + end;
    }

    function draw() {
      plot.replaceChildren();
      drawAxes();
      const [w, h] = [right - left, bottom - top];
      const window = { x: left, y: top, width: w, height: h, viewBox: `${left} ${top} ${w} ${h}` };
      const inner = element(plot, "svg", window);
      series.forEach((one, index) => {
        const colour = index % 8;
        const kind = isBoxes
          ? `box f${colour} s${colour}`
          : plan.kind === "dots"
            ? `dots s${colour}`
            : `line s${colour}${one.reference ? " reference" : ""}`;
        path(inner, kind, steps(one));
      });
      for (const [at, label, upright] of plan.thresholds) {
        if (upright) {
          path(inner, "threshold", `M${px(at)} ${top}V${bottom}`);
          text(inner, "note", px(at) + 5, top + 12, "start", label);
        } else {
          path(inner, "threshold", `M${left} ${py(at)}H${right}`);
          text(inner, "note", right - 4, py(at) - 5, "end", label);
        }
      }
      for (const [name, button] of Object.entries(buttons)) {
        if (name === "reset") button.hidden = JSON.stringify(view) === JSON.stringify(home);
        else button.setAttribute("aria-pressed", String(view[name].log));
      }
    }

    // The full range of the data on one axis, linear or logarithmic.
    function whole(name, log) {
      const at = isBoxes ? (name === "x" ? [0, 1] : [2, 3]) : [name === "x" ? 0 : 1];
      const all = series.flatMap((one) => one.points.flatMap((point) => at.map((i) => point[i])));
      const known = all.filter((v) => Number.isFinite(v) && (!log || v > 0));
      let low = Infinity;
      let high = -Infinity;
      for (const v of known) [low, high] = [Math.min(low, v), Math.max(high, v)];
      if (low > high) return null;
      if (log) {
        low = Math.max(low, high * LOG_LEAST_SHARE);
        return { ...plan[name], log, from: low === high ? low / 2 : low, to: high * 1.05 };
      }
      const from = low >= 0 ? 0 : low;
      return { ...plan[name], log, from, to: high > from ? high * 1.02 : from + 1 };
    }

    const buttons = {};
    const tools = figure.querySelector(".tools");
    function addButton(name, words, act) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words;
      button.addEventListener("click", act);
      tools.prepend(button);
      buttons[name] = button;
    }
    const reset = () => {
      view = { x: { ...home.x }, y: { ...home.y } };
      draw();
    };
    addButton("reset", "reset", reset);
    buttons.reset.hidden = true;
    for (const name of plan.rows.length || isBoxes ? [] : ["y", "x"]) {
      addButton(name, `log ${name}`, () => {
        const log = !view[name].log;
        const same = home[name].log === log ? { ...home[name] } : whole(name, log);
        if (same) view[name] = same;
        draw();
      });
      buttons[name].setAttribute("aria-pressed", String(view[name].log));
    }

    function at(event) {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    }
    const inside = ([x, y]) => x >= left && x <= right && y >= top && y <= bottom;

    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    figure.append(tip);
    let pointer = null;
    function hideTip() {
      tip.hidden = true;
      pointer?.remove();
      pointer = null;
    }

    function nearest(one, x, y) {
      let best = null;
      for (const [vx, vy] of one.points) {
        if (!fits(vx, vy)) continue;
        const across = Math.abs(px(vx) - x);
        const apart = plan.kind === "dots" ? Math.hypot(across, py(vy) - y) : across;
        if (!best || apart < best.apart) best = { apart, vx, vy };
      }
      return best && best.apart <= 24 ? best : null;
    }

    function words(x, y) {
      if (isBoxes) {
        for (const one of series) {
          const hit = one.points.find(
            ([x0, x1, y0, y1]) => x >= px(x0) - 1 && x <= px(x1) + 1 && y >= py(y1) - 1 && y <= py(y0) + 1,
          );
          if (!hit) continue;
          const row = plan.rows.length ? plan.rows[Math.floor(hit[2])] : null;
          const where = row ?? `${plain(hit[2])} to ${plain(hit[3])}`;
          return `${one.name}\n${plan.x.label}: ${plain(hit[0])} to ${plain(hit[1])}\n${plan.y.label}: ${where}`;
        }
        return null;
      }
      const found = series.map((one) => [one, nearest(one, x, y)]).filter(([, hit]) => hit);
      if (!found.length) return null;
      const closest = found.reduce((a, b) => (b[1].apart < a[1].apart ? b : a));
      const lines = found.map(([one, hit]) => `${one.name}: ${plain(hit.vy)}`);
      return `${plan.x.label}: ${plain(closest[1].vx)}\n${lines.join("\n")}`;
    }

    function showTip(event) {
      const [x, y] = at(event);
      const said = inside([x, y]) ? words(x, y) : null;
      if (!said) return hideTip();
      tip.textContent = said;
      tip.hidden = false;
      const box = figure.getBoundingClientRect();
      const across = event.clientX - box.left;
      const is_right = across > box.width / 2;
      tip.style.left = is_right ? "auto" : `${across + 14}px`;
      tip.style.right = is_right ? `${box.width - across + 14}px` : "auto";
      tip.style.top = `${event.clientY - box.top + 10}px`;
      if (!isBoxes) {
        pointer ??= path(svg, "pointer", "");
        pointer.setAttribute("d", `M${x} ${top}V${bottom}`);
      }
    }

    let from = null;
    let selection = null;
    function spanned(to) {
      const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
      const [x0, x1] = [from[0], clamp(to[0], left, right)].sort((a, b) => a - b);
      const [y0, y1] = [from[1], clamp(to[1], top, bottom)].sort((a, b) => a - b);
      const [wide, high] = [x1 - x0 > 8, y1 - y0 > 8];
      return wide || high
        ? { x: wide ? [x0, x1] : [left, right], y: high ? [y0, y1] : [top, bottom] }
        : null;
    }
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || !inside(at(event))) return;
      from = at(event);
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return showTip(event);
      hideTip();
      const area = spanned(at(event));
      selection ??= path(svg, "selection", "");
      const d = area ? `M${area.x[0]} ${area.y[0]}H${area.x[1]}V${area.y[1]}H${area.x[0]}Z` : "";
      selection.setAttribute("d", d);
    });
    const part = (position, near, far) => (position - near) / (far - near);
    function release(event, zooms) {
      if (!from) return;
      const area = zooms ? spanned(at(event)) : null;
      from = null;
      selection?.remove();
      selection = null;
      if (!area) return;
      const cut = (axis, a, b) => ({ ...axis, from: value(axis, a), to: value(axis, b) });
      const { x, y } = view;
      view = {
        x: cut(x, part(area.x[0], left, right), part(area.x[1], left, right)),
        y: cut(y, part(area.y[1], bottom, top), part(area.y[0], bottom, top)),
      };
      draw();
    }
    svg.addEventListener("pointerup", (event) => release(event, true));
    svg.addEventListener("pointercancel", (event) => release(event, false));
    svg.addEventListener("pointerleave", () => from || hideTip());
    svg.addEventListener("dblclick", reset);
    svg.classList.add("live");
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    // In a browser that is too old, the charts remain static.
    try {
      startChart(figure);
    } catch (error) {
      console.warn(figure.id, error);
    }
  }
})();
