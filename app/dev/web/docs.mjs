// Renders docs/README.md and every file that it leads to, with a side bar and the index of the search.

import { readFileSync } from "node:fs";
import { basename, posix } from "node:path";
import MarkdownIt from "markdown-it";
import anchor from "markdown-it-anchor";
import { graphiqlLink } from "./links.mjs";
import { highlight } from "./site/highlighting.js";

const START = "docs/README.md";
const THIS_SERVICE = /^http:\/\/127\.0\.0\.1:8000(?=\/)/;

export const markdown = new MarkdownIt();
const { escapeHtml } = markdown.utils;
markdown.use(anchor, {
  slugify: (text) => text.trim().toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-"), // as code hosts do
  callback: (heading, { title }) => (heading.meta = { title }),
  permalink: anchor.permalink.linkInsideHeader({ class: "anchor", symbol: "#", ariaHidden: true, renderAttrs: () => ({ tabindex: -1 }) }),
});
markdown.renderer.rules.fence = (tokens, at) => block(tokens[at].content, ...tokens[at].info.split(" ")) + tryLink(tokens, at);
// In the narrow columns of a table a long name breaks after `_`.
let isInTable = false;
markdown.renderer.rules.code_inline = (tokens, at) =>
  `<code>${escapeHtml(tokens[at].content).replaceAll("_", isInTable ? "_<wbr>" : "_")}</code>`;
markdown.renderer.rules.table_open = () => ((isInTable = true), '<div class="wide" tabindex="0"><table>\n');
markdown.renderer.rules.table_close = () => ((isInTable = false), "</table></div>\n");
markdown.core.ruler.push("links", ({ tokens, env }) => {
  for (const link of tokens.flatMap(({ children }) => children ?? []).filter(({ type }) => type === "link_open")) {
    const [file, slug = ""] = link.attrGet("href").split(/(?=#)/);
    if (/^(#|[a-z]+:)/.test(file)) link.attrSet("href", file.replace(THIS_SERVICE, "") + slug);
    else {
      link.meta = { target: posix.join(posix.dirname(env.path), file) };
      link.attrSet("href", urlOf(link.meta.target) + slug);
    }
  }
});

/** A code block. It scrolls, so it needs keyboard focus. The caption is the second word after the fence. */
export function block(text, language, caption = "") {
  const title = caption && ` data-caption="${escapeHtml(caption)}"`;
  return `<pre tabindex="0"${title}><code>${highlight(text, language)}</code></pre>\n`;
}

/** A link that opens an operation with the variables below it, as the role of "As **client**" above it. */
function tryLink(tokens, at) {
  const { info, content } = tokens[at];
  const role = tokens.slice(0, at).findLast(({ type, content }) => type === "inline" && /^As \*\*/.test(content));
  if (info !== "graphql" || !role || !/^(query|mutation|subscription|{)/m.test(content)) return "";
  const next = tokens[at + 1];
  const variables = next?.info === "json variables" ? next.content.trim() : "";
  const link = graphiqlLink({ query: content, variables, role: /\w+/.exec(role.content.slice(3))[0] });
  return `<p class="try"><a href="${escapeHtml(link)}">Open in GraphiQL</a></p>\n`;
}

/** `/docs/guides/frontend` of docs/guides/frontend.md; files outside of docs/ are below it as well. */
const urlOf = (path) =>
  path === START ? "/docs" : `/docs/${path.replace(/^docs\//, "").replace(/(?<=.)\/README\.md$|\.md$/, "")}`;

/** The pages by their paths, and the sections that can be searched. */
export function renderDocs(root) {
  const pages = new Map();
  for (const queue = [START]; queue.length; ) {
    const path = queue.shift();
    if (pages.has(path)) continue;
    pages.set(path, readPage(root, path));
    queue.push(...targetsOf(pages.get(path).tokens));
  }
  const groups = groupsOf(pages.get(START).tokens);
  showCards(pages.get(START).tokens);
  for (const { tokens } of pages.values()) nameLinks(tokens, pages);
  const document = (path) => ({ title: pages.get(path).title, html: layout(path, pages, groups), text: textOf(path, pages) });
  return {
    documents: Object.fromEntries([...pages.keys()].map((path) => [urlOf(path), document(path)])),
    sections: [...pages].flatMap(([path, page]) => sectionsOf(urlOf(path), page)),
  };
}

function readPage(root, path) {
  const text = readFileSync(posix.join(root, path), "utf8");
  const asCode = `# ${basename(path)}\n\n\`\`\`\`${posix.extname(path).slice(1)}\n${text}\`\`\`\`\n`;
  const source = path.endsWith(".md") ? text : asCode;
  const tokens = markdown.parse(source, { path });
  return { source, tokens, title: tokens[0].meta.title };
}

/** The Markdown of a page, with links to that of the others. */
const textOf = (path, pages) =>
  pages.get(path).source.replace(/\]\(([^()\s#]+)/g, (link, file) => {
    const target = posix.join(posix.dirname(path), file);
    return pages.has(target) ? `](${urlOf(target)}.md` : link;
  });

/** Links that show the name of a file show its title instead. */
function nameLinks(tokens, pages) {
  for (const { children } of tokens) {
    children?.forEach(({ meta }, at) => {
      if (meta?.target?.endsWith(children[at + 1].content)) children[at + 1].content = pages.get(meta.target).title;
    });
  }
}

const targetsOf = (tokens) => tokens.flatMap(({ children }) => children ?? []).flatMap(({ meta }) => meta?.target ?? []);

/** The lists of the start page, by the headings above them. */
function groupsOf(tokens) {
  const groups = [{ title: "Guides", paths: [] }];
  for (const [at, token] of tokens.entries()) {
    if (token.tag === "h2" && token.meta) groups.push({ title: token.meta.title, paths: [] });
    if (token.type === "list_item_open") groups.at(-1).paths.push(targetsOf([tokens[at + 2]])[0]);
  }
  return groups;
}

/** Makes the first list cards, as on the landing page, without the colons after the names. */
function showCards(tokens) {
  const [from, to] = ["bullet_list_open", "bullet_list_close"].map((wanted) => tokens.findIndex(({ type }) => type === wanted));
  tokens[from].attrSet("class", "cards");
  for (const { children } of tokens.slice(from, to)) {
    if (children) children.at(-1).content = children.at(-1).content.replace(/^: (.)/, (_, first) => first.toUpperCase());
  }
}

/** What the search knows: the text of each heading's section, and what the rows of its tables are about. */
function sectionsOf(url, { title, tokens }) {
  const sections = [];
  for (const [at, token] of tokens.entries()) {
    if (/^t[dh]_open/.test(token.type) && tokens[at - 1].type === "tr_open") sections.at(-1).names += ` ${tokens[at + 1].content}`;
    if (token.type === "heading_open") {
      sections.push({ id: `${url}#${token.attrGet("id")}`, title, heading: token.meta.title, names: "", text: "" });
    } else if (token.type === "fence") sections.at(-1).text += ` ${token.content}`;
    else if (token.children && !token.children.some(({ meta }) => meta?.isPermalinkSymbol)) {
      sections.at(-1).text += ` ${token.children.map(({ content }) => content).join(" ")}`;
    }
  }
  return sections;
}

function layout(path, pages, groups) {
  const { tokens } = pages.get(path);
  const order = groups.flatMap(({ paths }) => paths);
  const isHere = (target) => target === path || (!order.includes(path) && urlOf(path).startsWith(`${urlOf(target)}/`));
  const link = (target, attributes) => `<a href="${urlOf(target)}"${attributes}>${escapeHtml(pages.get(target).title)}</a>`;
  const item = (target) => `<li>${link(target, isHere(target) ? ' aria-current="page"' : "")}</li>`;
  const group = ({ title, paths }) => `<h2>${escapeHtml(title)}</h2>\n<ul>${paths.map(item).join("")}</ul>\n`;
  const headings = tokens.filter(({ type, tag }) => type === "heading_open" && /h[23]/.test(tag));
  const entry = ({ tag, attrs, meta }) =>
    `<li class="${tag}"><a href="#${Object.fromEntries(attrs).id}">${escapeHtml(meta.title)}</a></li>`;
  const contents = `<h2>On this page</h2><ul>${headings.map(entry).join("")}</ul>`;
  const at = order.indexOf(path);
  const [before, after] = at < 0 ? [] : [order[at - 1], order[at + 1]];
  const turn = (before ? link(before, ' rel="prev"') : "") + (after ? link(after, ' rel="next"') : "");
  return `<div class="columns">
<nav class="side" id="side" popover aria-label="Documentation">
<button type="button" data-search>Search <kbd>/</kbd></button>
${groups.map(group).join("")}</nav>
<div class="bar"><button type="button" popovertarget="side">Pages</button><button type="button" data-search>Search</button></div>
<main class="prose">
${markdown.renderer.render(tokens, markdown.options, {})}<nav class="turn" aria-label="Previous and next page">${turn}</nav>
</main>
<nav class="toc" aria-label="On this page">${headings.length > 1 ? contents : ""}</nav>
</div>
<dialog aria-label="Search the documentation">
<input type="search" placeholder="Search the documentation" aria-label="Search"><ol></ol><p role="status"></p>
</dialog>
`;
}
