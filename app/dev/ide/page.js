// The plain GraphQL page: an editor, the response, examples and the schema.
// It uses no library and calls only the endpoint. Text from the server becomes text nodes, never HTML.

const at = (id) => document.getElementById(id);
const config = JSON.parse(at("config").textContent);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const button = (kind, text, onclick) => element("button", { type: "button", class: kind, onclick }, text);

// ---- Operations in the document

const TOKENS = /"""(?:\\"""|[^])*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*|[@$]?[A-Za-z_]\w*|[{}()[\]]/g;

/** Finds the operations of a document by its brackets, because an unfinished document cannot be parsed. */
function operationsIn(text) {
  const definitions = [];
  let open = null;
  let depth = 0;
  for (const [token] of text.matchAll(TOKENS)) {
    if (/^["#@$]/.test(token)) continue;
    if ("{([".includes(token)) {
      if (!open) definitions.push((open = { kind: "query", name: "" }));
      open.named = true;
      depth += 1;
    } else if ("})]".includes(token)) {
      depth = Math.max(0, depth - 1);
      if (depth === 0 && token === "}") open = null;
    } else if (depth === 0 && !open) {
      definitions.push((open = { kind: token, name: "" }));
    } else if (depth === 0 && !open.named) {
      Object.assign(open, { name: token, named: true });
    }
  }
  return definitions.filter(({ kind }) => ["query", "mutation", "subscription"].includes(kind));
}

function offerOperations() {
  const operations = operationsIn(at("query").value);
  const option = ({ kind, name }) => element("option", { value: name }, name || `(unnamed ${kind})`);
  const chosen = at("operation").value;
  at("operation").replaceChildren(...operations.map(option));
  if (operations.some(({ name }) => name === chosen)) at("operation").value = chosen;
  at("operation-choice").hidden = operations.length < 2;
}

// ---- Editing

// execCommand is deprecated, but only its edits can be undone with the browser's undo.
const write = (text) => document.execCommand(text ? "insertText" : "delete", false, text);

function replaceAll(field, text) {
  if (field.value === text) return;
  field.focus({ preventScroll: true });
  field.select();
  write(text);
  field.setSelectionRange(0, 0);
  field.scrollTop = 0;
}

function indentLines(field, outdent) {
  const { value, selectionStart, selectionEnd } = field;
  if (!outdent && !value.slice(selectionStart, selectionEnd).includes("\n")) return write("  ");
  const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
  const before = value.slice(start, selectionEnd);
  const after = before.replace(outdent ? /^ {1,2}/gm : /^(?=.)/gm, outdent ? "" : "  ");
  if (after === before) return;
  field.setSelectionRange(start, selectionEnd);
  write(after);
  field.setSelectionRange(before.includes("\n") ? start : start + after.length, start + after.length);
}

function breakLine(field) {
  const line = field.value.slice(0, field.selectionStart).split("\n").pop();
  const indent = line.match(/^ */)[0];
  const opens = /[{([]\s*$/.test(line);
  write(`\n${indent}${opens ? "  " : ""}`);
  if (!opens || !/^[})\]]/.test(field.value.slice(field.selectionEnd))) return;
  const caret = field.selectionEnd;
  write(`\n${indent}`);
  field.setSelectionRange(caret, caret);
}

let tabLeaves = false; // after Esc, so that keyboard users can leave the editor

function onEditorKey(event) {
  const field = event.target;
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing;
  let edit = null;
  if (plain && event.key === "Tab" && !tabLeaves) edit = () => indentLines(field, event.shiftKey);
  if (plain && event.key === "Enter" && !event.shiftKey) edit = () => breakLine(field);
  if (event.key !== "Shift") tabLeaves = event.key === "Escape";
  if (!edit) return;
  event.preventDefault();
  edit();
}

// ---- Requests

function headersToSend() {
  const lines = at("headers").value.split("\n").filter((line) => line.trim());
  const token = at("authorization").value.trim().replace(/^authorization:\s*/i, "");
  if (token) lines.push(`Authorization: ${/\s/.test(token) ? token : `bearer ${token}`}`);
  const headers = new Headers({
    Accept: "application/graphql-response+json, application/json;q=0.9",
    "Content-Type": "application/json",
  });
  for (const line of lines) {
    const [, name, value] = /^([^:]*):(.*)$/.exec(line) ?? [];
    try {
      headers.set(name.trim(), value.trim());
    } catch {
      throw new Error(`This cannot be sent as a header, which is “Name: value” in plain characters: ${line}`);
    }
  }
  return headers;
}

function readVariables() {
  const text = at("variables").value.trim();
  at("variables").setAttribute("aria-invalid", "true");
  let variables;
  try {
    variables = text ? JSON.parse(text) : {};
  } catch (fault) {
    throw new Error(`The variables are not JSON: ${fault.message}`);
  }
  if (variables === null || typeof variables !== "object" || Array.isArray(variables)) {
    throw new Error('The variables must be one JSON object, such as { "id": "1" }.');
  }
  at("variables").removeAttribute("aria-invalid");
  return variables;
}

function readRequest() {
  const query = at("query").value;
  if (!query.trim()) throw new Error("There is no query to run.");
  const operations = operationsIn(query);
  const chosen = operations.find(({ name }) => name === at("operation").value);
  if (chosen?.kind === "subscription") {
    throw new Error("This page cannot run subscriptions. Use the full page (make pages) or the curl command in docs/subscriptions.md.");
  }
  return { query, variables: readVariables(), operationName: chosen?.name || undefined };
}

async function ask(request, signal) {
  const headers = headersToSend();
  const started = performance.now();
  let response, text;
  try {
    const body = JSON.stringify(request);
    response = await fetch(config.endpoint, { method: "POST", headers, body, signal, cache: "no-store" });
    text = await response.text();
  } catch (fault) {
    if (signal?.aborted) throw new Error("Cancelled. A mutation may have been executed nevertheless.");
    throw new Error(`No response from ${config.endpoint}: the server is down or unreachable (${fault.message}).`);
  }
  const milliseconds = performance.now() - started;
  return { response, text, json: parsed(text), milliseconds, signedIn: headers.has("Authorization") };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// ---- Responses

/** The notices about a response: first what the user can do, then the errors of the server. */
function noticesOn({ response, json, signedIn }) {
  const notices = [];
  const errors = Array.isArray(json?.errors) ? json.errors : [];
  const wait = response.headers.get("Retry-After");
  if (response.status === 401 || errors.some((error) => error?.extensions?.code === "UNAUTHENTICATED")) {
    const demo = Object.keys(config.tokens).length ? ", or choose a demo token" : "";
    const why = signedIn ? "The token was rejected; it may have expired." : "The request has no token.";
    notices.push({ text: `${why} Paste a valid token into Authorization${demo}, then run again.` });
  }
  if (json === undefined) {
    const type = response.headers.get("Content-Type")?.split(";")[0] ?? "without a content type";
    notices.push({ text: `The response is not JSON but ${type}. Is ${config.endpoint} the GraphQL endpoint?` });
  } else if (!response.ok && !errors.length) {
    notices.push({ text: `The server responded ${response.status} without a reason.` });
  }
  if (wait) notices.push({ text: `Try again in ${wait} s.` });
  for (const error of errors) {
    const { message = "An error without a message", extensions, locations } = error ?? {};
    notices.push({ text: message, code: extensions?.code, location: locations?.[0] });
  }
  for (const [field, value] of Object.entries(json?.data ?? {})) {
    for (const { code, message, field: path } of [value?.userErrors ?? []].flat()) {
      const where = path?.length ? ` (${[path].flat().join(".")})` : "";
      notices.push({ text: `${field}: ${message}${where}`, code, refused: true });
    }
  }
  return notices;
}

function noticeItem({ text, code, location, refused }) {
  const kind = refused ? "refused" : "error"; // an error response, or no response
  const place = location && button("link", `line ${location.line}`, () => goTo(location));
  const details = [code && element("code", {}, code), place].filter((detail) => detail);
  return element("li", { class: kind }, text, ...details.flatMap((detail) => [" ", detail]));
}

function goTo({ line, column }) {
  const field = at("query");
  const above = field.value.split("\n").slice(0, line - 1);
  const caret = above.reduce((length, each) => length + each.length + 1, column - 1);
  field.focus();
  field.setSelectionRange(caret, caret + 1);
}

const JSON_TOKENS = /"(?:\\.|[^"\\])*"(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const TOO_LONG_TO_COLOUR = 300_000; // colours need one node per token, which is slow for long texts

function coloured(text) {
  if (text.length > TOO_LONG_TO_COLOUR) return [text];
  const pieces = [];
  let done = 0;
  for (const match of text.matchAll(JSON_TOKENS)) {
    const kind = match[1] ? "key" : { '"': "string", t: "word", f: "word", n: "word" }[match[0][0]] ?? "number";
    pieces.push(text.slice(done, match.index), element("span", { class: kind }, match[0]));
    done = match.index + match[0].length;
  }
  return [...pieces, text.slice(done)];
}

function showAnswer(status, kind, notices, body) {
  at("status").textContent = status;
  at("status").className = kind;
  at("notices").replaceChildren(...notices.map(noticeItem));
  at("body").replaceChildren(...body);
  at("body").hidden = body.length === 0;
  at("body").scrollTop = 0;
}

function showReply(reply) {
  const { response, text, json, milliseconds } = reply;
  const bytes = new Blob([text]).size;
  const size = bytes < 1000 ? `${bytes} B` : `${(bytes / 1000).toFixed(1)} kB`;
  const notices = noticesOn(reply);
  const status = `${response.status} ${response.statusText} · ${Math.round(milliseconds)} ms · ${size}`;
  const body = json === undefined ? [text.slice(0, 5000)] : coloured(JSON.stringify(json, null, 2));
  showAnswer(status, notices.length || !response.ok ? "bad" : "good", notices, body);
}

let running = null;

async function run() {
  if (running) return; // a second press must not send a mutation twice
  try {
    const request = readRequest();
    running = new AbortController();
    at("status").textContent = "Waiting…";
    at("status").className = "";
    markRunning(true);
    showReply(await ask(request, running.signal));
    if (schemaFailed) loadSchema(); // the server is reachable again
  } catch (fault) {
    showAnswer("", "bad", [{ text: fault.message }], []);
  } finally {
    running = null;
    markRunning(false);
  }
  at("answer").scrollIntoView({ block: "start" }); // scrolls only in the narrow layout
}

function markRunning(yes) {
  at("run").textContent = yes ? "Stop" : "Run";
  at("run").classList.toggle("stop", yes);
  at("body").classList.toggle("waiting", yes);
}

// ---- The schema pane

const INTROSPECTION = `query IntrospectionQuery {
  __schema {
    queryType { name } mutationType { name } subscriptionType { name }
    types { ...FullType }
    directives { name description locations args { ...InputValue } }
  }
}
fragment FullType on __Type {
  kind name description inputFields { ...InputValue } interfaces { ...TypeRef } possibleTypes { ...TypeRef }
  fields(includeDeprecated: true) {
    name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason
  }
  enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
}
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
fragment TypeRef on __Type {
  kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
    ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }
}`;
const KINDS = {
  OBJECT: "Objects", INTERFACE: "Interfaces", UNION: "Unions", INPUT_OBJECT: "Inputs", ENUM: "Enums", SCALAR: "Scalars",
};

let schemaFailed = false; // and the pane shows that
let schema = null; // { roots: names of the root types, types: Map(name -> type) }
let trail = [];

async function loadSchema() {
  schema = null;
  schemaFailed = false;
  drawSchema(element("p", {}, "Loading…"));
  try {
    const reply = await ask({ query: INTROSPECTION, operationName: "IntrospectionQuery" });
    const found = reply.json?.data?.__schema;
    if (!found) throw new Error(noticesOn(reply)[0]?.text ?? "The response contains no schema.");
    const roots = [found.queryType, found.mutationType, found.subscriptionType];
    schema = {
      roots: roots.filter((root) => root).map(({ name }) => name),
      types: new Map(found.types.filter(({ name }) => !name.startsWith("__")).map((type) => [type.name, type])),
    };
    trail = trail.filter((name) => schema.types.has(name));
    drawPlace();
  } catch (fault) {
    schemaFailed = true;
    drawSchema(element("p", { role: "alert" }, `The schema could not be loaded. ${fault.message}`));
  }
}

const membersOf = (type) => type.fields ?? type.inputFields ?? type.enumValues ?? [];
const drawSchema = (...nodes) => at("schema-view").replaceChildren(...nodes);
const typeButton = (name) => button("link", name, () => openType(name));
const described = ({ description }) => (description ? element("p", {}, description) : null);

function openType(name, member) {
  const known = trail.indexOf(name);
  trail = known < 0 ? [...trail, name] : trail.slice(0, known + 1);
  at("search").value = "";
  drawPlace(member);
  // the pressed button is gone from the page, so the focus moves to the new view
  at("schema-view").querySelector(".found, h3")?.focus();
}

function leaveTypes() {
  trail = [];
  at("search").value = "";
  drawPlace();
  at("search").focus();
}

function drawPlace(member) {
  const wanted = at("search").value.trim().toLowerCase();
  const steps = [button("link", "Schema", leaveTypes), ...trail.slice(0, -1).map(typeButton), trail.at(-1)];
  at("trail").replaceChildren(...(trail.length ? steps.map((step) => element("span", {}, step)) : []));
  if (!schema) return;
  if (wanted) return drawMatches(wanted);
  if (trail.length) return drawType(schema.types.get(trail.at(-1)), member);
  drawOverview();
}

function drawOverview() {
  const others = [...schema.types.values()].filter(({ name }) => !schema.roots.includes(name));
  const namesOf = (kind) => others.filter((type) => type.kind === kind).map(({ name }) => name).sort();
  const groups = [["Roots", schema.roots], ...Object.entries(KINDS).map(([kind, title]) => [title, namesOf(kind)])];
  const item = (name) => element("li", { class: "compact" }, typeButton(name));
  drawSchema(
    ...groups
      .filter(([, names]) => names.length)
      .flatMap(([title, names]) => [element("h2", {}, title), element("ul", {}, ...names.map(item))]),
  );
}

function drawType(type, member) {
  const buttons = (types) => types.flatMap(({ name }) => [" ", typeButton(name)]);
  const related = (title, types) => (types?.length ? [element("p", {}, title, ...buttons(types))] : []);
  drawSchema(
    element("h3", { tabindex: "-1" }, type.name),
    described(type) ?? "",
    ...related("Implements", type.interfaces),
    ...related("One of", type.possibleTypes),
    element("ul", {}, ...membersOf(type).map((each) => memberItem(each, each.name === member))),
  );
  at("schema-view").querySelector(".found")?.scrollIntoView({ block: "nearest" });
}

function memberItem(member, found) {
  const { name, type, args = [], isDeprecated, deprecationReason } = member;
  const classes = `${found ? "found" : ""} ${isDeprecated ? "deprecated" : ""}`.trim();
  return element(
    "li",
    { ...(classes && { class: classes }), ...(found && { tabindex: "-1" }) },
    element("span", { class: "name" }, name),
    ...(type ? [": ", typeReference(type)] : []),
    defaultOf(member),
    args.length ? element("ul", {}, ...args.map((arg) => memberItem(arg, false))) : null,
    described(member),
    isDeprecated ? element("p", {}, `Deprecated: ${deprecationReason ?? "no reason given"}`) : null,
  );
}

const defaultOf = ({ defaultValue }) => (defaultValue == null ? null : ` = ${defaultValue}`);

function typeReference(type) {
  let [before, after] = ["", ""];
  for (; type.ofType; type = type.ofType) {
    if (type.kind === "LIST") [before, after] = [`${before}[`, `]${after}`];
    else after = `!${after}`;
  }
  return element("span", {}, before, typeButton(type.name), after);
}

function drawMatches(wanted) {
  const matches = [...schema.types.values()].flatMap((type) => [
    ...(type.name.toLowerCase().includes(wanted) ? [[type.name]] : []),
    ...membersOf(type).filter(({ name }) => name.toLowerCase().includes(wanted)).map(({ name }) => [type.name, name]),
  ]);
  matches.sort((a, b) => a.length - b.length); // types before fields
  const item = ([type, member]) => {
    const text = member ? `${type}.${member}` : type;
    const open = () => {
      trail = [];
      openType(type, member);
    };
    return element("li", { class: "compact" }, button("link", text, open));
  };
  if (matches.length) drawSchema(element("ul", {}, ...matches.map(item)));
  else drawSchema(element("p", {}, "No matching names."));
}

// ---- Examples, demo tokens, and storage

const exampleButtons = new Map(); // example -> its button
let role = null; // of the example chosen last

function drawExamples() {
  for (const each of new Set(config.examples.map((example) => example.role))) {
    const mine = config.examples.filter((example) => example.role === each);
    const items = mine.map((example) => element("li", {}, exampleButton(example)));
    at("examples").append(element("h2", {}, `As a ${each}`), element("ul", {}, ...items));
  }
}

function exampleButton(example) {
  const item = button("example", example.title, () => {
    replaceAll(at("query"), example.query); // undo restores the previous query
    replaceAll(at("variables"), example.variables);
    item.focus({ preventScroll: true });
    signInAs(example.role);
    at("editor").scrollIntoView({ block: "start" });
  });
  if (example.replaces) item.append(element("small", {}, ...breakable(`replaces ${example.replaces}`)));
  exampleButtons.set(example, item);
  return item;
}

const breakable = (path) => path.split(/(?<=[/?])/).flatMap((part) => [part, element("wbr")]);

function signInAs(chosen) {
  role = chosen;
  at("authorization").placeholder = `bearer <token of a ${role}>`;
  if (config.tokens[role]) at("authorization").value = `bearer ${config.tokens[role]}`;
  onInput();
}

function drawDemoTokens() {
  const roles = [...new Set(config.examples.map((example) => example.role))].filter((each) => config.tokens[each]);
  const chips = roles.map((each) => button(each, each, () => signInAs(each)));
  at("demo-tokens").hidden = chips.length === 0;
  at("demo-tokens").append(element("span", { class: "hint" }, "demo"), ...chips);
}

function onInput() {
  const [query, token] = [at("query").value, at("authorization").value];
  offerOperations();
  at("variables").removeAttribute("aria-invalid");
  exampleButtons.forEach((item, example) => item.setAttribute("aria-current", String(example.query === query)));
  for (const chip of at("demo-tokens").querySelectorAll("button")) {
    chip.setAttribute("aria-pressed", String(token === `bearer ${config.tokens[chip.textContent]}`));
  }
  remember();
}

const STORE = "care-gateway.graphql";

/** Stored for this tab only and not in the URL, because variables may contain a client's answers. */
function remember() {
  const kept = { query: at("query").value, variables: at("variables").value, role };
  try {
    sessionStorage.setItem(STORE, JSON.stringify(kept));
  } catch {
    // storage is disabled or full; the page works without it
  }
}

function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(STORE));
  } catch {
    return null;
  }
}

// ---- Event listeners

const TABS = ["examples", "schema"];

function showTab(chosen) {
  for (const name of TABS) {
    at(`${name}-tab`).setAttribute("aria-selected", String(name === chosen));
    at(`${name}-tab`).tabIndex = name === chosen ? 0 : -1;
    at(name).hidden = name !== chosen;
  }
  if (chosen === "schema" && !schema) loadSchema(); // not earlier: in production it needs a token
}

function onTabKey(event) {
  if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  const other = TABS.find((name) => at(name).hidden);
  showTab(other);
  at(`${other}-tab`).focus();
}

function start() {
  const [first] = config.examples;
  const { query, variables, role: last } = recall() ?? { ...first };
  at("endpoint").textContent = config.endpoint;
  at("query").value = query ?? "";
  at("variables").value = variables ?? "";
  drawExamples();
  drawDemoTokens();
  signInAs(last ?? first?.role ?? "caregiver");
  for (const name of TABS) {
    at(`${name}-tab`).addEventListener("click", () => showTab(name));
    at(`${name}-tab`).addEventListener("keydown", onTabKey);
  }
  for (const name of ["query", "variables"]) at(name).addEventListener("keydown", onEditorKey);
  for (const name of ["query", "variables", "authorization"]) at(name).addEventListener("input", onInput);
  at("run").addEventListener("click", () => (running ? running.abort() : run()));
  at("search").addEventListener("input", () => drawPlace());
  at("reload").addEventListener("click", loadSchema);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
}

start();
