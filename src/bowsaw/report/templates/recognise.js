// From pixels to a class, in a worker. The steps are those that bowsaw.images.decode (reduction) and
// bowsaw.descriptors.dense_sift define; sums are in double precision.
"use strict";

function reducedSize(width, height, most) {
  const longest = Math.max(width, height);
  if (!most || longest <= most) return [width, height];
  return [width, height].map((side) => Math.max(1, Math.floor((2 * side * most + longest) / (2 * longest))));
}

// Sums over the parts of the rows (or columns) that each new one covers, in whole numbers.
function overlaps(length, size) {
  const all = [];
  for (let i = 0; i < size; i++) {
    const begin = i * length, end = begin + length;
    for (let x = Math.floor(begin / size); x * size < end; x++) {
      all.push([i, x, Math.min(end, (x + 1) * size) - Math.max(begin, x * size)]);
    }
  }
  return all;
}

function reduce(grey, width, height, most) {
  const [w, h] = reducedSize(width, height, most);
  if (w === width && h === height) return { grey, width, height };
  const strip = new Float64Array(width * h), sums = new Float64Array(w * h);
  for (const [i, y, part] of overlaps(height, h)) {
    for (let x = 0; x < width; x++) strip[i * width + x] += part * grey[y * width + x];
  }
  for (const [i, x, part] of overlaps(width, w)) {
    for (let y = 0; y < h; y++) sums[y * w + i] += part * strip[y * width + x];
  }
  const area = width * height, small = new Uint8Array(w * h);
  for (let i = 0; i < small.length; i++) small[i] = Math.floor((2 * sums[i] + area) / (2 * area));
  return { grey: small, width: w, height: h };
}

// Where patches begin along a side, and the lattice of their cells.
function grid(length, { patch, step }) {
  const cell = patch / 4, begin = Math.floor(((length - patch) % step) / 2);
  const n = Math.floor((length - patch) / step) + 1;
  let stride = step;
  for (let rest = cell; rest; ) [stride, rest] = [rest, stride % rest];
  const cells = [];
  for (let corner = begin; corner <= begin + (n - 1) * step + 3 * cell; corner += stride) {
    const taps = [], middle = corner + (cell - 1) / 2;
    for (let q = Math.max(0, Math.ceil(middle - cell)); q < Math.min(length, middle + cell); q++) {
      const weight = Math.max(0, 1 - Math.abs(q - middle) / cell);
      if (weight) taps.push([q, weight]);
    }
    cells.push(taps);
  }
  return { begin, n, cells, perStep: step / stride, perCell: cell / stride };
}

function describe(grey, width, height, model) {
  const { patch } = model;
  const across = grid(width, model), down = grid(height, model);
  const nColumns = across.cells.length, line = new Float64Array(8 * nColumns);
  const maps = down.cells.map(() => new Float64Array(8 * nColumns));
  const takers = Array.from({ length: height }, () => []);
  down.cells.forEach((taps, r) => taps.forEach(([y, weight]) => takers[y].push([maps[r], weight])));
  const low = new Int32Array(width), at = new Float64Array(2 * width);
  for (let y = 0; y < height; y++) {
    if (!takers[y].length) continue;
    const here = y * width, above = Math.max(y - 1, 0) * width, below = Math.min(y + 1, height - 1) * width;
    for (let x = 0; x < width; x++) {
      const dx = (grey[here + Math.min(x + 1, width - 1)] - grey[here + Math.max(x - 1, 0)]) / 2;
      const dy = (grey[below + x] - grey[above + x]) / 2;
      const size = Math.sqrt(dx * dx + dy * dy);
      let angle = Math.atan2(dy, dx) * (4 / Math.PI);
      if (angle < 0) angle += 8;
      const bin = Math.floor(angle);
      low[x] = bin & 7;
      at[2 * x] = size * (1 - (angle - bin));
      at[2 * x + 1] = size * (angle - bin);
    }
    line.fill(0);
    across.cells.forEach((taps, c) => {
      for (const [x, weight] of taps) {
        line[8 * c + low[x]] += weight * at[2 * x];
        line[8 * c + ((low[x] + 1) & 7)] += weight * at[2 * x + 1];
      }
    });
    for (const [map, weight] of takers[y]) {
      for (let i = 0; i < line.length; i++) map[i] += weight * line[i];
    }
  }
  const threshold = model.min_contrast * 255 * (patch / 4) ** 2 / 16;
  const count = across.n * down.n;
  const out = model.bytes ? new Uint8Array(128 * count) : new Float32Array(128 * count);
  const v = new Float64Array(128);
  const norm = () => Math.sqrt(v.reduce((sum, one) => sum + one * one, 0));
  for (let p = 0; p < count; p++) {
    const row = Math.floor(p / across.n) * down.perStep, column = (p % across.n) * across.perStep;
    for (let i = 0, k = 0; i < 4; i++) {
      for (let j = 0; j < 4; j++, k += 8) {
        const first = 8 * (column + j * across.perCell), map = maps[row + i * down.perCell];
        for (let o = 0; o < 8; o++) v[k + o] = map[first + o];
      }
    }
    const raw = norm();
    if (raw <= 0) continue;
    for (let d = 0; d < 128; d++) v[d] = Math.min(v[d] / raw, 0.2);
    let factor = model.scale / norm();
    if (raw < threshold) factor *= raw / threshold;
    for (let d = 0; d < 128; d++) {
      out[128 * p + d] = model.bytes ? Math.min(v[d] * factor + 0.5, 255) : v[d] * factor;
    }
  }
  return { descriptors: out, columns: across.n, rows: down.n, left: across.begin, top: down.begin };
}

// In single precision and in the order of the dimensions, as in Python.
function project(descriptors, { mean, matrix, n_dims: D }) {
  const from = mean.length, n = descriptors.length / from, out = new Float32Array(n * D);
  const f = Math.fround;
  for (let p = 0; p < n; p++) {
    for (let i = 0; i < from; i++) {
      const value = f(descriptors[p * from + i] - mean[i]);
      for (let d = 0; d < D; d++) out[p * D + d] += f(value * matrix[i * D + d]);
    }
  }
  return out;
}

// Squared distances are sums in the order of the dimensions, as in Python; the first word wins ties.
function code(descriptors, model) {
  const { words, n_words: K, n_dims: D, coding, factor } = model;
  const n = descriptors.length / D, codes = new Int32Array(n);
  const shares = coding === "soft" ? new Float32Array(n * K) : null;
  const distances = new Float64Array(K), histogram = new Float64Array(K);
  for (let p = 0; p < n; p++) {
    let least = Infinity;
    for (let k = 0; k < K; k++) {
      let sum = 0;
      for (let d = 0; d < D && (shares || sum < least); d++) {
        const difference = descriptors[p * D + d] - words[k * D + d];
        sum += difference * difference;
      }
      distances[k] = sum;
      if (sum < least) [least, codes[p]] = [sum, k];
    }
    if (!shares) {
      histogram[codes[p]] += 1;
      continue;
    }
    let total = 0;
    for (let k = 0; k < K; k++) {
      distances[k] = Math.exp((least - distances[k]) * factor);
      total += distances[k];
    }
    for (let k = 0; k < K; k++) histogram[k] += (shares[p * K + k] = distances[k] / total);
  }
  return { codes, shares, histogram: Float32Array.from(histogram, (sum) => sum / n), n };
}

// The score of a class is a sum over the words; each word's part goes to the patches that count for it.
function decide({ codes, shares, histogram, n }, model) {
  const { weights, intercepts, n_words: K, mapping, mapping_scale: scale } = model;
  const binary = intercepts.length === 1, scores = [], parts = [];
  for (let c = 0; c < model.classes.length; c++) {
    const machine = binary ? 0 : c, sign = binary && c === 0 ? -1 : 1;
    let score = 0;
    const perUnit = new Float64Array(K), part = new Float32Array(n);
    for (let k = 0; k < K; k++) {
      const value = mapping === "sqrt" ? Math.sqrt(histogram[k]) : histogram[k];
      const term = value * scale * weights[machine * K + k];
      score += term;
      perUnit[k] = histogram[k] > 0 ? sign * term / (histogram[k] * n) : 0;
    }
    for (let p = 0; p < n; p++) {
      if (!shares) part[p] = perUnit[codes[p]];
      else for (let k = 0; k < K; k++) part[p] += shares[p * K + k] * perUnit[k];
    }
    scores.push(sign * (score + intercepts[machine]));
    parts.push(part);
  }
  return { scores, label: scores.indexOf(Math.max(...scores)), parts };
}

// The grey of OpenCV, on white where the image is transparent.
async function decode(blob) {
  const image = await createImageBitmap(blob, { colorSpaceConversion: "none" }).catch(() => {
    throw new Error("This is not an image that the browser can read.");
  });
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const grey = new Uint8Array(width * height);
  for (let i = 0; i < grey.length; i++) {
    grey[i] = (9798 * data[4 * i] + 19235 * data[4 * i + 1] + 3735 * data[4 * i + 2] + 16384) >> 15;
  }
  return { grey, width, height, image };
}

async function recognise(given, model) {
  const start = performance.now();
  const { grey, width, height, image } = given instanceof Blob ? await decode(given) : given;
  const decoded = performance.now();
  const small = reduce(grey, width, height, model.max_side);
  if (Math.min(small.width, small.height) < model.patch) {
    const size = `${small.width} × ${small.height}`;
    throw new Error(`The image is too small: ${size} pixels, and a patch needs ${model.patch}.`);
  }
  const found = describe(small.grey, small.width, small.height, model);
  const described = performance.now();
  const coded = code(model.matrix ? project(found.descriptors, model) : found.descriptors, model);
  const answer = decide(coded, model);
  const end = performance.now();
  const ms = { decoding: decoded - start, describing: described - decoded, coding: end - described };
  return { ...found, ...answer, width: small.width, height: small.height, ms, image };
}

let model;
onmessage = async ({ data: { id, setup, given } }) => {
  if (setup) {
    const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer;
    model = { ...setup };
    for (const name of ["words", "mean", "matrix"]) {
      if (setup[name]) model[name] = new Float32Array(bytes(setup[name]));
    }
    for (const name of ["weights", "intercepts"]) model[name] = new Float64Array(bytes(setup[name]));
    // Once, so that this code is compiled before the first image comes.
    const noise = Uint8Array.from({ length: 200 * 200 }, (_, i) => (i * i) % 251);
    recognise({ grey: noise, width: 200, height: 200 }, model).catch(() => {});
    return;
  }
  try {
    const answer = await recognise(given, model);
    postMessage({ id, answer }, answer.image ? [answer.image] : []);
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
