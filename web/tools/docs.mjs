// node tools/docs.mjs TREE OUT: the documents that `cairn serve` shows at /docs: one plain page of HTML each, without script.
//
// TREE is the repository; docs/site/mkdocs.yml there lists the pages. A page's address is its path
// without `docs/`; a link to anything that is no page loses the link and keeps its text. Images that
// pages name are copied. A link to a page or a heading that doesn't exist ends the build.

import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { Marked } from 'marked';

const [tree, out] = process.argv.slice(2);
const sections = [];
const titles = new Map(); // path in the tree → title
const config = readFileSync(join(tree, 'docs/site/mkdocs.yml'), 'utf8');
for (const line of config.slice(config.indexOf('\nnav:\n')).split('\n')) {
  const page = /^( *)- ([^:]+): (\S+\.md)$/.exec(line);
  const section = /^ {2}- ([^:]+):$/.exec(line);
  if (section) sections.push({ title: section[1], pages: [] });
  if (!page) continue;
  if (page[1].length === 2) sections.push({ title: null, pages: [] });
  sections.at(-1).pages.push(page[3]);
  titles.set(page[3], page[2]);
}

const address = (path) =>
  path === 'README.md'
    ? '/docs/'
    : `/docs/${path.replace(/^docs\//, '').replace(/\.md$/, '.html')}`;
const escape = (text) =>
  text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
// As GitHub makes them, and as the links have them.
const slug = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-');

const anchors = new Map(); // page → its headings
const wanted = []; // [page, page that it links to, heading]
const images = new Map(); // path in the tree → address
const problems = [];

function page(path) {
  const heads = new Set();
  const resolve = (href) => normalize(join(dirname(path), href));
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const name = slug(text.replace(/\]\([^)]*\)/g, ']'));
        let id = name;
        for (let n = 1; heads.has(id); n++) id = `${name}-${n}`;
        heads.add(id);
        return `<h${depth} id="${id}"><a href="#${id}">${this.parser.parseInline(tokens)}</a></h${depth}>\n`;
      },
      link({ href, tokens }) {
        const text = this.parser.parseInline(tokens);
        if (/^[a-z]+:/.test(href)) return `<a href="${escape(href)}" rel="noreferrer">${text}</a>`;
        const [file, anchor] = href.split('#');
        const to = file ? resolve(file) : path;
        if (!titles.has(to)) {
          if (!existsSync(join(tree, to)))
            problems.push(`${path}: the link ${href} leads to no file`);
          return text;
        }
        if (anchor) wanted.push([path, to, anchor]);
        return `<a href="${address(to)}${anchor ? `#${anchor}` : ''}">${text}</a>`;
      },
      image({ href, text }) {
        const file = resolve(href);
        if (!existsSync(join(tree, file))) problems.push(`${path}: the image ${href} is no file`);
        images.set(file, `/docs/${file.replace(/^docs\//, '')}`);
        return `<img src="${images.get(file)}" alt="${escape(text)}">`;
      },
      html({ text }) {
        return text.trimStart().startsWith('<!--') ? '' : escape(text);
      },
    },
  });
  const body = marked.parse(readFileSync(join(tree, path), 'utf8'));
  anchors.set(path, heads);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(titles.get(path))} · Cairn</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<nav aria-label="Documents">
${sections.map((s) => menu(s, path)).join('\n')}
</nav>
<main>
${body}</main>
</body>
</html>
`;
}

function menu({ title, pages }, here) {
  const rows = pages.map(
    (p) =>
      `<li><a href="${address(p)}"${p === here ? ' aria-current="page"' : ''}>${escape(titles.get(p))}</a></li>`,
  );
  return `${title ? `<h2>${escape(title)}</h2>\n` : ''}<ul>\n${rows.join('\n')}\n</ul>`;
}

function put(url, bytes) {
  const path = join(out, url.endsWith('/') ? `${url}index.html` : url);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
}

for (const path of titles.keys()) put(address(path), page(path));
for (const [from, to, anchor] of wanted)
  if (!anchors.get(to).has(anchor)) problems.push(`${from}: ${to} has no heading for #${anchor}`);
for (const [file, url] of images) {
  mkdirSync(dirname(join(out, url)), { recursive: true });
  if (existsSync(join(tree, file))) copyFileSync(join(tree, file), join(out, url));
}
put('/docs/style.css', readFileSync(join(tree, 'docs/site/style.css')));
if (problems.length) {
  console.error(problems.join('\n'));
  process.exit(1);
}
