// Little-endian float16 bytes to a Float32Array, by a table of all 65,536 values.

let table = null;

export function decodeFloat16(bytes) {
  table ??= Float32Array.from({ length: 65536 }, (_, bits) => value(bits));
  const halves = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const numbers = new Float32Array(bytes.byteLength / 2);
  for (let i = 0; i < numbers.length; i++) numbers[i] = table[halves.getUint16(2 * i, true)];
  return numbers;
}

function value(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
