// node tools/report.mjs: what `vite build -c vite.report.config.ts` made, as one file with a place for
// the data: dist/report/template.html. Its policy allows this very script, by its hash, and nothing that
// is loaded; engine/serve/page/report.c fills in the data.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';

const files = readdirSync('dist/report/assets');
const only = (ending, but) => {
  const found = files.filter((f) => f.endsWith(ending) && !but.test(f));
  if (found.length !== 1) throw new Error(`one *${ending} is expected: ${found.join(', ')}`);
  return readFileSync(`dist/report/assets/${found[0]}`, 'utf8');
};
// The worker's file is there as well; a report lays its graphs out without one.
const script = only('.js', /^worker-/);
const style = only('.css', /^$/);
// Within an element of HTML only these end it, or change how it is read.
if (/<\/script|<!--/i.test(script)) throw new Error('the script would end its own element');
if (/<\/style/i.test(style)) throw new Error('the style sheet would end its own element');

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
const policy = [
  `default-src 'none'`,
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  `img-src data: blob:`,
  `base-uri 'none'`,
  `form-action 'none'`,
].join('; ');
const page = readFileSync('dist/report/report.html', 'utf8')
  .replace(/\s*<(script|link)\b[^>]*\b(src|href)="\.\/assets\/[^>]*>(<\/script>)?/g, '')
  .replace(
    '<head>',
    () => `<head>\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`,
  )
  .replace('</head>', () => `  <style>${style}</style>\n  </head>`)
  .replace(
    '</body>',
    () =>
      `  <script type="application/json" id="data">{"cairn":"report"}</script>\n    <script type="module">${script}</script>\n  </body>`,
  );
if (/\b(src|href)="/.test(page.replace(script, '')))
  throw new Error('the page still loads something');
rmSync('dist/report', { recursive: true });
mkdirSync('dist/report');
writeFileSync('dist/report/template.html', page);
