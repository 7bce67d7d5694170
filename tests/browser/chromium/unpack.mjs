// Unpacks the browser that npm brought, and the libraries that it needs, into the folder that is named.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";

const [into] = process.argv.slice(2);
const unpacked = (name) => brotliDecompressSync(readFileSync(join("node_modules/@sparticuz/chromium/bin", name)));
for (const name of ["chromium", "al2023.tar", "fonts.tar", "swiftshader.tar"]) {
  writeFileSync(join(into, name), unpacked(`${name}.br`), { mode: 0o755 });
}
