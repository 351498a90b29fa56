// Text to tokens, by the expression that `elmox export` translates from Python's.

// The expression of tokenizer.json; %3% in it refers to a character class. Null if there is none.
export function tokenPattern({ source, classes, flags }) {
  if (source === null) return null;
  return new RegExp(source.replace(/%(\d+)%/g, (_, i) => classes[i]), flags);
}

// The tokens of one raw sentence, the same as in Python.
export function tokenize(pattern, sentence) {
  return sentence.match(pattern) ?? [];
}

// A token as it can be shown: control characters and spaces have pictures of their own.
export function visible(token) {
  const picture = (code) => String.fromCharCode(code === 0x7f ? 0x2421 : 0x2400 + code);
  return token.replace(/[\u0000-\u0020\u007f]/g, (character) => picture(character.charCodeAt(0))) || "␀";
}
