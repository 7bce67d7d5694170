// Searches the sections of the documentation; loaded with the first search.

import MiniSearch from "minisearch";

const MOST = 12;
const AROUND = 70; // characters on each side of a match

export async function openIndex() {
  const sections = await (await fetch("/assets/search.json")).json();
  const index = new MiniSearch({
    fields: ["title", "heading", "names", "text"],
    storeFields: ["title", "heading", "text"],
    tokenize: (text) => words(text).flatMap((word) => (word.includes("_") ? [word, ...word.split("_")] : word)),
    searchOptions: {
      tokenize: words, // a name such as CARE_RATE_LIMIT is one word of a search
      boost: { heading: 4, title: 3, names: 3 },
      prefix: true,
      fuzzy: (term) => (term.length > 4 && !term.includes("_") ? 0.15 : 0),
      combineWith: "AND",
    },
  });
  index.addAll(sections);
  return { find: (text) => index.search(text).slice(0, MOST).map(entry) };
}

const words = (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [];

function entry({ id, title, heading, text, terms, queryTerms }) {
  const link = Object.assign(document.createElement("a"), { href: id });
  const name = Object.assign(document.createElement("b"), { textContent: heading === title ? title : `${title} › ${heading}` });
  link.append(name, excerpt(text, [...queryTerms, ...terms]));
  const item = document.createElement("li");
  item.append(link);
  return item;
}

/** The text around the first term in it, which is marked. */
function excerpt(text, terms) {
  const lower = text.toLowerCase();
  // Rather where a word begins.
  const places = terms.map((term) => [lower.search(new RegExp(`(?<![\\p{L}\\p{N}_])${term.toLowerCase()}`, "u")), term]);
  const [at, term] = places.find(([at]) => at >= 0) ?? [0, ""];
  const span = document.createElement("span");
  const mark = Object.assign(document.createElement("mark"), { textContent: text.slice(at, at + term.length) });
  span.append(text.slice(Math.max(0, at - AROUND), at).replace(/^\S*\s/, at > AROUND ? "… " : ""), mark, text.slice(at + term.length, at + term.length + 2 * AROUND));
  return span;
}
