// A small corpus whose words are looked at in all their sentences: the one of the page (corpus.json, with
// a sense for each sentence), or a text that the reader pastes.

import { html, useState } from "./vendor/preact/standalone.js";
import { Choice } from "./components.js";
import { once } from "./once.js";
import { splitSentences } from "./sentences.js";
import { useParameter } from "./state.js";

const MAX_CHARACTERS = 20_000; // of the reader's text
const AT_ONCE = 16; // sentences of similar length that are read together
const HAS_LETTER = /\p{L}/u;
const LONG_WORD = /[\p{L}\p{M}]{4,}/gu;

// {word: {sense: [sentence, ...]}}
export const loadBundled = once(readBundled);

async function readBundled() {
  const response = await fetch("corpus.json").catch(() => null);
  if (!response?.ok) throw new Error("corpus.json could not be downloaded: reload the page to try again.");
  return response.json();
}

// Which corpus: {isOwn, text, setSource, setText}. It is the same in all views.
export function useCorpus() {
  const [source, setSource] = useParameter("corpus", "page");
  const [text, setText] = useParameter("text", "");
  return { isOwn: source === "own", text, setSource, setText };
}

export function CorpusChoice({ corpus }) {
  const options = [
    { value: "page", label: "Sentences of this page" },
    { value: "own", label: "Your text" },
  ];
  return html`<div>
    <${Choice} label="Corpus" options=${options} value=${corpus.isOwn ? "own" : "page"} onChange=${corpus.setSource} />
    ${corpus.isOwn && html`<div class="field corpus-text">
      <label for="corpus-text">Text to look at</label>
      <textarea id="corpus-text" rows="6" spellcheck="false" placeholder="Paste a text here, for example an article."
        value=${corpus.text} onInput=${(event) => corpus.setText(event.target.value)}></textarea>
    </div>`}
  </div>`;
}

// The sentences of a corpus: [{text, word, sense}]; the reader's own have neither word nor sense.
export async function sentencesOf(corpus) {
  if (corpus.isOwn) return ownSentences(corpus.text);
  return Object.entries(await loadBundled()).flatMap(([word, senses]) =>
    Object.entries(senses).flatMap(([sense, texts]) => texts.map((text) => ({ text, word, sense }))),
  );
}

function ownSentences(text) {
  const size = text.length.toLocaleString("en");
  if (text.length > MAX_CHARACTERS) {
    throw new Error(
      `This text has ${size} characters. The page reads up to ${MAX_CHARACTERS.toLocaleString("en")}; ` +
        "elmox index reads files of any size.",
    );
  }
  const sentences = [...new Set(splitSentences(text))];
  if (sentences.length === 0) throw new Error("Paste a text of some sentences.");
  return sentences.map((sentence) => ({ text: sentence, word: null, sense: null }));
}

// A function that reads sentences, and how far it is, as text: [read, progress]. `read` resolves to the
// sentences with their tokens and vectors; it stops early if `isCurrent` turns false.
export function useReader(model) {
  const [progress, setProgress] = useState(null);
  const read = async (sentences, isCurrent) => {
    const byLength = sentences.map((_, i) => i).sort((i, j) => sentences[i].text.length - sentences[j].text.length);
    const results = [];
    for (let start = 0; start < byLength.length; start += AT_ONCE) {
      if (!isCurrent()) throw new Error("Replaced by another text.");
      if (byLength.length > AT_ONCE) setProgress(`Reading the corpus: ${start} of ${byLength.length} sentences`);
      const part = byLength.slice(start, start + AT_ONCE);
      const vectors = await model.layers(part.map((i) => sentences[i].text));
      part.forEach((i, k) => (results[i] = { ...sentences[i], ...vectors[k] }));
    }
    setProgress(null);
    return results;
  };
  return [read, progress];
}

// All uses of a word: [{sentence, position, sense}]; null for every use of every word with a letter.
export function usesOf(word, sentences) {
  const wanted = word?.toLowerCase();
  return sentences.flatMap((sentence) =>
    sentence.tokens.flatMap((token, position) => {
      const found = token.toLowerCase();
      if (wanted === undefined ? !HAS_LETTER.test(found) : found !== wanted) return [];
      return [{ sentence, position, sense: found === sentence.word ? sentence.sense : null }];
    }),
  );
}

// The most frequent words of more than three letters; shorter ones mostly have no meaning of their own.
export function frequentIn(sentences, number) {
  const counts = new Map();
  for (const { text } of sentences) {
    for (const [word] of text.toLowerCase().matchAll(LONG_WORD)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const frequent = [...counts].filter(([, count]) => count > 2).sort((x, y) => y[1] - x[1]);
  return frequent.slice(0, number).map(([word]) => word);
}

// [before, word, after]: the text of a sentence around one of its tokens. Tokens are parts of the text, in
// their order.
export function around({ sentence: { text, tokens }, position }) {
  let start = 0;
  let end = 0;
  for (const token of tokens.slice(0, position + 1)) {
    start = text.indexOf(token, end);
    end = start + token.length;
  }
  return [text.slice(0, start), text.slice(start, end), text.slice(end)];
}

// A sentence with one of its words marked.
export function MarkedSentence({ use }) {
  const [before, word, after] = around(use);
  return html`<span class="marked">${before}<mark>${word}</mark>${after}</span>`;
}
