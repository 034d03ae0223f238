// The timelines: boxes on a canvas, one time axis for all of them, one selected box.

(() => {
  const ROW = 19, STRIP = 20, AXIS = 24, FONT = "11px system-ui, sans-serif", LETTER = 6.2;
  const FEW_ARROWS = 400;
  const detail = document.getElementById("detail");
  const hint = document.getElementById("hint");
  const timelines = [...document.querySelectorAll("figure.timeline")].map((figure) => new_timeline(figure));
  if (!timelines.length) return;

  const whole = Math.max(...timelines.map((timeline) => timeline.span));
  const view = { from: 0, to: whole };
  let chosen = null; // {timeline, box, time}
  let pending = false;
  let colours = {};

  function new_timeline(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const rows = []; // one a line of boxes: its boxes in order of time, and its y
    const strips = [];
    const first = [];
    let y = AXIS;
    for (const [label, height, device] of data.lanes) {
      strips.push({ label, y, device });
      y += STRIP;
      first.push(rows.length);
      for (let row = 0; row < height; row += 1, y += ROW) rows.push({ y, boxes: [] });
    }
    const where = data.lane.map((lane, box) => first[lane] + data.row[box]);
    where.forEach((row, box) => rows[row].boxes.push(box));
    return {
      ...data, figure, rows, strips, where, height: y + 4,
      holder: figure.querySelector(".canvas"),
      canvas: figure.querySelector("canvas"),
      status: figure.querySelector("figcaption span"),
      byEvent: new Map(data.event.map((event, box) => [event, box])),
    };
  }

  const end = (timeline, box) => timeline.start[box] + timeline.length[box];
  const isDevice = (timeline, box) => timeline.lanes[timeline.lane[box]][2] === 1;
  const isKernel = (timeline, box) => isDevice(timeline, box) && !["copy", "set"].includes(kind(timeline, box));
  const kind = (timeline, box) => timeline.kinds[timeline.kind[box]];
  const name = (timeline, box) => timeline.texts[timeline.name[box]];

  const unitOf = (ns) => [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => Math.abs(ns) >= size) || [1, "ns"];

  function duration(ns) {
    const [size, unit] = unitOf(ns);
    const value = ns / size;
    const decimals = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    return `${value.toFixed(unit === "ns" ? 0 : decimals)} ${unit}`;
  }

  // ---- drawing

  function readColours() {
    const of = (element, property) => getComputedStyle(element)[property];
    colours = { ink: of(document.body, "color"), ground: of(document.body, "backgroundColor") };
    colours.faint = of(document.querySelector("#timeline .more"), "color");
    colours.mark = of(document.querySelector("#timeline a, nav a"), "color");
    for (const swatch of document.querySelectorAll("#timeline .legend [data-kind]")) {
      colours[swatch.dataset.kind] = of(swatch, "backgroundColor");
    }
  }

  function draw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      timelines.forEach(paint);
    });
  }

  function paint(timeline) {
    const width = timeline.holder.clientWidth;
    const ratio = devicePixelRatio || 1;
    const { canvas } = timeline;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(timeline.height * ratio);
    canvas.style.height = `${timeline.height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = FONT;
    pen.direction = "ltr";
    pen.textBaseline = "middle";
    const x = (time) => ((time - view.from) / (view.to - view.from)) * width;
    paintSteps(timeline, pen, x);
    paintAxis(timeline, pen, x, width);
    for (const { label, y } of timeline.strips) {
      pen.fillStyle = colours.faint;
      pen.fillText(label, 4, y + STRIP / 2 + 1);
    }
    let kernels = 0;
    for (const row of timeline.rows) {
      let last = -1;
      for (let at = firstVisible(timeline, row.boxes); at < row.boxes.length; at += 1) {
        const box = row.boxes[at];
        if (timeline.start[box] > view.to) break;
        kernels += isKernel(timeline, box) ? 1 : 0;
        const left = Math.max(x(timeline.start[box]), -1);
        const right = Math.max(Math.min(x(end(timeline, box)), width + 1), left + 0.75);
        if (right <= last) continue; // a pixel that has a box already
        last = Math.floor(left) + 1;
        paintBox(timeline, pen, box, left, right, row.y);
      }
    }
    paintArrows(timeline, pen, x, width);
    paintMarks(timeline, pen, x);
    timeline.status.textContent = `In view: ${kernels} of ${total(timeline)} kernels, ${duration(view.to - view.from)}.`;
  }

  function total(timeline) {
    timeline.total ??= timeline.kind.filter((_, box) => isKernel(timeline, box)).length;
    return timeline.total;
  }

  function firstVisible(timeline, boxes) {
    let low = 0;
    let high = boxes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end(timeline, boxes[middle]) < view.from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function paintSteps(timeline, pen, x) {
    timeline.steps.forEach(([label, start, length], number) => {
      const left = x(start);
      const right = x(start + length);
      pen.globalAlpha = number % 2 ? 0.09 : 0.05;
      pen.fillStyle = colours.ink;
      pen.fillRect(left, AXIS, right - left, timeline.height);
      pen.globalAlpha = 1;
    });
  }

  function paintAxis(timeline, pen, x, width) {
    const rough = ((view.to - view.from) / Math.max(width, 1)) * 90;
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const [size, unit] = unitOf(view.to);
    const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
    pen.fillStyle = colours.faint;
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      const at = Math.round(x(tick));
      pen.fillRect(at, 0, 1, 6);
      pen.globalAlpha = 0.18;
      pen.fillRect(at, AXIS, 1, timeline.height);
      pen.globalAlpha = 1;
      if (at < width - 60) pen.fillText(`${(tick / size).toFixed(decimals)} ${unit}`, at + 4, 10);
    }
  }

  function paintBox(timeline, pen, box, left, right, y) {
    const width = right - left;
    pen.fillStyle = colours[kind(timeline, box)] || colours.faint;
    pen.fillRect(left, y, width > 3 ? width - 0.75 : width, ROW - 2);
    const from = Math.max(left, 0);
    const letters = Math.floor((right - from - 8) / LETTER);
    if (letters < 3) return;
    const text = label(timeline, box);
    pen.fillStyle = colours.ink;
    pen.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, from + 4, y + ROW / 2 - 0.5);
  }

  // kernels by their decoded name, the rest as the file has it
  const label = (timeline, box) => timeline.texts[timeline.short[box] ?? timeline.name[box]];

  function paintArrows(timeline, pen, x, width) {
    const visible = [];
    timeline.launch.forEach((launch, box) => {
      if (launch < 0) return;
      const right = x(timeline.start[box]);
      const left = x(timeline.start[launch]);
      if (right >= 0 && left <= width) visible.push(box);
    });
    if (visible.length > FEW_ARROWS) visible.length = 0;
    pen.strokeStyle = colours.faint;
    pen.lineWidth = 1;
    pen.globalAlpha = visible.length > 60 ? 0.2 : 0.5;
    for (const box of visible) arrow(timeline, pen, x, box);
    pen.globalAlpha = 1;
  }

  function arrow(timeline, pen, x, box) {
    const launch = timeline.launch[box];
    const from = timeline.rows[timeline.where[launch]].y;
    const to = timeline.rows[timeline.where[box]].y + ROW - 2;
    const [left, right] = [x(timeline.start[launch]), x(timeline.start[box])];
    const bend = (to - from) / 2;
    pen.beginPath();
    pen.moveTo(left, from);
    pen.bezierCurveTo(left, from + bend, right, to - bend, right, to);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(right - 3, to + 5);
    pen.lineTo(right, to);
    pen.lineTo(right + 3, to + 5);
    pen.stroke();
  }

  function paintMarks(timeline, pen, x) {
    if (!chosen) return;
    const pair = chosen.timeline.pair[chosen.box];
    pen.strokeStyle = colours.mark;
    const outline = (box, line) => {
      const left = x(timeline.start[box]);
      const right = Math.max(x(end(timeline, box)), left + 2);
      pen.lineWidth = line;
      pen.strokeRect(left - 1, timeline.rows[timeline.where[box]].y - 1, right - left + 2, ROW);
    };
    if (pair >= 0) timeline.pair.forEach((other, box) => other === pair && outline(box, 1.5));
    if (chosen.timeline !== timeline) return;
    outline(chosen.box, 2.5);
    if (timeline.launch[chosen.box] >= 0) {
      pen.lineWidth = 2;
      outline(timeline.launch[chosen.box], 1.5);
      pen.lineWidth = 2;
      arrow(timeline, pen, x, chosen.box);
    }
  }

  // ---- the view

  function look(from, to) {
    const length = Math.min(Math.max(to - from, 100), whole);
    view.from = Math.min(Math.max(from - Math.max(0, length - (to - from)) / 2, 0), whole - length);
    view.to = view.from + length;
    hint.hidden = true;
    draw();
  }

  function zoom(factor, centre = (view.from + view.to) / 2) {
    look(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  }

  const pan = (share) => {
    const by = (view.to - view.from) * share;
    const held = Math.min(Math.max(by, -view.from), whole - view.to);
    look(view.from + held, view.to + held);
  };

  function lookAt(timeline, box) {
    const around = Math.max(timeline.length[box], 1000);
    look(timeline.start[box] - around, end(timeline, box) + around);
  }

  // the box with its launch, unless the work waited so long that the box would vanish beside it
  function lookAtRoad(timeline, box) {
    const launch = timeline.launch[box];
    const around = Math.max(timeline.length[box] * 2, 1000);
    const near = launch >= 0 && end(timeline, box) - timeline.start[launch] < around * 10;
    look((near ? timeline.start[launch] : timeline.start[box]) - around, end(timeline, box) + around);
  }

  // ---- choosing a box

  // time: where in a long box the walk up and down goes on; its middle unless given
  function select(timeline, box, time = timeline.start[box] + timeline.length[box] / 2) {
    chosen = { timeline, box, time };
    const title = document.createElement("h3");
    title.textContent = label(timeline, box);
    const list = document.createElement("dl");
    const facts = timeline.facts[box] || [];
    const pairs = [["took", `${duration(timeline.length[box])}, from ${duration(timeline.start[box])} on`]];
    for (let i = 0; i < facts.length; i += 2) pairs.push([timeline.texts[facts[i]], timeline.texts[facts[i + 1]]]);
    pairs.push(["on", timeline.lanes[timeline.lane[box]][0]], ["name", name(timeline, box)]);
    for (const [term, text] of pairs) {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = term;
      dd.textContent = text;
      if (term === "name") dd.className = "name";
      list.append(dt, dd);
    }
    detail.replaceChildren(title, list);
    const { y } = timeline.rows[timeline.where[box]];
    const { holder } = timeline;
    holder.scrollTop = Math.max(y + 2 * ROW - holder.clientHeight, Math.min(holder.scrollTop, y - 2 * ROW));
    try {
      history.replaceState(null, "", `#${timeline.key}-${timeline.event[box]}`);
    } catch {
      // a page without an address of its own (in a frame) keeps no place
    }
    draw();
  }

  function letGo() {
    chosen = null;
    detail.replaceChildren();
    draw();
  }

  function show(timeline, box, time) {
    if (timeline.start[box] > view.to || end(timeline, box) < view.from) {
      const middle = timeline.start[box] + timeline.length[box] / 2;
      const half = (view.to - view.from) / 2;
      look(middle - half, middle + half);
    }
    select(timeline, box, time);
  }

  function follow(hash) {
    const found = /^#(\w+)-(\d+)$/.exec(hash);
    const timeline = found && timelines.find((one) => one.key === found[1]);
    if (!timeline) return false;
    const event = Number(found[2]);
    const box = timeline.byEvent.get(event) ?? timeline.byEvent.get(timeline.elsewhere[event]);
    if (box === undefined) return false;
    lookAtRoad(timeline, box);
    select(timeline, box);
    document.getElementById("timeline").scrollIntoView();
    timeline.holder.focus({ preventScroll: true });
    return true;
  }

  function nearest(timeline, row, time) {
    const { boxes } = timeline.rows[row];
    let best = -1;
    for (const box of boxes) {
      const distance = Math.max(timeline.start[box] - time, time - end(timeline, box), 0);
      if (best < 0 || distance < best.distance) best = { box, distance };
    }
    return best.box;
  }

  function move(timeline, sideways, down) {
    if (!chosen || chosen.timeline !== timeline) {
      const row = timeline.rows.findIndex((one) => one.boxes.length);
      if (row >= 0) show(timeline, nearest(timeline, row, view.from));
      return;
    }
    const row = timeline.where[chosen.box];
    const { boxes } = timeline.rows[row];
    if (sideways) {
      const box = boxes[boxes.indexOf(chosen.box) + sideways];
      if (box !== undefined) show(timeline, box);
      return;
    }
    const { time } = chosen;
    for (let next = row + down; next >= 0 && next < timeline.rows.length; next += down) {
      if (timeline.rows[next].boxes.length) return void show(timeline, nearest(timeline, next, time), time);
    }
  }

  // ---- hands

  const KEYS = {
    ArrowLeft: (timeline) => move(timeline, -1, 0),
    ArrowRight: (timeline) => move(timeline, 1, 0),
    ArrowUp: (timeline) => move(timeline, 0, -1),
    ArrowDown: (timeline) => move(timeline, 0, 1),
    "Shift+ArrowLeft": () => pan(-0.2),
    "Shift+ArrowRight": () => pan(0.2),
    "+": () => zoom(1 / 1.5, middleOfChoice()),
    "=": () => zoom(1 / 1.5, middleOfChoice()),
    "-": () => zoom(1.5, middleOfChoice()),
    0: () => look(0, whole),
    Enter: () => chosen && lookAt(chosen.timeline, chosen.box),
    Escape: () => letGo(),
  };

  function middleOfChoice() {
    if (!chosen) return undefined;
    const middle = chosen.timeline.start[chosen.box] + chosen.timeline.length[chosen.box] / 2;
    return middle > view.from && middle < view.to ? middle : undefined;
  }

  function boxAt(timeline, event) {
    const frame = timeline.canvas.getBoundingClientRect();
    const y = event.clientY - frame.top;
    const time = view.from + ((event.clientX - frame.left) / frame.width) * (view.to - view.from);
    const slack = ((view.to - view.from) / frame.width) * 2;
    const row = timeline.rows.find((one) => y >= one.y && y < one.y + ROW);
    if (!row) return { time };
    const from = firstVisible(timeline, row.boxes);
    const box = row.boxes.slice(from).find((one) => end(timeline, one) + slack >= time);
    return box !== undefined && timeline.start[box] - slack <= time ? { time, box } : { time };
  }

  function whisper(timeline, box, event) {
    hint.hidden = box === undefined;
    if (hint.hidden) return;
    const bound = isKernel(timeline, box) && kind(timeline, box) !== "unknown" ? `, ${kind(timeline, box)}` : "";
    hint.textContent = `${label(timeline, box)}: ${duration(timeline.length[box])}${bound}`;
    const room = document.documentElement.clientWidth - hint.offsetWidth - 8;
    hint.style.left = `${Math.max(4, Math.min(event.clientX + 12, room))}px`;
    hint.style.top = `${event.clientY + 18}px`;
  }

  for (const timeline of timelines) {
    const { holder, canvas } = timeline;
    let grip = null;
    holder.addEventListener("keydown", (event) => {
      const shift = event.shiftKey && event.key.startsWith("Arrow") ? "Shift+" : "";
      const act = !event.ctrlKey && !event.metaKey && !event.altKey && KEYS[shift + event.key];
      if (!act) return;
      event.preventDefault();
      act(timeline);
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(Math.exp(Math.max(-60, Math.min(event.deltaY, 60)) / 120), boxAt(timeline, event).time);
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan((event.deltaX || event.deltaY) / canvas.clientWidth);
      }
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      grip = { x: event.clientX, from: view.from, to: view.to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!grip) return whisper(timeline, boxAt(timeline, event).box, event);
      if (Math.abs(event.clientX - grip.x) > 3) grip.moved = true;
      if (!grip.moved) return;
      const by = ((grip.x - event.clientX) / canvas.clientWidth) * (grip.to - grip.from);
      const held = Math.min(Math.max(by, -grip.from), whole - grip.to);
      look(grip.from + held, grip.to + held);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (grip && !grip.moved) {
        const { box } = boxAt(timeline, event);
        if (box === undefined) letGo();
        else select(timeline, box);
      }
      grip = null;
    });
    canvas.addEventListener("pointercancel", () => { grip = null; });
    canvas.addEventListener("pointerleave", () => { hint.hidden = true; });
    canvas.addEventListener("dblclick", (event) => {
      const { box } = boxAt(timeline, event);
      if (box !== undefined) lookAt(timeline, box);
    });
  }

  for (const button of document.querySelectorAll("#timeline [data-do]")) {
    const acts = { in: () => zoom(1 / 1.5, middleOfChoice()), out: () => zoom(1.5, middleOfChoice()), all: () => look(0, whole) };
    button.addEventListener("click", acts[button.dataset.do]);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && follow(link.getAttribute("href"))) event.preventDefault();
  });
  addEventListener("hashchange", () => follow(location.hash));
  document.addEventListener("redraw", () => { readColours(); draw(); });
  new ResizeObserver(draw).observe(timelines[0].holder);
  readColours();
  draw();
  follow(location.hash);
})();
