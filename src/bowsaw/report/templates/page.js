"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const signed = (change) => {
    const digits = Math.abs(change).toFixed(3);
    return Number(digits) ? `${change < 0 ? "−" : "+"}${digits}` : digits;
  };
  const percent = (share) => `${Number((100 * share).toPrecision(2))}\u202f%`;
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  root.classList.add("js");

  // -- the theme, which is not remembered ---------------------------------------------------------
  const theme = find("#theme");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  nameTheme();

  // -- printing opens what is folded --------------------------------------------------------------
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));

  // -- the command --------------------------------------------------------------------------------
  find("#copy")?.addEventListener("click", async () => {
    const code = find("#command");
    let done = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      done = document.execCommand("copy");
    }
    find("#copied").textContent = done ? "Copied" : "Selected; copy it with the keyboard";
    find("#copy").textContent = done ? "Copied" : "Selected";
  });

  // -- tables that can be sorted -------------------------------------------------------------------
  const number = (text) => parseFloat(text.replace("−", "-").replace(/(\d),(?=\d{3})/g, "$1"));
  for (const table of all("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      const button = element("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Numbers fall first, names rise first; what has no number stays last.
        const rows = [...table.tBodies[0].rows];
        const texts = new Map(rows.map((row) => [row, row.cells[place].textContent.trim()]));
        const byNumber = rows.some((row) => !Number.isNaN(number(texts.get(row))));
        const was = head.getAttribute("aria-sort");
        const rising = was ? was === "descending" : !byNumber;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const order = (a, b) => {
          if (!byNumber) return (rising ? 1 : -1) * texts.get(a).localeCompare(texts.get(b));
          const [x, y] = [number(texts.get(a)), number(texts.get(b))];
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
          return rising ? x - y : y - x;
        };
        table.tBodies[0].append(...rows.sort(order));
      });
    });
  }

  if (!data.panels) return;
  const state = { ...data.start, axis: "coding", scale: "log", method: null, place: 0, word: null };
  const panel = () => data.panels[state.panel];
  const offer = () => panel().offered.find((row) => row.method === state.method);
  const size = () => String(offer()?.sizes[state.place] ?? "");
  const wordsHere = () => data.words[state.panel]?.[state.method]?.[size()];

  // -- what fits the choice is shown --------------------------------------------------------------
  function show() {
    if (!(state.map in panel().levels)) {
      state.map = Object.keys(panel().levels)[0];
      const radio = find(`#map input[value="${state.map}"]`);
      if (radio) radio.checked = true;
    }
    for (const part of all("[data-panel], [data-map], [data-axis]")) {
      if (part.dataset.trace) continue;
      part.hidden = ["panel", "map", "axis"].some((key) => part.dataset[key] && part.dataset[key] !== state[key]);
    }
  }
  const reading = (id, key, then) =>
    find(`#${id}`)?.addEventListener("change", (event) => { state[key] = event.target.value; then(); });
  reading("panel", "panel", () => { show(); offerMethods(); });
  reading("map", "map", () => { show(); sizeChanged(); });
  reading("axis", "axis", show);
  reading("scale", "scale", () => {
    for (const part of all("#curves [data-log]")) {
      part.setAttribute(part.tagName === "path" ? "d" : "transform", part.dataset[state.scale]);
    }
    for (const axis of all("#curves [data-scale]")) axis.toggleAttribute("hidden", axis.dataset.scale !== state.scale);
  });

  // -- toggles and tooltips --------------------------------------------------------------
  for (const box of all("[data-toggle]")) {
    const apply = () => {
      for (const curve of all("#curves .curve, #panels .curve")) {
        if (curve.dataset.method === box.dataset.toggle) curve.toggleAttribute("hidden", !box.checked);
      }
    };
    box.addEventListener("change", apply);
    apply();
  }
  const tip = find(".tip");
  function showTip(point) {
    tip.textContent = point.getAttribute("aria-label");
    tip.hidden = false;
    const frame = tip.parentElement.getBoundingClientRect();
    const at = point.getBoundingClientRect();
    const left = at.left + at.width / 2 - frame.left - tip.offsetWidth / 2;
    const above = at.top - frame.top - tip.offsetHeight - 10;
    tip.style.left = `${Math.max(0, Math.min(left, frame.width - tip.offsetWidth))}px`;
    tip.style.top = `${above < 0 ? at.bottom - frame.top + 10 : above}px`;
  }
  for (const chart of all("#curves svg.chart")) {
    // Its points can be reached by the keyboard, so it is a group and no longer one image.
    chart.setAttribute("role", "group");
    for (const curve of all(".curve", chart)) {
      const points = all(".point", curve);
      points.forEach((point, i) => {
        point.setAttribute("tabindex", i ? "-1" : "0");
        point.addEventListener("pointerenter", () => showTip(point));
        point.addEventListener("focus", () => showTip(point));
        for (const end of ["pointerleave", "blur"]) point.addEventListener(end, () => { tip.hidden = true; });
        point.addEventListener("keydown", (event) => {
          if (event.key === "Escape") tip.hidden = true;
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          const next = step && points[i + step];
          if (!next) return;
          event.preventDefault();
          point.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        });
      });
    }
  }

  // -- words: patches where pixels are known, else a glyph ----------------------------------------
  const sheets = document.head.appendChild(element("style")).sheet;
  const share = (at, of) => (of > 1 ? (100 * at) / (of - 1) : 0);
  function patch(sprite, tile) {
    if (!sprite.name) {
      sprite.name = `sheet${sheets.cssRules.length}`;
      sheets.insertRule(`.${sprite.name}{background:url(data:image/png;base64,${sprite.png}) no-repeat;background-size:${100 * sprite.columns}% auto}`);
    }
    const made = element("span", { className: `face ${sprite.name}` });
    made.style.backgroundPosition = `${share(tile % sprite.columns, sprite.columns)}% ${share(Math.floor(tile / sprite.columns), sprite.rows)}%`;
    return made;
  }
  const SVG = "http://www.w3.org/2000/svg";
  function glyph(packed, dims) {
    const bytes = atob(packed);
    const level = (i) => (bytes.charCodeAt(i >> 1) >> (i % 2 ? 0 : 4)) & 15;
    const made = document.createElementNS(SVG, "svg");
    made.setAttribute("class", "face");
    made.setAttribute("aria-hidden", "true");
    if (dims === 128) {
      // Four by four cells, eight directions each. Levels are square roots; between them and the
      // values themselves, strong directions stand out and weak ones are still seen.
      made.setAttribute("viewBox", "-1 -1 50 50");
      let lines = "";
      for (let i = 0; i < 128; i++) {
        const long = Math.min(8, (level(i) / 15) ** 1.5 * 12);
        if (long < 0.7) continue;
        const cell = i >> 3;
        const angle = ((i % 8) * Math.PI) / 4;
        lines += `M${12 * (cell % 4) + 6} ${12 * (cell >> 2) + 6}l${(long * Math.cos(angle)).toFixed(1)} ${(long * Math.sin(angle)).toFixed(1)}`;
      }
      const path = document.createElementNS(SVG, lines ? "path" : "text");
      if (lines) path.setAttribute("d", lines);
      else Object.entries({ x: 24, y: 28 }).forEach(([name, value]) => path.setAttribute(name, value));
      path.textContent = lines ? "" : "flat";
      made.append(path);
      return made;
    }
    const side = Math.ceil(Math.sqrt(dims));
    made.setAttribute("viewBox", `0 0 ${side} ${side}`);
    for (let i = 0; i < dims; i++) {
      const cell = document.createElementNS(SVG, "rect");
      const looks = { x: i % side, y: Math.floor(i / side), width: 1, height: 1, "fill-opacity": level(i) / 15 };
      Object.entries(looks).forEach(([name, value]) => cell.setAttribute(name, value));
      made.append(cell);
    }
    return made;
  }
  const keptFace = (line, i) => (line.patches ? patch(line.patches, i) : glyph(line.glyphs[i], line.dims));
  function fullFace(id) {
    const book = data.books[panel().book];
    const tile = book?.patches?.ids.indexOf(id) ?? -1;
    if (tile >= 0) return patch(book.patches, tile);
    return book && id in book.glyphs ? glyph(book.glyphs[id], book.dims) : element("span", { textContent: "?" });
  }
  const thumb = (face) => element("span", { className: "thumb" }, face);

  // -- the words ----------------------------------------------------------------------------------
  const MOST_TILES = 600;
  const NO_PIXELS = "This run has no pixels of its images: bowsaw compare keeps them if it is given the folder of images, or a store and --images FOLDER.";
  function nothingFor(section, having) {
    const note = find(".none", section);
    const where = Object.keys(having)[0];
    note.hidden = false;
    note.textContent = where
      ? `Not recorded for ${panel().title}. Choose ${data.panels[where].title} at the top to see it.`
      : "Not recorded.";
  }
  function only(section, there, having) {
    for (const part of section.children) {
      if (!part.matches("h2, .lead")) part.hidden = !there;
    }
    find(".none", section).hidden = true;
    if (!there) nothingFor(section, having);
    return there;
  }
  function drawWords() {
    const section = find("#words");
    if (!section) return;
    const line = wordsHere();
    find("#words-text").textContent = "";
    if (!only(section, Boolean(line), data.words)) {
      state.word = null;
      find("#mosaic").replaceChildren();
      find("#pruned").replaceChildren();
      return;
    }
    const n = line.ids.length;
    const order = line.ids.map((_, i) => i).sort((a, b) => line.mass[b] - line.mass[a]).slice(0, MOST_TILES);
    const gradients = "a drawing of its gradients (lines point where it gets brighter; \"flat\": a word of patches without gradients)";
    const what = line.patches ? "the patches nearest to it" : line.dims === 128 ? gradients : "its values";
    find("#words-text").textContent =
      `Each square is one of the ${grouped(n)} kept words, shown as ${what}, the most used first` +
      `${n > order.length ? ` (${grouped(order.length)} of them)` : ""}. Choose one to see which words' patches it inherits.${line.patches ? "" : ` ${NO_PIXELS}`}`;
    const mosaic = find("#mosaic");
    mosaic.className = n <= 60 ? "few" : "";
    mosaic.replaceChildren(...order.map((i) => {
      const tile = element("button", { type: "button", className: "tile" }, keptFace(line, i));
      tile.dataset.word = i;
      tile.setAttribute("aria-label", `word ${line.ids[i]}, ${percent(line.mass[i])} of the patches`);
      tile.addEventListener("click", () => choose(i));
      return tile;
    }));
    const gone = line.pruned;
    find("#pruned-text").textContent =
      `${grouped(line.n_pruned)} words were pruned. Above: a pruned word and its share of all patches; below: the word that inherits most of them, and the share it inherits.`;
    find("#pruned").replaceChildren(...gone.map(([id, mass, inheritor, part]) => element("span", {},
      thumb(fullFace(id)), element("span", { textContent: percent(mass) }), element("span", { textContent: "↓" }),
      thumb(keptFace(line, inheritor)), element("span", { textContent: percent(part) }))));
    choose(order[0], false);
  }
  function choose(word, andImage = true) {
    const line = wordsHere();
    state.word = word;
    for (const tile of all("#mosaic [data-word]")) {
      const chosen = Number(tile.dataset.word) === word;
      tile.setAttribute("aria-pressed", chosen);
      tile.tabIndex = chosen ? 0 : -1;
    }
    const given = element("span", { className: "given" }, ...line.from[word].map(([id, part]) =>
      element("span", {}, thumb(fullFace(id)), `word ${id}: ${percent(part)}`)));
    const moved = line.moved ? " It was also moved, to separate the classes better." : "";
    find("#word").replaceChildren(
      thumb(keptFace(line, word)),
      element("p", { textContent:
        `Word ${line.ids[word]} coded ${percent(line.kept[word])} of the patches before and codes ${percent(line.mass[word])} now.${moved} Its patches come from these words of the full codebook:` }),
      given);
    if (andImage) drawImage();
  }
  find("#mosaic")?.addEventListener("keydown", (event) => {
    const tiles = all("[data-word]", event.currentTarget);
    const at = tiles.indexOf(document.activeElement);
    const across = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    const next = at >= 0 && step && tiles[at + step];
    if (!next) return;
    event.preventDefault();
    choose(Number(next.dataset.word));
    next.focus();
  });

  // -- the image ----------------------------------------------------------------------------------
  const colour = (id, alpha) => `hsl(${(id * 137.508) % 360} 68% ${id % 2 ? 62 : 45}% / ${alpha})`;
  function imagesHere() { return data.images[state.panel]?.[state.method] ?? []; }
  function offerImages() {
    const menu = find("#image-choice");
    if (!menu) return;
    menu.replaceChildren(...imagesHere().map((shown, i) => element("option", { value: i, textContent: shown.name })));
    menu.parentElement.hidden = imagesHere().length < 2;
  }
  function drawImage() {
    const section = find("#image");
    if (!section) return;
    const shown = imagesHere()[Number(find("#image-choice").value) || 0];
    const after = shown?.after[size()];
    if (!only(section, Boolean(shown), data.images)) return;
    find("#image-choice").parentElement.hidden = imagesHere().length < 2;
    const ids = wordsHere()?.ids;
    paint("before", shown, shown.before, after, shown.before, "all words", shown.guess?.full);
    paint("after", shown, after, after, after?.map((i) => ids?.[i] ?? i), `${grouped(size())} words`, shown.guess?.[size()]);
  }
  function paint(role, shown, codes, after, colours, name, guess) {
    const canvas = find(`#image-${role}`);
    canvas.parentElement.hidden = !codes;
    if (!codes) return;
    const zoom = 3;
    canvas.width = zoom * shown.width;
    canvas.height = zoom * shown.height;
    const pen = canvas.getContext("2d");
    const cells = () => {
      const [wide, high] = shown.step;
      codes.forEach((_, i) => {
        pen.fillStyle = colour(colours[i], shown.jpeg ? 0.5 : 1);
        pen.fillRect(zoom * (shown.x[i] - wide / 2), zoom * (shown.y[i] - high / 2), zoom * wide, zoom * high);
      });
      pen.lineWidth = 4;
      after?.forEach((word, i) => {
        if (word !== state.word) return;
        const box = [zoom * (shown.x[i] - wide / 2) + 2, zoom * (shown.y[i] - high / 2) + 2, zoom * wide - 4, zoom * high - 4];
        pen.strokeStyle = "#fff";
        pen.strokeRect(...box);
        pen.strokeStyle = "#000";
        pen.lineWidth = 1.5;
        pen.strokeRect(...box);
        pen.lineWidth = 4;
      });
    };
    if (shown.jpeg) {
      const photo = new Image();
      photo.onload = () => { pen.drawImage(photo, 0, 0, canvas.width, canvas.height); cells(); };
      photo.src = `data:image/jpeg;base64,${shown.jpeg}`;
    } else cells();
    const different = new Set(codes).size;
    const taken = guess ? ` The image shows ${shown.class} and is recognised as ${guess}.` : "";
    const text = `With ${name}: ${grouped(codes.length)} patches are coded as ${grouped(different)} different words.${taken}`;
    find("#image-note").textContent = shown.jpeg ? "" : `The photograph is missing. ${NO_PIXELS}`;
    canvas.setAttribute("aria-label", `${shown.name}. ${text}`);
    find(`#image-${role}-text`).textContent = text;
  }
  find("#image-choice")?.addEventListener("change", drawImage);

  // -- the search ---------------------------------------------------------------------------------
  const traces = all("[data-trace]");
  function offerTraces() {
    const menu = find("#trace");
    if (!menu) return;
    const here = traces.filter((part) => part.dataset.panel === state.panel);
    menu.replaceChildren(...here.map((part) => element("option", { value: part.dataset.trace, textContent: part.dataset.title })));
    drawTrace();
  }
  function drawTrace() {
    const section = find("#search");
    if (!section) return;
    const wanted = find("#trace").value;
    for (const part of traces) part.hidden = part.dataset.panel !== state.panel || part.dataset.trace !== wanted;
    const having = Object.fromEntries(traces.map((part) => [part.dataset.panel, 1]));
    only(section, Boolean(wanted), having);
    find("#trace").parentElement.hidden = find("#trace").options.length < 2;
  }
  function followTrace() {
    const menu = find("#trace");
    const wanted = `${state.method}/${size()}`;
    if (menu && [...menu.options].some((option) => option.value === wanted)) {
      menu.value = wanted;
      drawTrace();
    }
  }
  find("#trace")?.addEventListener("change", drawTrace);

  // -- mistakes -----------------------------------------------------------------------------------
  const ownShares = (counts, n, wide) => Array.from({ length: n }, (_, i) => {
    const total = wide ? counts.slice(i * n, (i + 1) * n).reduce((a, b) => a + b, 0) : counts[2 * i + 1];
    return total ? (wide ? counts[i * n + i] : counts[2 * i]) / total : 0;
  });
  function drawConfusion() {
    const section = find("#confusion");
    if (!section) return;
    const { set, n_classes: n, wide, confusion } = panel();
    const tables = confusion[state.map] ?? {};
    const counts = { before: Object.values(tables.full ?? {})[0], after: tables[state.method]?.[size()] };
    for (const box of all("[data-set]", section)) {
      box.parentElement.hidden = box.dataset.set !== set;
      if (box.dataset.set !== set) continue;
      for (const grid of all("[data-role]", box)) {
        const shown = counts[grid.dataset.role];
        grid.parentElement.hidden = !shown;
        if (!shown) continue;
        if (grid.dataset.role === "after") grid.caption.textContent = `${state.method}, ${grouped(size())} words`;
        [...grid.tBodies[0].rows].forEach((row, i) => {
          const total = shown.slice(i * n, (i + 1) * n).reduce((a, b) => a + b, 0);
          [...row.cells].slice(1).forEach((cell, j) => {
            const part = total ? shown[i * n + j] / total : 0;
            cell.textContent = part >= 0.005 ? (100 * part).toFixed(0) : "";
            cell.style.setProperty("--share", part.toFixed(3));
          });
        });
      }
      const own = Object.fromEntries(Object.entries(counts).map(([role, c]) => [role, c && ownShares(c, n, wide)]));
      all(".classes tbody tr", box).forEach((row, place) => {
        // Sorting moves rows.
        const i = Number((row.dataset.label ??= place));
        const [before, after] = [own.before?.[i], own.after?.[i]];
        row.cells[1].textContent = before === undefined ? "—" : before.toFixed(3);
        row.cells[2].textContent = after === undefined ? "—" : after.toFixed(3);
        const change = after - before;
        row.cells[3].textContent = Number.isNaN(change) ? "—" : signed(change);
      });
    }
  }

  // -- the slider ---------------------------------------------------------------------------------
  const range = find("#size");
  const methods = find("#method");
  function offerMethods() {
    if (!range) return;
    const offered = panel().offered;
    methods.replaceChildren(...offered.map(({ method }) => element("option", { value: method, textContent: method })));
    find("#method-choice").hidden = offered.length < 2;
    if (!offered.some(({ method }) => method === state.method)) state.method = offered[0]?.method ?? null;
    methods.value = state.method;
    offerTraces();
    offerSizes();
  }
  function offerSizes() {
    const before = Number(range.dataset.words);
    const { sizes = [], start = 0 } = offer() ?? {};
    range.max = Math.max(0, sizes.length - 1);
    range.disabled = sizes.length < 2;
    state.place = sizes.includes(before) ? sizes.indexOf(before) : start;
    range.value = state.place;
    offerImages();
    sizeChanged();
  }
  function sizeChanged() {
    if (!range) return;
    const n = size();
    range.dataset.words = n;
    range.setAttribute("aria-valuetext", `${n} words`);
    const levels = panel().levels[state.map] ?? {};
    const now = levels[state.method]?.[n];
    const whole = Object.values(levels.full ?? {})[0];
    find("#size-text").textContent = `${grouped(n)} of ${grouped(panel().full_words)} words` +
      (now === undefined ? "" : `, accuracy ${now.toFixed(3)}`) +
      (whole === undefined ? "" : ` (all words: ${whole.toFixed(3)})`);
    drawWords();
    drawImage();
    followTrace();
    drawConfusion();
  }
  range?.addEventListener("input", () => { state.place = Number(range.value); sizeChanged(); });
  methods?.addEventListener("change", () => { state.method = methods.value; offerSizes(); });

  show();
  offerMethods();
})();
