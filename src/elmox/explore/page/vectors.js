// Numbers about vectors: cosines, and mixes of layers.

export function cosine(a, b) {
  let dot = 0;
  let squareA = 0;
  let squareB = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    squareA += a[i] * a[i];
    squareB += b[i] * b[i];
  }
  const norms = Math.sqrt(squareA * squareB);
  return norms > 0 ? dot / norms : 0;
}

// A number with so many digits after the point, as it is shown: a real minus, and no minus zero.
export function fixed(number, digits) {
  const text = number.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

// Weights of any size -> positive ones that sum to 1: the s_j of equation 1 of the paper.
export function softmax(weights) {
  const largest = Math.max(...weights);
  const terms = weights.map((weight) => Math.exp(weight - largest));
  const total = terms.reduce((sum, term) => sum + term, 0);
  return terms.map((term) => term / total);
}

// The sum of some vectors, each times its coefficient.
export function combined(vectors, coefficients) {
  const sum = new Float32Array(vectors[0].length);
  vectors.forEach((vector, j) => {
    for (let i = 0; i < sum.length; i++) sum[i] += coefficients[j] * vector[i];
  });
  return sum;
}
