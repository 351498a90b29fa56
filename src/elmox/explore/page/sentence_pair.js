// The two sentences and the word in each that several views share, kept in the URL.

import { html } from "./vendor/preact/standalone.js";
import { Examples, SentenceField } from "./components.js";
import { useResult } from "./hooks.js";
import { PAIRS } from "./senses.js";
import { useParameter, writeState } from "./state.js";

const FIRST = "present";

// {a, b, word, setWord}: texts, and the position of the chosen word in each as text ("" for none).
export function useSentencePair() {
  const [a] = useParameter("a", PAIRS[FIRST][0]);
  const [b] = useParameter("b", PAIRS[FIRST][1]);
  const [wordA, setWordA] = useParameter("wa", "");
  const [wordB, setWordB] = useParameter("wb", "");
  return { a, b, wordA, wordB, setWordA, setWordB };
}

// The layers of both sentences, {a, b}, as `useResult` returns them.
export function usePairLayers(model, pair) {
  return useResult(async () => {
    const [a, b] = await model.layers([pair.a, pair.b]);
    return { a, b };
  }, [pair.a, pair.b]);
}

export function SentencePair({ pair }) {
  // Another sentence has other words: the choice of a word goes with it.
  const change = (name) => (text) => writeState({ [name]: text, [name === "a" ? "wa" : "wb"]: null });
  const examples = Object.entries(PAIRS).map(([word, [a, b]]) => ({
    label: word,
    apply: () => writeState({ a, b, wa: null, wb: null }),
  }));
  return html`<div>
    <div class="pair">
      <${SentenceField} id="sentence-a" label="Sentence A" tone="a" value=${pair.a} onInput=${change("a")} />
      <${SentenceField} id="sentence-b" label="Sentence B" tone="b" value=${pair.b} onInput=${change("b")} />
    </div>
    <${Examples} examples=${examples} />
  </div>`;
}

// The positions of the chosen words: those in the URL if there are such words, otherwise those of the
// longest word that both sentences have.
export function chosenPositions(pair, tokensA, tokensB) {
  const shared = tokensA
    .filter((token) => tokensB.some((other) => same(token, other)))
    .sort((x, y) => y.length - x.length)[0];
  const position = (chosen, tokens) => {
    const number = chosen === "" ? NaN : Number(chosen);
    if (Number.isInteger(number) && number >= 0 && number < tokens.length) return number;
    return Math.max(0, shared === undefined ? 0 : tokens.findIndex((token) => same(token, shared)));
  };
  return [position(pair.wordA, tokensA), position(pair.wordB, tokensB)];
}

function same(token, other) {
  return token.toLowerCase() === other.toLowerCase();
}
