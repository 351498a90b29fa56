// The two principal components of some vectors: the plane in which they are spread out most.

const MOST_STEPS = 2000;
const TOLERANCE = 1e-9;
const SAME = 1e-8; // of the mean square: vectors that differ by less are the same up to rounding

// vectors -> {points: [[x, y], ...], share}: positions in the plane, and the share of the variance that
// the plane keeps. Vectors that are all the same are all at the origin.
export function plane(vectors) {
  const { gram, meanSquare } = centeredGram(vectors);
  const n = vectors.length;
  const total = gram.reduce((sum, row, i) => sum + row[i], 0);
  if (n < 2 || total <= SAME * meanSquare * n) return { points: vectors.map(() => [0, 0]), share: 1 };
  const components = [];
  for (let k = 0; k < Math.min(2, n - 1); k++) components.push(eigenvector(gram, components));
  const points = vectors.map((_, i) => [0, 1].map((k) => (components[k] ? components[k].vector[i] * Math.sqrt(components[k].value) : 0)));
  return { points, share: components.reduce((sum, { value }) => sum + value, 0) / total };
}

// Inner products of the vectors after their mean is taken away: as large as there are vectors, which are
// fewer than they have numbers.
function centeredGram(vectors) {
  const gram = vectors.map((x, i) => Float64Array.from(vectors, (y, j) => (j <= i ? dot(x, y) : 0)));
  gram.forEach((row, i) => gram.slice(i + 1).forEach((other, k) => (row[i + 1 + k] = other[i])));
  const n = vectors.length;
  const meanSquare = gram.reduce((sum, row, i) => sum + row[i], 0) / n;
  const means = gram.map((row) => row.reduce((sum, value) => sum + value, 0) / n);
  const grand = means.reduce((sum, value) => sum + value, 0) / n;
  gram.forEach((row, i) => row.forEach((value, j) => (row[j] = value - means[i] - means[j] + grand)));
  return { gram, meanSquare };
}

// The eigenvector with the largest eigenvalue that is orthogonal to those before, by power iteration.
function eigenvector(matrix, before) {
  let vector = orthonormal(Float64Array.from(matrix, (_, i) => Math.cos(i + 1 + before.length)), before);
  let value = 0;
  for (let step = 0; step < MOST_STEPS; step++) {
    const product = Float64Array.from(matrix, (row) => dot(row, vector));
    value = dot(product, vector);
    const next = orthonormal(product, before);
    const change = Math.sqrt(next.reduce((sum, x, i) => sum + (x - vector[i]) ** 2, 0));
    vector = next;
    if (change < TOLERANCE) break;
  }
  return { vector, value: Math.max(0, value) };
}

function orthonormal(vector, before) {
  for (const { vector: other } of before) {
    const shadow = dot(vector, other);
    vector = vector.map((x, i) => x - shadow * other[i]);
  }
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((x) => x / length);
}

function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}
