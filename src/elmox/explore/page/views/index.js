// The views in the order of their tabs. A view is one file, an import and one entry here.
//
// A view is a component that gets {model, mix}:
// - its state is in the URL (`useParameter`), so that a link reproduces it;
// - its numbers come from `model` (see model.js) through `useResult` and `Outcome`, which show the
//   computation's progress and its errors;
// - its pictures (`Bars`, `HeatMap`, `Scatter`) are drawn inside a `Figure`, which adds the downloads
//   and a table of the numbers, for screen readers and for tests;
// - the vectors of a chosen layer or of the mix come from `vectorsOf` (see mix.js).
//
// `needs` names what a model must have: "softmax" or "words" (a list of frequent words); otherwise the
// tab is disabled. `usesMix: false` hides the sliders of the mix.

import { Compare } from "./compare.js";
import { Pairs } from "./pairs.js";
import { Surprise } from "./surprise.js";
import { FillGap } from "./fill_gap.js";
import { Spelling } from "./spelling.js";
import { SenseMap } from "./sense_map.js";
import { Contexts } from "./contexts.js";
import { Edit } from "./edit.js";
import { Tags } from "./tags.js";

export const VIEWS = [
  {
    id: "compare",
    title: "One word, two sentences",
    summary: "How alike are two uses of a word, layer by layer?",
    component: Compare,
  },
  {
    id: "pairs",
    title: "All pairs",
    summary: "Every word of one sentence with every word of another.",
    component: Pairs,
  },
  {
    id: "map",
    title: "Sense map",
    summary: "Every use of a word in a corpus as a point: do the layers tell its senses apart?",
    component: SenseMap,
  },
  {
    id: "contexts",
    title: "Nearest contexts",
    summary: "Which uses in a corpus are most like this one?",
    component: Contexts,
  },
  {
    id: "surprise",
    title: "Surprise",
    summary: "Which words does the language model expect, reading from the left and from the right?",
    component: Surprise,
    usesMix: false,
    needs: "softmax",
  },
  {
    id: "gap",
    title: "Fill the gap",
    summary: "Which words fit, judged from the left, from the right, and from both sides?",
    component: FillGap,
    usesMix: false,
    needs: "softmax",
  },
  {
    id: "spelling",
    title: "Spelling",
    summary: "ELMo reads letters: see which words a spelling is close to, as you type.",
    component: Spelling,
    usesMix: false,
    needs: "words",
  },
  {
    id: "edit",
    title: "Edit a word",
    summary: "Replace one word: how far does every other word move?",
    component: Edit,
  },
  {
    id: "tags",
    title: "Tags",
    summary: "What task models find in a sentence: parts of speech, names, dependencies, roles.",
    component: Tags,
    usesMix: false,
  },
];
