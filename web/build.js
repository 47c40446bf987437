// Makes dist/: the page, and its assets under names that change with their bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist/assets", { recursive: true });
let page = readFileSync("index.html", "utf8");
for (const name of ["main.js", "main.css"]) {
  const bytes = readFileSync(`src/${name}`);
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 8);
  const asset = name.replace(".", `-${hash}.`);
  writeFileSync(`dist/assets/${asset}`, bytes);
  page = page.replace(`/src/${name}`, `/assets/${asset}`);
}
writeFileSync("dist/index.html", page);
