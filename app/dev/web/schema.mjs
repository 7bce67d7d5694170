// Renders schema.graphql: a section for each type, and an index of types and fields.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "graphql";
import { markdown } from "./docs.mjs";
import { highlight } from "./site/highlighting.js";

const ROOTS = ["Query", "Mutation", "Subscription"];
const GROUPS = {
  "Types": /^(ObjectType|InterfaceType|UnionType)/,
  "Inputs": /^InputObject/,
  "Enums": /^EnumType/,
  "Scalars": /^ScalarType/,
  "Directives": /^Directive/,
};

export function renderSchema(root) {
  const sdl = readFileSync(join(root, "schema.graphql"), "utf8");
  const definitions = parse(sdl).definitions.filter(({ name }) => name);
  const names = new Set(definitions.map(({ name }) => name.value));
  const roots = ROOTS.flatMap((name) => definitions.filter((one) => one.name.value === name));
  const others = definitions.filter((one) => !roots.includes(one));
  const groups = [
    ...roots.map((one) => [one.name.value, [one], true]),
    ...Object.entries(GROUPS).map(([title, kind]) => [title, others.filter((one) => kind.test(one.kind))]),
  ].filter(([, members]) => members.length);
  const members = groups.flatMap(([, members]) => members);
  return {
    title: "Schema",
    html: `<div class="columns">
<nav class="side" id="side" popover aria-label="Types">
<input type="search" data-filter placeholder="Filter types and fields" aria-label="Filter types and fields">
${groups.map(index).join("")}</nav>
<div class="bar"><button type="button" popovertarget="side">Types</button></div>
<main class="prose schema">
<h1>GraphQL schema</h1>
<p>${members.length} types. For tools: <a href="/schema.graphql">schema.graphql</a>
<button type="button" data-copy="/schema.graphql">Copy all</button></p>
${members.map((one) => section(one, sdl, names)).join("")}</main>
</div>
`,
  };
}

/** The fields of a root are always shown; those of a type while they match the filter. */
function index([title, members, isRoot]) {
  const entry = (id, text) => `<a href="#${id}">${text}</a>`;
  const fields = ({ name, fields, values }) =>
    (fields ?? values ?? []).map((one) => field(`${name.value}.${one.name.value}`, one.name.value)).join("");
  const field = (id, text) => `<li${isRoot ? "" : " hidden"}>${entry(id, text)}</li>`;
  const type = (one) => `<li>${entry(one.name.value, one.name.value)}<ul>${fields(one)}</ul></li>`;
  const types = members.map((one) => (isRoot ? fields(one) : type(one)));
  const heading = isRoot ? entry(title, title) : title;
  return `<section${isRoot ? " data-root" : ""}><h2>${heading}</h2>\n<ul>${types.join("")}</ul></section>\n`;
}

function section(definition, sdl, names) {
  const { name, description, kind, loc } = definition;
  const start = description ? description.loc.end + 1 : loc.start;
  const firstLine = description ? description.loc.endToken.line + 1 : loc.startToken.line;
  const lines = highlight(sdl.slice(start, loc.end), "graphql").split("\n");
  for (const field of definition.fields ?? definition.values ?? []) {
    const at = field.loc.startToken.line - firstLine; // of its description
    lines[at] = `<a id="${name.value}.${field.name.value}"></a>${lines[at]}`;
  }
  return `<section id="${name.value}">
<h2>${name.value} <small>${WORDS[kind]}</small> <a class="anchor" href="#${name.value}" aria-hidden="true" tabindex="-1">#</a></h2>
${markdown.render(description?.value ?? "")}<pre tabindex="0"><code>${linked(lines.join("\n"), names, name.value)}</code></pre>
</section>
`;
}

const WORDS = {
  ObjectTypeDefinition: "type", InterfaceTypeDefinition: "interface", UnionTypeDefinition: "union", EnumTypeDefinition: "enum",
  InputObjectTypeDefinition: "input", ScalarTypeDefinition: "scalar", DirectiveDefinition: "directive",
};

/** Links the names of types outside of strings and comments, which are in elements. */
function linked(html, names, own) {
  let depth = 0;
  const link = (name) => (names.has(name) && name !== own ? `<a href="#${name}">${name}</a>` : name);
  return html.split(/(<[^>]+>)/).map((part) => {
    if (part.startsWith("<")) depth += part.startsWith("</") ? -1 : 1;
    return depth ? part : part.replace(/\b[A-Z]\w*\b/g, link);
  }).join("");
}
