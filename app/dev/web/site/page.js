// What the landing page, the documentation and the schema do in the browser: copy, search, filter.

import "./page.css";
import { highlight } from "./highlighting.js";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

for (const code of all("code[data-language]")) code.innerHTML = highlight(code.textContent, code.dataset.language);

// ---- Copy: every code block, and buttons with an address or a text

function copies(button, read) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(await read());
    button.dataset.done = "";
    setTimeout(() => delete button.dataset.done, 1500);
  });
}

for (const pre of all("pre")) {
  const block = Object.assign(document.createElement("div"), { className: "block" });
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
  pre.replaceWith(block);
  block.append(pre, button);
  copies(button, () => pre.innerText);
}
for (const button of all("[data-text]")) copies(button, () => button.dataset.text);
for (const button of all("[data-copy]")) copies(button, async () => (await fetch(button.dataset.copy)).text());

// ---- The filter of the schema's index

const NO_RESULTS = "No results. Try a shorter word.";
const filter = document.querySelector("[data-filter]");
filter?.addEventListener("input", () => {
  const words = filter.value.trim().toLowerCase();
  const matches = (link) => link.textContent.toLowerCase().includes(words);
  for (const group of all(".side section")) {
    const isRoot = group.matches("[data-root]");
    for (const field of all("li:not(:has(ul))", group)) field.hidden = words ? !matches(field.firstChild) : !isRoot;
    for (const type of all("li:has(> ul)", group)) type.hidden = !matches(type.firstChild) && !type.querySelector("li:not([hidden])");
    group.hidden = !group.querySelector("ul > li:not([hidden])");
  }
  filter.nextElementSibling.textContent = document.querySelector(".side section:not([hidden])") ? "" : NO_RESULTS;
});

// ---- The search of the documentation

const dialog = document.querySelector("dialog");
if (dialog) {
  const [input, list] = [dialog.querySelector("input"), dialog.querySelector("ol")];
  let index;
  const open = async () => {
    dialog.showModal();
    input.select();
    const { openIndex } = await import("./searching.js");
    index ??= await openIndex();
    show();
  };
  const show = () => {
    list.replaceChildren(...(index?.find(input.value) ?? []));
    list.nextElementSibling.textContent = index && input.value.trim() && !list.firstChild ? NO_RESULTS : "";
  };
  for (const button of all("[data-search]")) button.addEventListener("click", open);
  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, textarea, select");
    if ((event.key === "/" && !isTyping) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      open();
    }
  });
  input.addEventListener("input", show);
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && event.target === input) list.querySelector("a")?.click();
    if (!step) return;
    event.preventDefault();
    const stops = [input, ...all("a", list)];
    stops.at((stops.indexOf(document.activeElement) + step) % stops.length).focus();
  });
  dialog.addEventListener("click", ({ target }) => (target === dialog || target.closest("a")) && dialog.close());
}
