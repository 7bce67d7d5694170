// Bundles the pages into the folder of the first argument, with a manifest for the server and the licences. The second
// argument is the folder of the project, which has the documentation and schema.graphql.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { renderDocs } from "./docs.mjs";
import { renderSchema } from "./schema.mjs";

const [into, root] = process.argv.slice(2);
const PAGES = {
  graphiql: "graphiql/page.jsx",
  rest: "rest/page.js",
  site: "site/page.js",
};

// GraphiQL's style contains that of its editor, which the editor's modules import again, and fonts that no page uses.
const oneStyle = {
  name: "one-style",
  setup({ onLoad }) {
    onLoad({ filter: /monaco-editor[\\/]esm[\\/].*\.css$/ }, () => ({ contents: "" }));
    onLoad({ filter: /graphiql[\\/]dist[\\/]style\.css$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/@font-face\s*{[^}]*(Roboto|Fira Code)[^}]*}/g, ""),
      loader: "css",
    }));
  },
};
// Scalar's chat with an AI service.
const noAgent = {
  name: "no-agent",
  setup: ({ onLoad }) => onLoad({ filter: /AgentScalarDrawer\.vue\.js$/ }, () => ({ contents: "export default {}" })),
};
const options = {
  bundle: true,
  minify: true,
  metafile: true,
  outdir: into,
  entryNames: "[name]-[hash]",
  chunkNames: "chunk-[hash]",
  target: "es2022",
  legalComments: "none", // licences.txt contains them
  define: { "process.env.NODE_ENV": '"production"' },
  jsx: "automatic",
  plugins: [oneStyle, noAgent],
};

const workers = await build({
  ...options,
  format: "iife", // one file for each worker
  entryPoints: {
    editor: "monaco-editor/esm/vs/editor/editor.worker.js",
    json: "monaco-editor/esm/vs/language/json/json.worker.js",
    graphql: "monaco-graphql/esm/graphql.worker.js",
  },
});
const names = Object.keys(workers.metafile.outputs).map((path) => basename(path));
const named = Object.fromEntries(names.map((name) => [name.split("-")[0], name]));

const pages = await build({
  ...options,
  format: "esm",
  splitting: true,
  define: { ...options.define, WORKERS: JSON.stringify(named) },
  entryPoints: PAGES,
});
const entries = Object.entries(pages.metafile.outputs);
const loaded = Object.entries(PAGES).map(([name, source]) => {
  const [script, { cssBundle }] = entries.find(([, { entryPoint }]) => entryPoint === source);
  return [name, { script: basename(script), style: basename(cssBundle) }];
});

const { documents, sections } = renderDocs(root);
writeFileSync(join(into, "search.json"), JSON.stringify(sections));

// ---- The licences of the bundled packages

const USUAL = new Set(["MIT", "ISC", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"]);
const FONTS = "A font in them: Codicons 1.11, copyright Microsoft Corporation, CC-BY-4.0, comes with monaco-editor.";

function licenceOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (!USUAL.has(license)) throw new Error(`${name} ${version} has an unreviewed licence: ${license}`);
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice|thirdpartynotices)/i.test(file));
  return { title: `${name} ${version}`, license, texts: files.map((file) => readFileSync(join(folder, file), "utf8").trim()) };
}

const outputs = [...Object.values(workers.metafile.outputs), ...Object.values(pages.metafile.outputs)];
const paths = outputs.flatMap(({ inputs }) => Object.keys(inputs));
const folders = paths.map((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
const licences = [...new Set(folders)].filter(Boolean).map(licenceOf).sort((one, other) => (one.title < other.title ? -1 : 1));
const list = licences.map(({ title, license }) => `${title}: ${license}`);
const whole = licences.filter(({ texts }) => texts.length).map(({ title, texts }) => [`---- ${title}`, ...texts].join("\n\n"));
const licencesText = ["What the pages are built from.", list.join("\n"), FONTS, ...whole].join("\n\n") + "\n";
writeFileSync(join(into, "licences.txt"), licencesText);

const manifest = {
  pages: Object.fromEntries(loaded),
  documents: { "/schema": renderSchema(root), ...documents },
  files: readdirSync(into).sort(),
};
writeFileSync(join(into, "manifest.json"), JSON.stringify(manifest, null, 2) + "\n");
