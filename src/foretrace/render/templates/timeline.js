// A timeline: its boxes, and how they are painted on a canvas. What the reader does with it is in hands.js.

const BOX_ROW = 19;

function unitOf(ns) {
  return [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => Math.abs(ns) >= size) || [1, "ns"];
}

function duration(ns) {
  const [size, unit] = unitOf(ns);
  const value = ns / size;
  const decimals = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return `${value.toFixed(unit === "ns" ? 0 : decimals)} ${unit}`;
}

// the legend's swatches are real elements, so the canvas follows the theme without a table of its own
function coloursOfPage() {
  const of = (element, property) => getComputedStyle(element)[property];
  const colours = {
    ink: of(document.body, "color"),
    faint: of(document.querySelector("#timeline .more"), "color"),
    mark: of(document.querySelector("nav a"), "color"),
  };
  for (const swatch of document.querySelectorAll("#timeline .legend [data-kind]")) {
    colours[swatch.dataset.kind] = of(swatch, "backgroundColor");
  }
  return colours;
}

class Timeline {
  static STRIP = 20; // above the boxes of a lane, for its label
  static AXIS = 24;
  static LETTER = 6.2; // mean width at 11px, to cut labels without measuring thousands of them
  static FEW_ARROWS = 400;

  constructor(figure) {
    Object.assign(this, JSON.parse(figure.querySelector("script").textContent));
    this.holder = figure.querySelector(".canvas");
    this.canvas = figure.querySelector("canvas");
    this.status = figure.querySelector("figcaption span");
    this.rows = []; // one a line of boxes: its y, and its boxes in order of time
    this.strips = [];
    const first = [];
    let y = Timeline.AXIS;
    for (const [label, height] of this.lanes) {
      this.strips.push({ label, y });
      y += Timeline.STRIP;
      first.push(this.rows.length);
      for (let row = 0; row < height; row += 1, y += BOX_ROW) this.rows.push({ y, boxes: [] });
    }
    this.height = y + 4;
    this.where = this.lane.map((lane, box) => first[lane] + this.row[box]);
    this.where.forEach((row, box) => this.rows[row].boxes.push(box));
    this.byEvent = new Map(this.event.map((event, box) => [event, box]));
    this.kernels = this.event.filter((_, box) => this.isKernel(box)).length;
  }

  boxOf(event) { return this.byEvent.get(event) ?? this.byEvent.get(this.elsewhere[event]); }

  end(box) { return this.start[box] + this.length[box]; }

  middle(box) { return this.start[box] + this.length[box] / 2; }

  kindOf(box) { return this.kinds[this.kind[box]]; }

  nameOf(box) { return this.texts[this.name[box]]; }

  // kernels by their decoded name, the rest as the file has it
  labelOf(box) { return this.texts[this.short[box] ?? this.name[box]]; }

  isKernel(box) { return this.lanes[this.lane[box]][2] === 1 && !["copy", "set"].includes(this.kindOf(box)); }

  // position of the first box of a row that has not ended by a time
  firstAfter(boxes, time) {
    let low = 0;
    let high = boxes.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (this.end(boxes[half]) < time) low = half + 1;
      else high = half;
    }
    return low;
  }

  nearest(row, time) {
    let found = { distance: Infinity };
    for (const box of this.rows[row].boxes) {
      const distance = Math.max(this.start[box] - time, time - this.end(box), 0);
      if (distance < found.distance) found = { box, distance };
    }
    return found.box;
  }

  paint(view, chosen, colours) {
    const width = this.holder.clientWidth;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.direction = "ltr";
    pen.textBaseline = "middle";
    const sheet = { pen, width, view, colours, x: (time) => ((time - view.from) / (view.to - view.from)) * width };
    this.paintSteps(sheet);
    this.paintAxis(sheet);
    pen.fillStyle = colours.faint;
    for (const { label, y } of this.strips) pen.fillText(label, 4, y + Timeline.STRIP / 2 + 1);
    let kernels = 0;
    for (const row of this.rows) kernels += this.paintRow(sheet, row);
    this.paintArrows(sheet);
    if (chosen) this.paintChosen(sheet, chosen);
    const counted = this.kernels ? `${kernels} of ${this.kernels} kernels, ` : "";
    this.status.textContent = `In view: ${counted}${duration(view.to - view.from)}.`;
  }

  paintSteps({ pen, colours, x }) {
    pen.fillStyle = colours.ink;
    this.steps.forEach(([, start, length], number) => {
      pen.globalAlpha = number % 2 ? 0.09 : 0.05;
      pen.fillRect(x(start), Timeline.AXIS, x(start + length) - x(start), this.height);
    });
    pen.globalAlpha = 1;
  }

  paintAxis({ pen, width, view, colours, x }) {
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
      pen.fillRect(at, Timeline.AXIS, 1, this.height);
      pen.globalAlpha = 1;
      if (at < width - 60) pen.fillText(`${(tick / size).toFixed(decimals)} ${unit}`, at + 4, 10);
    }
  }

  // gives how many kernels of the row are in view
  paintRow(sheet, { y, boxes }) {
    const { view, width, x } = sheet;
    let kernels = 0;
    let painted = -1;
    for (let at = this.firstAfter(boxes, view.from); at < boxes.length; at += 1) {
      const box = boxes[at];
      if (this.start[box] > view.to) break;
      kernels += this.isKernel(box) ? 1 : 0;
      const left = Math.max(x(this.start[box]), -1);
      const right = Math.max(Math.min(x(this.end(box)), width + 1), left + 0.75);
      if (right <= painted) continue; // its pixel has a box already
      painted = Math.floor(left) + 1;
      this.paintBox(sheet, box, left, right, y);
    }
    return kernels;
  }

  paintBox({ pen, colours }, box, left, right, y) {
    const width = right - left;
    pen.fillStyle = colours[this.kindOf(box)];
    pen.fillRect(left, y, width > 3 ? width - 0.75 : width, BOX_ROW - 2);
    const from = Math.max(left, 0);
    const letters = Math.floor((right - from - 8) / Timeline.LETTER);
    if (letters < 3) return;
    const text = this.labelOf(box);
    pen.fillStyle = colours.ink;
    pen.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, from + 4, y + BOX_ROW / 2 - 0.5);
  }

  paintArrows(sheet) {
    const { pen, width, colours, x } = sheet;
    const visible = [];
    this.launch.forEach((launch, box) => {
      if (launch >= 0 && x(this.start[box]) >= 0 && x(this.start[launch]) <= width) visible.push(box);
    });
    if (visible.length > Timeline.FEW_ARROWS) return;
    pen.strokeStyle = colours.faint;
    pen.lineWidth = 1;
    pen.globalAlpha = visible.length > 60 ? 0.2 : 0.5;
    for (const box of visible) this.paintArrow(sheet, box);
    pen.globalAlpha = 1;
  }

  // from the call up to the kernel that it launched
  paintArrow({ pen, x }, box) {
    const launch = this.launch[box];
    const from = this.rows[this.where[launch]].y;
    const to = this.rows[this.where[box]].y + BOX_ROW - 2;
    const [left, right, bend] = [x(this.start[launch]), x(this.start[box]), (to - from) / 2];
    pen.beginPath();
    pen.moveTo(left, from);
    pen.bezierCurveTo(left, from + bend, right, to - bend, right, to);
    pen.moveTo(right - 3, to + 5);
    pen.lineTo(right, to);
    pen.lineTo(right + 3, to + 5);
    pen.stroke();
  }

  paintChosen(sheet, { timeline, box }) {
    const { pen, colours, x } = sheet;
    pen.strokeStyle = colours.mark;
    const outline = (one, line) => {
      const left = x(this.start[one]);
      pen.lineWidth = line;
      pen.strokeRect(left - 1, this.rows[this.where[one]].y - 1, Math.max(x(this.end(one)) - left, 2) + 2, BOX_ROW);
    };
    const pair = timeline.pair[box];
    if (pair >= 0) this.pair.forEach((other, one) => other === pair && outline(one, 1.5));
    if (timeline !== this) return;
    outline(box, 2.5);
    if (this.launch[box] < 0) return;
    outline(this.launch[box], 1.5);
    pen.lineWidth = 2;
    this.paintArrow(sheet, box);
  }
}
