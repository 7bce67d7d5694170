// Renders schema.graphql: a section for each type with a row for each field, and an index of types and fields.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, print } from "graphql";
import { markdown } from "./docs.mjs";
import { operationLinks } from "./operations.mjs";

const { escapeHtml } = markdown.utils;

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
  const links = operationLinks(sdl);
  const definitions = parse(sdl).definitions.filter(({ name }) => name);
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
<p role="status"></p>
${groups.map(index).join("")}</nav>
<div class="bar"><button type="button" popovertarget="side">Types</button></div>
<main class="prose schema">
<h1>GraphQL schema</h1>
<p>${members.length} types. For tools: <a href="/schema.graphql">schema.graphql</a>
<button type="button" data-copy="/schema.graphql">Copy all</button></p>
${members.map((one) => section(one, definitions, sdl, links)).join("")}</main>
</div>
`,
  };
}

/** The fields of a root are always shown; those of a type while they match the filter. */
function index([title, members, isRoot]) {
  const entry = (id, text) => `<a href="#${id}">${text}</a>`;
  const fields = (type) => membersOf(type).map(({ name }) => field(`${type.name.value}.${name.value}`, name.value)).join("");
  const field = (id, text) => `<li${isRoot ? "" : " hidden"}>${entry(id, text)}</li>`;
  const type = (one) => `<li>${entry(one.name.value, one.name.value)}<ul>${fields(one)}</ul></li>`;
  const types = members.map((one) => (isRoot ? fields(one) : type(one)));
  const heading = isRoot ? entry(title, title) : title;
  return `<section${isRoot ? " data-root" : ""}><h2>${heading}</h2>\n<ul>${types.join("")}</ul></section>\n`;
}

const membersOf = ({ fields, values, arguments: own }) => fields ?? values ?? own ?? [];

function section(definition, definitions, sdl, links) {
  const { name: { value: name }, kind, loc } = definition;
  const names = definitions.map((one) => one.name.value);
  const link = (text) => escapeHtml(text).replace(/\w+/g, (word) => (names.includes(word) ? `<a href="#${word}">${word}</a>` : word));
  const list = (title, types) => (types?.length ? `<p class="soft">${title} <code>${link(types.join(", "))}</code></p>\n` : "");
  const implementing = definitions.filter((one) => one.interfaces?.some((each) => each.name.value === name));

  const row = (one, id) => `<div${id ? ` id="${id}"` : ""}>
<dt><b>${one.name.value}</b> ${signature(one)}${id ? anchor(id) : ""}</dt>
<dd>${text(one)}${links[id] ? `<p><a class="try" href="${escapeHtml(links[id])}">Open in GraphiQL</a></p>\n` : ""}${one.arguments?.length ? `<p class="label">Arguments</p>\n${rows(one)}` : ""}</dd>
</div>`;
  const rows = (parent, name) =>
    `<dl>${membersOf(parent).map((one) => row(one, name && `${name}.${one.name.value}`)).join("\n")}</dl>\n`;
  const signature = ({ type, defaultValue }) =>
    type ? `<code>${link(print(type))}${defaultValue ? ` = ${escapeHtml(print(defaultValue))}` : ""}</code> ` : "";

  return `<section id="${name}">
<header><h2>${name} <small>${WORDS[kind]}</small> ${anchor(name)}</h2>
<button type="button" data-text="${escapeHtml(sdl.slice(loc.start, loc.end))}" aria-label="Copy SDL of ${name}">Copy SDL</button></header>
${text(definition)}${list("Implements", definition.interfaces?.map(print))}${list("Implemented by", implementing.map((one) => one.name.value))}\
${list("One of", definition.types?.map(print))}${list("Allowed on", definition.locations?.map(print))}\
${membersOf(definition).length ? rows(definition, name) : ""}</section>
`;
}

const WORDS = {
  ObjectTypeDefinition: "type", InterfaceTypeDefinition: "interface", UnionTypeDefinition: "union", EnumTypeDefinition: "enum",
  InputObjectTypeDefinition: "input", ScalarTypeDefinition: "scalar", DirectiveDefinition: "directive",
};

const anchor = (id) => `<a class="anchor" href="#${id}" aria-hidden="true" tabindex="-1">#</a>`;

/** The description, and the directives: deprecation with its reason, others as they are written. */
function text({ description, directives = [] }) {
  const notes = directives.map((one) => {
    const [reason] = one.arguments.map(({ value }) => value.value);
    return one.name.value === "deprecated"
      ? `<div class="deprecated"><b>Deprecated</b> ${markdown.render(reason ?? "")}</div>`
      : `<p><code>${escapeHtml(print(one)).replace(/https?:[^&]+/, '<a href="$&">$&</a>')}</code></p>\n`;
  });
  return markdown.render(description?.value ?? "") + notes.join("");
}
