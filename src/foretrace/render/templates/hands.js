// What a reader does with the timelines: one view and one selected box for all of them.

(() => {
  const detail = document.getElementById("detail");
  const hint = document.getElementById("hint");
  const timelines = [...document.querySelectorAll("figure.timeline")].map((figure) => new Timeline(figure));
  if (!timelines.length) return;

  const whole = Math.max(...timelines.map((timeline) => timeline.span));
  const view = { from: 0, to: whole };
  let chosen = null; // {timeline, box, time}
  let colours = coloursOfPage();
  let pending = false;

  function draw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      for (const timeline of timelines) timeline.paint(view, chosen, colours);
    });
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
    look(timeline.start[box] - around, timeline.end(box) + around);
  }

  // the box with its launch, unless the work waited so long that the box would vanish beside it
  function lookAtRoad(timeline, box) {
    const launch = timeline.launch[box];
    const around = Math.max(timeline.length[box] * 2, 1000);
    const near = launch >= 0 && timeline.end(box) - timeline.start[launch] < around * 10;
    look((near ? timeline.start[launch] : timeline.start[box]) - around, timeline.end(box) + around);
  }

  // ---- choosing a box

  // time: where in a long box the walk up and down goes on; its middle unless given
  function select(timeline, box, time = timeline.middle(box)) {
    chosen = { timeline, box, time };
    const title = document.createElement("h3");
    title.textContent = timeline.labelOf(box);
    const list = document.createElement("dl");
    const facts = timeline.facts[box] || [];
    const pairs = [["took", `${duration(timeline.length[box])}, from ${duration(timeline.start[box])} on`]];
    for (let i = 0; i < facts.length; i += 2) pairs.push([timeline.texts[facts[i]], timeline.texts[facts[i + 1]]]);
    pairs.push(["on", timeline.lanes[timeline.lane[box]][0]], ["name", timeline.nameOf(box)]);
    for (const [term, text] of pairs) {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = term;
      dd.textContent = text;
      if (term === "name") dd.className = "name";
      list.append(dt, dd);
    }
    const told = toldBy(timeline, box);
    if (told.length) {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = "told in";
      for (const answer of told) {
        const link = document.createElement("a");
        link.href = `#${answer}`;
        link.textContent = answer.replace("ask-", "");
        dd.append(link, " ");
      }
      list.insertBefore(dt, list.lastElementChild.previousElementSibling);
      dt.after(dd);
    }
    detail.replaceChildren(title, list);
    const { y } = timeline.rows[timeline.where[box]];
    const { holder } = timeline;
    holder.scrollTop = Math.max(y + 2 * BOX_ROW - holder.clientHeight, Math.min(holder.scrollTop, y - 2 * BOX_ROW));
    try {
      history.replaceState(null, "", `#${timeline.key}-${timeline.event[box]}`);
    } catch {
      // a page without an address of its own (in a frame) keeps no place
    }
    draw();
  }

  // answers whose evidence has this box, or the same kernel in another step
  function toldBy(timeline, box) {
    const answers = new Set();
    for (const link of document.querySelectorAll(`article a[href^="#${timeline.key}-"]`)) {
      const other = timeline.boxOf(Number(link.hash.split("-")[1]));
      const twin = timeline.pair[box] >= 0 && timeline.pair[other] === timeline.pair[box];
      if (other === box || twin) answers.add(link.closest("article").id);
    }
    return [...answers];
  }

  function letGo() {
    chosen = null;
    detail.replaceChildren();
    draw();
  }

  function show(timeline, box, time) {
    if (timeline.start[box] > view.to || timeline.end(box) < view.from) {
      const middle = timeline.middle(box);
      const half = (view.to - view.from) / 2;
      look(middle - half, middle + half);
    }
    select(timeline, box, time);
  }

  function follow(hash) {
    const found = /^#(\w+)-(\d+)$/.exec(hash);
    const timeline = found && timelines.find((one) => one.key === found[1]);
    if (!timeline) return false;
    const box = timeline.boxOf(Number(found[2]));
    if (box === undefined) return false;
    lookAtRoad(timeline, box);
    select(timeline, box);
    document.getElementById("timeline").scrollIntoView();
    timeline.holder.focus({ preventScroll: true });
    return true;
  }

  function move(timeline, sideways, down) {
    if (!chosen || chosen.timeline !== timeline) {
      const row = timeline.rows.findIndex((one) => one.boxes.length);
      if (row >= 0) show(timeline, timeline.nearest(row, view.from));
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
      if (timeline.rows[next].boxes.length) return void show(timeline, timeline.nearest(next, time), time);
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
    const middle = chosen.timeline.middle(chosen.box);
    return middle > view.from && middle < view.to ? middle : undefined;
  }

  function boxAt(timeline, event) {
    const frame = timeline.canvas.getBoundingClientRect();
    const y = event.clientY - frame.top;
    const time = view.from + ((event.clientX - frame.left) / frame.width) * (view.to - view.from);
    const slack = ((view.to - view.from) / frame.width) * 2;
    const row = timeline.rows.find((one) => y >= one.y && y < one.y + BOX_ROW);
    if (!row) return { time };
    const from = timeline.firstAfter(row.boxes, view.from);
    const box = row.boxes.slice(from).find((one) => timeline.end(one) + slack >= time);
    return box !== undefined && timeline.start[box] - slack <= time ? { time, box } : { time };
  }

  function whisper(timeline, box, event) {
    hint.hidden = box === undefined;
    if (hint.hidden) return;
    const bound = timeline.isKernel(box) && timeline.kindOf(box) !== "unknown" ? `, ${timeline.kindOf(box)}` : "";
    hint.textContent = `${timeline.labelOf(box)}: ${duration(timeline.length[box])}${bound}`;
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
  document.addEventListener("redraw", () => { colours = coloursOfPage(); draw(); });
  new ResizeObserver(draw).observe(timelines[0].holder);
  draw();
  follow(location.hash);
})();
