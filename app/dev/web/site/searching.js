// Searches the sections of the documentation; loaded with the first search.

import MiniSearch from "minisearch";

const MOST = 12;
const AROUND = 70; // characters on each side of a match

export async function openIndex() {
  const sections = await (await fetch("/assets/search.json")).json();
  const index = new MiniSearch({
    fields: ["title", "heading", "text"],
    storeFields: ["title", "heading", "text"],
    searchOptions: { boost: { heading: 4, title: 3 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
  });
  index.addAll(sections);
  return { find: (words) => index.search(words).slice(0, MOST).map(entry) };
}

function entry({ id, title, heading, text, terms }) {
  const link = Object.assign(document.createElement("a"), { href: id });
  const name = Object.assign(document.createElement("b"), { textContent: heading === title ? title : `${title} › ${heading}` });
  link.append(name, excerpt(text, terms));
  const item = document.createElement("li");
  item.append(link);
  return item;
}

/** The text around the first match, which is marked. */
function excerpt(text, terms) {
  const words = text.toLowerCase();
  const places = terms.map((term) => [words.indexOf(` ${term}`) + 1 || words.indexOf(term), term]); // rather where a word begins
  const [at, term] = places.find(([at]) => at >= 0) ?? [0, ""];
  const span = document.createElement("span");
  const mark = Object.assign(document.createElement("mark"), { textContent: text.slice(at, at + term.length) });
  span.append(text.slice(Math.max(0, at - AROUND), at).replace(/^\S*\s/, at > AROUND ? "… " : ""), mark, text.slice(at + term.length, at + term.length + 2 * AROUND));
  return span;
}
