// Running text to sentences, by the rules of elmox/text/sentences.py, which explains them. Tests compare
// the two, including every word of the lists.
//
// `(?=(?<name>x))\k<name>` is a possessive x: a lookahead is not entered again.

const words = (text) => new Set(text.split(" "));
const LEADING_ABBREVIATIONS = words(
  "Adm Atty Attys Brig Capt Cmdr Col Cpl Dr Fr Gen Gov Hon Lt Maj Messrs Mr Mrs Ms Mt Pres Prof Rep Reps " +
    "Rev Sen Sens Sgt St Ste Supt approx Attn attn ca cf eg Eg Esp esp ie incl tel Tel v viz vs e.g i.e",
);
const NUMBER_ABBREVIATIONS = words("Art art c Chap Ch Eq eq Fig Figs fig figs No no Nos nos p pp Vol vol");
const ABBREVIATIONS = words(
  "Assn Ave Bhd Bldg Blvd Bros Cie Co Corp Cos Dept Depts Est Ft Inc Jr Ltd Sr Univ " +
    "Jan Feb Apr Aug Sept Sep Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun " +
    "Ala Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb " +
    "Nev Okla Ont Ore Pa Que Tenn Tex Va Vt Wash Wis Wyo " +
    "al est etc Ext ext ft hrs lb lbs mins misc oz Para Ph Sc Sec yrs",
);
const STARTERS = words(
  "A After All Also Although An And Another As At Because Before Both But By During Each Even For From He " +
    "Her Here His How However I If In It Its Later Many More Most My No Not Now On One Only Other Our She " +
    "Since So Some Such That The Their Then There These They This Those Though Thus To Under Until We What " +
    "When Where Which While Who Why With Yet You Your",
);

// Python's \s, \w and \d; JavaScript's differ.
const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORD = "\\p{L}\\p{N}_";
const DIGIT = /^[\p{Nd}²³¹⁰⁴-⁹₀-₉]/u;
const OPENERS = "\"'“‘«(\\[{「『（";
const CLOSERS = "\"'”’»)\\]}」』）】》";
const END = new RegExp(
  `(?<![.!?…])(?=(?<mark>[.!?…]+(?:[${SPACES}]+[.!?…]+){0,8}))\\k<mark>` +
    `(?=(?<close>[${CLOSERS}]*))\\k<close>` +
    `(?=(?<smileys>(?:[${SPACES}]*[:;=]-?(?=(?<mouth>[()DP]+))\\k<mouth>(?![${WORD}]))*))\\k<smileys>` +
    `(?=[${SPACES}]+(?=(?<open>[${OPENERS}]*))\\k<open>(?<next>[${WORD}]+|[^${SPACES}]))` +
    `|[。！？｡।॥۔؟։።။។]+[${CLOSERS}]*`,
  "gu",
);
const LAST_WORD = new RegExp(`[${WORD}.]*$`, "u");
const LAST_WORD_REACH = 24;
const INITIALS = /^(?:[A-HJ-Z]|[A-Za-z](?:\.[A-Za-z])+|Ph\.D)$/;
const ITEM = new RegExp(`^[^${WORD}]{0,8}(?:\\p{Nd}{1,2}|[A-Za-z]|[ivxIVX]{1,4})$`, "u");
const LINE_BREAK = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;
const OUTER_SPACES = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, "gu");

// The sentences of a text that has a paragraph per line.
export function splitSentences(text) {
  return text.split(LINE_BREAK).flatMap(splitParagraph);
}

function splitParagraph(paragraph) {
  const pieces = [];
  let start = 0;
  for (const match of paragraph.matchAll(END)) {
    if (match.groups.mark !== undefined && !isEnd(paragraph, start, match)) continue;
    const end = match.index + match[0].length;
    pieces.push(paragraph.slice(start, end));
    start = end;
  }
  pieces.push(paragraph.slice(start));
  return pieces.map((piece) => piece.replace(OUTER_SPACES, "")).filter((sentence) => sentence !== "");
}

// Whether the sentence from `start` ends at the English end mark in `match`.
function isEnd(paragraph, start, match) {
  const { mark, close, next } = match.groups;
  const [word] = paragraph.slice(Math.max(start, match.index - LAST_WORD_REACH), match.index).match(LAST_WORD);
  if (mark === ".") {
    if (LEADING_ABBREVIATIONS.has(word) || ITEM.test(paragraph.slice(start, match.index))) return false;
    if (NUMBER_ABBREVIATIONS.has(word) && DIGIT.test(next)) return false;
    if (ABBREVIATIONS.has(word) || INITIALS.test(word)) {
      return STARTERS.has(next) || (word === "etc" && /^\p{Uppercase}/u.test(next));
    }
  }
  if (/^\p{Lowercase}/u.test(next)) {
    const isLower = /\p{Lowercase}/u.test(word) && !/[\p{Uppercase}\p{Lt}]/u.test(word);
    return isLower && close === "" && !["..", "…", ". "].includes(mark.slice(0, 2));
  }
  return true;
}
