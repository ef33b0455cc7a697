(() => {
  "use strict";
  const find = (selector) => document.querySelector(selector);
  const root = document.documentElement;
  const data = JSON.parse(find("#data").textContent);
  const { classes, patch, step } = data;
  root.classList.add("js");

  // -- the theme, which is not remembered ---------------------------------------------------------
  const theme = find("#theme");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  nameTheme();

  // -- the worker ---------------------------------------------------------------------------------
  const source = new Blob([find("#worker").textContent], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(source));
  const waiting = new Map();
  worker.postMessage({ setup: data });
  worker.onmessage = ({ data: { id, answer, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(error)); else resolve(answer);
  };
  let last = 0;
  // An image's file, or its grey pixels as {grey, width, height}; also for the console.
  const recognise = (given) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    worker.postMessage({ id: last, given });
  });
  globalThis.recognise = recognise;

  // -- the answer ---------------------------------------------------------------------------------
  const say = (text) => { find("#status").textContent = text; };
  let shown = null;

  async function show(file) {
    const mine = last + 1;
    say("Recognising…");
    try {
      const answer = await recognise(file);
      if (mine !== last) return;
      shown = { ...answer, name: file.name, chosen: answer.label };
      drawAnswer();
      say("");
    } catch (error) {
      if (mine === last) say(error.message);
    }
  }

  function drawAnswer() {
    const { scores, label, ms } = shown;
    const order = scores.map((_, c) => c).sort((a, b) => scores[b] - scores[a]);
    find("#class").textContent = classes[label];
    const lead = (scores[label] - scores[order[1]]).toFixed(2);
    find("#margin").textContent = `${lead} ahead of ${classes[order[1]]}`;
    const total = Math.round(ms.decoding + ms.describing + ms.coding);
    const parts = Object.entries(ms).map(([name, time]) => `${name} ${Math.round(time)}`);
    find("#time").textContent = `${total} ms (${parts.join(", ")})`;
    const low = Math.min(0, ...scores), range = Math.max(0, ...scores) - low || 1;
    find("#scores").replaceChildren(...order.map((c) => {
      const row = document.createElement("label"), radio = document.createElement("input");
      radio.type = "radio";
      radio.name = "class";
      radio.value = c;
      radio.checked = c === label;
      radio.addEventListener("change", () => { shown.chosen = c; drawImageAndPatches(); });
      const name = document.createElement("span"), bar = document.createElement("i"), score = document.createElement("b");
      name.textContent = classes[c];
      score.textContent = scores[c].toFixed(2).replace("-", "−");
      bar.className = scores[c] < 0 ? "less" : "";
      bar.style.setProperty("--from", `${100 * (Math.min(0, scores[c]) - low) / range}%`);
      bar.style.setProperty("--size", `${100 * Math.abs(scores[c]) / range}%`);
      row.append(radio, name, bar, score);
      return row;
    }));
    find("#result").hidden = false;
    root.classList.add("used");
    drawImageAndPatches();
  }

  // -- the image and its patches ----------------------------------------------------------------
  const MOST = 10;
  // Patches that do not overlap; of equal ones, those whose neighbours count as well.
  function strongest(part, columns, rows) {
    const near = part.map((_, p) => {
      let sum = 0;
      const x = p % columns, y = Math.floor(p / columns);
      for (let j = Math.max(0, y - 1); j <= Math.min(rows - 1, y + 1); j++) {
        for (let i = Math.max(0, x - 1); i <= Math.min(columns - 1, x + 1); i++) sum += part[j * columns + i];
      }
      return sum;
    });
    const order = [...part.keys()].filter((p) => part[p] > 0).sort((a, b) => part[b] - part[a] || near[b] - near[a]);
    const best = [], apart = (i) => Math.abs(i) * step >= patch;
    for (const p of order) {
      const y = Math.floor(p / columns);
      if (best.every((q) => apart(p % columns - q % columns) || apart(y - Math.floor(q / columns)))) best.push(p);
      if (best.length === MOST) break;
    }
    return best;
  }

  function drawImageAndPatches() {
    const { image, width, height, columns, rows, left, top, chosen, parts, name } = shown;
    const canvas = find("#image"), context = canvas.getContext("2d");
    const zoom = Math.max(1, 900 / Math.max(width, height));
    canvas.width = Math.round(width * zoom);
    canvas.height = Math.round(height * zoom);
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const part = parts[chosen], best = strongest(part, columns, rows);
    const title = name ? `The image ${name}` : "The image";
    canvas.setAttribute("aria-label", `${title}; ${best.length} patches that count most for ${classes[chosen]} are outlined`);
    find("#for").textContent = find("#against").textContent = classes[chosen];
    if (!find("#show").checked) return;
    // Grey and pale, so that the colours are those of the patches.
    for (const [how, color] of [["saturation", "#808080"], ["source-over", "rgb(150 150 150 / 45%)"]]) {
      context.globalCompositeOperation = how;
      context.fillStyle = color;
      context.fillRect(0, 0, canvas.width, canvas.height);
    }
    const full = part.map(Math.abs).sort()[Math.floor(0.95 * part.length)] || 1;
    const heat = new OffscreenCanvas(columns, rows), pen = heat.getContext("2d");
    const pixels = pen.createImageData(columns, rows);
    part.forEach((value, p) => {
      pixels.data.set(value > 0 ? [255, 120, 0] : [0, 90, 230], 4 * p);
      pixels.data[4 * p + 3] = 200 * Math.min(1, Math.abs(value) / full);
    });
    pen.putImageData(pixels, 0, 0);
    // A patch has the square of one step at its middle.
    const edge = (patch - step) / 2;
    context.drawImage(heat, (left + edge) * zoom, (top + edge) * zoom, columns * step * zoom, rows * step * zoom);
    const outline = (p, color, thick) => {
      context.strokeStyle = color;
      context.lineWidth = thick;
      const x = left + (p % columns) * step, y = top + Math.floor(p / columns) * step;
      context.strokeRect(x * zoom, y * zoom, patch * zoom, patch * zoom);
    };
    best.forEach((p) => outline(p, "#000", 6));
    best.forEach((p) => outline(p, "#ffd24d", 3));
  }
  find("#show").addEventListener("change", drawImageAndPatches);

  // -- how images come in -----------------------------------------------------------------------
  const input = find("#file");
  find("#choose").addEventListener("click", () => input.click());
  const take = (files) => {
    if (files.length) show(files[0]);
    else say("That was not a file. Save the image first, then drop the file.");
  };
  input.addEventListener("change", () => { if (input.files.length) take(input.files); input.value = ""; });
  addEventListener("dragover", (event) => { event.preventDefault(); root.classList.add("over"); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) root.classList.remove("over"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    root.classList.remove("over");
    take(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => { if (event.clipboardData.files.length) take(event.clipboardData.files); });
})();
