// Text that agents wrote. It reaches the page only as text nodes, and nothing in it stays invisible.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const PICTURE = /\p{Extended_Pictographic}|\p{Emoji_Modifier}|\p{Regional_Indicator}/u;
const JOINERS = "\u200d\ufe0e\ufe0f"; // parts of an emoji, if they follow one
const PLAIN = "\n\t";

/** The text with control characters, direction marks and invisible characters shown as escapes. */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (mark, index, whole) => {
    if (PLAIN.includes(mark)) return mark;
    if (JOINERS.includes(mark) && PICTURE.test(before(whole, index))) return mark;
    return `\\u{${mark.codePointAt(0).toString(16)}}`;
  });
}

/** The first line, at most `most` characters long. */
export function brief(text, most = 140) {
  const line = visible(text).trim().split("\n", 1)[0];
  const letters = Array.from(line);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : line;
}

/** "1 file" or "3 files". `many` is the plural, unless it is `one` with an `s`. */
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** "3 more are". The server counts up to a thousand of the members that a page does not list. */
export const others = (number) => (number < 1000 ? count(number, "more is", "more are") : "1,000 or more are");

function before(text, index) {
  const previous = Array.from(text.slice(Math.max(0, index - 4), index)).filter((mark) => !JOINERS.includes(mark));
  return previous.pop() ?? "";
}
