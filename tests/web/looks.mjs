// What pages look like, compared with what is in looks.json: each as a grid of grey cells. Ids and times
// differ between runs: that changes the shade of some cells, and hardly the mean of several in a row. A
// part that moved, vanished or lost its style does. Machines have other fonts, so all text is in one that
// the tests install. WEB_LOOKS=write keeps what is seen as what is wanted, after a change that was meant;
// look at the pictures in $WEB_SHOTS first.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { assert, main, open, settled, until } from './drive.mjs';
import { shot } from './pages.mjs';

const KEPT = fileURLToPath(new URL('looks.json', import.meta.url));
const [COLUMNS, ROWS] = [68, 45];
const ROW = 8; // cells
// Levels of grey by which the mean of ROW cells may differ. Seen: other runs 8; without the tools 14.6, the tabs 23.
const FAR = 12;
const enc = encodeURIComponent;

/** Adds a style sheet to the page. */
const style = (text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets.push(sheet);
};
const FONT = 'body, body * { font-family: "DejaVu Sans" !important }';

/** The page's picture as COLUMNS × ROWS bytes. */
async function grid(page) {
  const png = (await page.screenshot()).toString('base64');
  return await page.evaluate(
    async ([base64, columns, rows]) => {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [picture.width, picture.height];
      const c = canvas.getContext('2d');
      c.drawImage(picture, 0, 0);
      const { data } = c.getImageData(0, 0, canvas.width, canvas.height);
      const sums = new Float64Array(columns * rows);
      const counts = new Float64Array(columns * rows);
      for (let y = 0; y < canvas.height; y++)
        for (let x = 0; x < canvas.width; x++) {
          const cell = Math.floor((y * rows) / canvas.height) * columns + Math.floor((x * columns) / canvas.width);
          const i = (y * canvas.width + x) * 4;
          sums[cell] += 0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2];
          counts[cell]++;
        }
      return [...sums].map((s, i) => Math.round(s / counts[i]));
    },
    [png, COLUMNS, ROWS],
  );
}

/** The largest difference of the means of ROW neighbours. */
function far(a, b) {
  let most = 0;
  for (let at = 0; at < a.length; at += COLUMNS)
    for (let x = 0; x + ROW <= COLUMNS; x++) {
      let sum = 0;
      for (let i = at + x; i < at + x + ROW; i++) sum += a[i] - b[i];
      most = Math.max(most, Math.abs(sum) / ROW);
    }
  return most;
}

const runs = JSON.parse(readFileSync(process.env.RUNS ?? 'runs.json', 'utf8'));
const PAGES = {
  runs: '/runs?pipeline=failing',
  run: `/runs/${runs.first}?open=train`,
  tasks: `/runs/${runs.first}?view=tasks`,
  task: `/runs/${runs.other}/tasks/${enc('train[fold=1]')}?tab=overview`,
  log: `/runs/${runs.failed}/tasks/crash?tab=log#L101`,
  confusion: `/compare?runs=${runs.first},${runs.other}&view=confusion`,
  start: '/start?pipeline=shapes.yaml',
  empty: '/runs?pipeline=nothing',
  missing: '/runs/nothing-here',
};

export const checks = {
  async looks() {
    const kept = process.env.WEB_LOOKS === 'write' ? {} : JSON.parse(readFileSync(KEPT, 'utf8'));
    const seen = {};
    const said = [];
    for (const dark of [false, true]) {
      const b = await open({ dark });
      b.expectError(/runs\/nothing-here/);
      await b.page.addInitScript(style, FONT);
      for (const [page, path] of Object.entries(PAGES)) {
        if (dark && !['run', 'log'].includes(page)) continue;
        const name = dark ? `${page}-dark` : page;
        await b.go(path);
        await settled(b.page);
        // What is drawn a frame later is drawn when two pictures are the same.
        let last = await grid(b.page);
        await until(async () => {
          const next = await grid(b.page);
          const same = far(next, last) === 0;
          last = next;
          return same;
        }, `${name} rests`);
        seen[name] = last;
        await shot(b.page, `looks/${name}`);
        if (process.env.WEB_LOOKS === 'write') kept[name] = Buffer.from(last).toString('base64');
        const off = kept[name] ? far(last, [...Buffer.from(kept[name], 'base64')]) : 255;
        console.log(`${name}: ${off.toFixed(1)} levels off`);
        if (off > FAR) said.push(name);
      }
      // The comparison sees what it is for, a part that is lost and another page.
      if (!dark) {
        const changed = async (css) => {
          await b.go(PAGES.run);
          await b.page.evaluate(style, css);
          return far(await grid(b.page), seen.run);
        };
        for (const part of ['.tabs', '.tools', '.inlinefacts', '.pagehead .btn', '.rail nav']) {
          const off = await changed(`main ${part}, ${part} { visibility: hidden !important }`);
          assert(off > FAR, `without ${part} the page is ${off} off`);
        }
        for (const [x, y] of [['log', 'run'], ['start', 'runs'], ['tasks', 'run']]) assert(far(seen[x], seen[y]) > FAR, `${x} and ${y} look alike`);
      }
      await b.close();
    }
    if (process.env.WEB_LOOKS === 'write') writeFileSync(KEPT, `${JSON.stringify(kept, null, 1)}\n`);
    if (said.length) throw new Error(`these look different from looks.json: ${said.join(', ')}; pictures: ${process.env.WEB_SHOTS}`);
  },
};

await main(checks);
