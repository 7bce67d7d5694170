// Highlights code with highlight.js: in the build for the documentation, in the browser for the landing page.

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import graphql from "highlight.js/lib/languages/graphql";
import http from "highlight.js/lib/languages/http";
import ini from "highlight.js/lib/languages/ini";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = { bash, graphql, http, ini, javascript, json, python, shell, sql, typescript, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

const escaped = (text) => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);

/** HTML. The name is one of highlight.js or an alias, such as a file's suffix; unknown languages have no colours. */
export const highlight = (text, name) =>
  hljs.getLanguage(name) ? hljs.highlight(text, { language: name }).value : escaped(text);
