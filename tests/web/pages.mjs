// Checks of the pages by name; pages.t made the runs and says which in RUNS (JSON: name → id).

import { readFileSync, writeFileSync } from 'node:fs';
import { accessible, api, assert, drawn, main, open, same, settled, until, url } from './drive.mjs';

const runs = JSON.parse(readFileSync(process.env.RUNS ?? 'runs.json', 'utf8'));
const enc = encodeURIComponent;
const taskPath = (run, task) => `/runs/${run}/tasks/${enc(task)}`;

async function withPage(what, options = {}) {
  const b = await open(options);
  try {
    await what(b.page, b);
  } finally {
    await b.close();
  }
}

const text = (locator) => locator.innerText();

/** A picture of the page as it is, for whoever looks at a failure, or at what changed. */
export async function shot(page, name) {
  if (!process.env.WEB_SHOTS) return;
  const png = await page.screenshot();
  const webp = await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext('2d').drawImage(picture, 0, 0);
    return canvas.toDataURL('image/webp', 0.85).split(',')[1];
  }, png.toString('base64'));
  writeFileSync(`${process.env.WEB_SHOTS}/${name}.webp`, Buffer.from(webp, 'base64'));
}

/** Every page and state that is looked at for readers, keyboards and phones: an address, and what is waited for or done there. */
async function places() {
  const t = await api(`/api/v1/runs/${runs.first}/task?task=report`);
  const report = t.outputs.find((o) => o.name === 'report').content.id;
  const both = `runs=${runs.first},${runs.other}`;
  const fold = enc('train[fold=1]');
  const plain = ['/', '/runs', '/runs?state=failed&pipeline=failing', '/runs?pipeline=nothing', '/runs?columns=author,schedule,commit&metrics=accuracy&params=lr', `/runs/${runs.first}`, `/runs/${runs.first}?open=train`, `/runs/${runs.first}?view=timeline`,
    `/runs/${runs.again}?view=timeline`, `/runs/${runs.first}?view=tasks`, `/runs/${runs.first}?view=metrics&x=time`, `/runs/${runs.first}?view=about`, `/runs/${runs.failed}`, `${taskPath(runs.failed, 'crash')}?tab=log`,
    `${taskPath(runs.failed, 'crash')}?tab=attempts`, `${taskPath(runs.ranks, 'gang')}?tab=log&rank=1`, `${taskPath(runs.ranks, 'gang')}?tab=log&regex=1&find=${enc('rank.*1')}`, `${taskPath(runs.other, 'train[fold=1]')}?tab=overview`,
    `${taskPath(runs.first, 'train[fold=1]')}?tab=metrics`, `/artifacts/${report}`, `/artifacts/${report}?path=summary.json`, `/artifacts/${report}?path=samples.tar`, `/artifacts/${report}?path=confusion.csv`, '/compare', `/compare?${both}`,
    `/compare?view=curves&${both}`, `/compare?view=scatter&${both}`, `/compare?view=parallel&${both}`, `/compare?view=confusion&${both}`, '/lineage', `/lineage/${report}`, `/lineage?metric=accuracy&of=${fold}&run=baseline`,
    '/lineage?input=raw&run=baseline&direction=down', '/lineage?file=data/&direction=down', '/schedules', '/start', '/audit', '/runs/nothing-here', '/sign-in', ...(process.env.WEB_PAGES ?? '').split(' ').filter(Boolean)];
  return [
    ...plain.map((p) => [p]),
    [
      '/start?pipeline=shapes.yaml',
      async (page) => {
        await page.getByLabel('lr', { exact: true }).fill('0.7');
        await page.getByRole('button', { name: 'Show what would run' }).click();
        await page.getByRole('group', { name: 'What would run' }).waitFor();
      },
    ],
    [
      '/store',
      async (page) => {
        await page.getByRole('button', { name: 'Find out' }).click();
        await page.locator('.figures').getByText(/^\d[\d,]* objects?/).last().waitFor();
      },
    ],
  ];
}

/** The accessibility tree has a name for all that takes the focus (a row is read by its cells), and Tab alone comes to all of it, and
 * out again: twice, since a page may begin in its middle. What it says is wrong. */
async function walk(page, cdp, p) {
  const said = [];
  const { nodes } = await cdp.send('Accessibility.getFullAXTree');
  const focusable = nodes.filter((n) => !n.ignored && !['RootWebArea', 'main', 'row'].includes(n.role?.value) && n.properties?.some((x) => x.name === 'focusable' && x.value.value));
  for (const n of focusable) if (!n.name?.value?.trim()) said.push(`${p}: ${n.role?.value} without a name`);
  const wanted = await page.evaluate(() => {
    document.activeElement?.blur();
    const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0 && !e.closest('[inert]');
    const all = [...document.querySelectorAll('a[href], button:not([disabled]), input:not([disabled]), select, textarea, summary, [tabindex="0"]')].filter((e) => e.tabIndex >= 0 && shown(e));
    all.forEach((e, i) => (e.dataset.stop = i));
    // Noted here, so that keys need no answer: each would wait for a frame. A key at the body means that the focus was out.
    window.reached = new Set();
    window.outs = -1; // it begins there
    document.addEventListener('focusin', (e) => window.reached.add(e.target.dataset.stop), true);
    document.addEventListener('keydown', (e) => (window.outs += e.target === document.body ? 1 : 0), true);
    return all.length;
  });
  // Long lists show what is in view: rows that come while the focus moves have no number.
  const tab = { key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9, nativeVirtualKeyCode: 9 };
  const key = (type) => cdp.send('Input.dispatchKeyEvent', { type, ...tab });
  let outs = 0;
  for (let i = 0; i < wanted * 3 + 100 && outs < 2; i += 12) {
    await Promise.all(Array.from({ length: 12 }, () => [key('rawKeyDown'), key('keyUp')]).flat());
    outs = await page.evaluate(() => window.outs);
  }
  if (outs < 2) said.push(`${p}: Tab doesn't come out`);
  const missed = await page.evaluate(() =>
    [...document.querySelectorAll('[data-stop]')].filter((e) => !window.reached.has(e.dataset.stop) && e.type !== 'radio').map((e) => e.outerHTML.slice(0, 120)),
  );
  if (missed.length) said.push(`${p}: Tab doesn't come to ${missed.length} of ${wanted}: ${missed.slice(0, 3).join(' ')}`);
  return said;
}

export const checks = {
  async runs() {
    await withPage(async (page, { go }) => {
      await go('/runs');
      const table = page.getByRole('table', { name: 'Runs' });
      await table.getByRole('link', { name: 'failing' }).first().waitFor();
      // What the table says is what the API says.
      const all = (await api('/api/v1/runs?limit=100')).runs;
      assert((await text(page.locator('.pagehead'))).includes(`${all.length} runs`), 'the number of runs');
      for (const r of all.slice(0, 5)) await table.getByText(r.id, { exact: true }).waitFor();
      // Filters are in the address, and an address is a filter.
      await page.getByLabel('State', { exact: true }).selectOption('failed');
      await page.waitForURL(/state=failed/);
      await until(async () => (await table.getByRole('row').count()) === 1 + all.filter((r) => r.state === 'failed').length, 'only failed runs');
      await go(`/runs?param=${enc('lr=0.3')}`);
      await table.getByText(runs.other, { exact: true }).waitFor();
      same(await table.getByText(runs.first, { exact: true }).count(), 0, 'lr=0.1 is no match');
      await go(`/runs?q=${runs.first}`);
      await table.getByText(runs.first, { exact: true }).waitFor();
      await go('/runs?columns=state,schedule,author,commit');
      for (const name of ['Schedule', 'Author', 'Commit']) await table.getByRole('columnheader', { name, exact: true }).waitFor();
      await table.getByText('A', { exact: true }).first().waitFor();
      await go('/runs?metrics=accuracy&params=lr');
      await table.getByRole('columnheader', { name: 'lr', exact: true }).waitFor();
      await go('/runs?pipeline=nothing');
      await page.getByRole('heading', { name: 'No run matches' }).waitFor();
      await page.goBack();
      await page.waitForURL(/params=lr/);
    });
  },

  async select() {
    await withPage(async (page, { go }) => {
      await go('/runs?pipeline=shapes');
      await page.getByLabel(`Select run ${runs.first}`).check();
      await page.getByLabel(`Select run ${runs.other}`).check();
      await page.getByRole('button', { name: 'Compare 2' }).click();
      await page.waitForURL(/\/compare\?runs=/);
      await page.getByRole('heading', { name: 'Compare runs' }).waitFor();
    });
  },

  async graph() {
    await withPage(async (page, { go }) => {
      await go(`/runs/${runs.first}`);
      const tree = page.getByRole('tree', { name: 'Steps' });
      same(await tree.getByRole('treeitem').count(), 4, 'a fan-out is one node');
      same(await page.locator('canvas').count(), 1);
      await tree.getByRole('treeitem').filter({ hasText: 'train' }).click();
      await page.waitForURL(/open=train/);
      await until(async () => (await tree.getByRole('treeitem').count()) === 7, 'three tasks of train');
      await shot(page, 'run');
      // Tasks that were hits aren't in the timeline, and are in the graph.
      await go(`/runs/${runs.again}?open=clean`);
      await until(async () => (await tree.getByRole('treeitem', { level: 2 }).count()) === 5, 'five hits of clean');
      await go(`/runs/${runs.outer}?open=inner`);
      await tree.getByRole('treeitem').filter({ hasText: 'inner/train' }).waitFor();
      await page.getByRole('button', { name: 'Fold all' }).click();
      await until(async () => (await tree.getByRole('treeitem').count()) === 2, 'folded again');
      // The drawn graph isn't empty: it has more than one colour.
      const colours = await page.locator('canvas').evaluate((c) => {
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set();
        for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d.slice(i, i + 3).join());
        return seen.size;
      });
      assert(colours > 5, `${colours} colours in the canvas`);
    });
  },

  async views() {
    await withPage(async (page, { go }) => {
      await go(`/runs/${runs.first}?view=timeline`);
      const all = (await api(`/api/v1/runs/${runs.first}/tasks`)).total;
      const timeline = page.getByRole('group', { name: `Timeline of ${all} tasks` });
      await timeline.waitFor();
      // Who waited for whom: the last task is below, and began after one of the training.
      await timeline.hover({ position: { x: 400, y: 26 + 18 * (all - 1) + 9 } });
      await page.locator('.tip').getByText(/after train\[fold=\d\]/).waitFor({ state: 'attached' });
      // Hits are in it, with what they saved; they can be left out.
      await go(`/runs/${runs.again}?view=timeline`);
      const again = page.getByRole('group', { name: /Timeline of/ });
      assert((await again.getAttribute('aria-label')).includes(`${all} tasks`), 'hits are in the timeline');
      await again.hover({ position: { x: 400, y: 26 + 9 } });
      await page.locator('.tip').getByText(/saved/).waitFor({ state: 'attached' });
      await page.getByLabel('Only what ran').check();
      await page.getByText('Nothing ran here').waitFor();
      await go(`/runs/${runs.first}?view=tasks`);
      const table = page.getByRole('table', { name: 'Tasks' });
      await table.getByRole('link', { name: 'train[fold=2]' }).waitFor();
      await page.getByLabel('State', { exact: true }).selectOption('executed');
      await page.waitForURL(/tstate=executed/);
      await page.getByLabel('Filter tasks').fill('fold=1');
      await until(async () => (await table.getByRole('row').count()) === 2, 'one task is left');
      await go(`/runs/${runs.first}?view=metrics`);
      await page.getByRole('img', { name: /^loss: train\[fold=0\]/ }).waitFor();
      await page.getByLabel('Log scale').check();
      await page.waitForURL(/log=1/);
      // Over time: what the program wrote as wall_time, since its first point.
      await page.getByRole('button', { name: 'Time', exact: true }).click();
      await page.waitForURL(/x=time/);
      same(await page.getByText('These curves have no times', { exact: false }).count(), 0);
      await go(`/runs/${runs.first}?view=about`);
      await page.getByText(`cairn status ${runs.first}`).waitFor();
    });
  },

  async task() {
    await withPage(async (page, { go }) => {
      await go(`${taskPath(runs.other, 'train[fold=1]')}?tab=overview`);
      const panel = page.getByRole('region', { name: 'Task train[fold=1]' });
      await panel.getByText('python3 train.py 0.3 30 1').waitFor();
      const why = await text(panel.locator('.changes'));
      assert(/lr\s+0\.1\s+→\s+0\.3/.test(why), `the reason says what changed: ${why}`);
      await panel.getByText('model', { exact: true }).waitFor();
      await panel.getByRole('link', { name: 'clean[1.txt]' }).first().click();
      await page.waitForURL(/clean%5B1\.txt%5D/);
      await go(`${taskPath(runs.failed, 'crash')}?tab=attempts`);
      await page.getByText('Attempt 2').waitFor();
      await page.getByText(/tried again after/).waitFor();
      await go(`${taskPath(runs.first, 'train[fold=0]')}?tab=metrics`);
      await page.getByRole('img', { name: /^accuracy: train\[fold=0\]/ }).waitFor();
      await page.keyboard.press('Escape');
      await page.waitForURL(new RegExp(`/runs/${runs.first}($|\\?)`));
    });
  },

  async failure() {
    await withPage(async (page, { go }) => {
      await go(`/runs/${runs.failed}`);
      const callout = page.getByRole('region', { name: 'First failure' });
      await callout.getByText('RuntimeError: the device is gone').waitFor();
      await callout.getByRole('link', { name: 'Open log' }).click();
      await page.getByRole('group', { name: 'Log of crash' }).waitFor();
    });
  },

  async log() {
    await withPage(async (page, { go }) => {
      await go(`${taskPath(runs.failed, 'crash')}?tab=log`);
      const log = page.getByRole('group', { name: 'Log of crash' });
      await log.getByText('RuntimeError: the device is gone').waitFor();
      await page.getByText('302 lines').waitFor();
      same(await log.getByText('Traceback (most recent call last):').evaluate((e) => getComputedStyle(e).fontWeight), '700', 'ANSI bold');
      // Whose end is shown shows it in a smaller window, too, until somebody scrolls.
      const inView = (n) => log.evaluate((e, n) => {
        const [line, all] = [e.querySelector(`[data-line="${n}"]`)?.getBoundingClientRect(), e.getBoundingClientRect()];
        return !!line && line.top >= all.top && line.bottom <= all.bottom + 1;
      }, n);
      await until(() => inView(302), 'the last line');
      await page.setViewportSize({ width: 1360, height: 620 });
      await until(async () => (await log.evaluate((e) => e.clientHeight)) < 450 && inView(302), 'the last line, in less height');
      await page.setViewportSize({ width: 1360, height: 900 });
      await until(() => inView(302), 'and in more');
      await page.getByRole('button', { name: 'First error' }).click();
      await page.waitForURL(/#L30[12]$/);
      // Keys work natively: Home shows the first line.
      await log.focus();
      await page.keyboard.press('Home');
      await log.getByText('step 1', { exact: true }).waitFor();
      await page.getByLabel('Search the log').fill('STEP 15');
      await page.keyboard.press('Enter');
      await page.getByText('1 of 11').waitFor();
      await log.locator('mark').first().waitFor();
      await log.focus();
      await page.keyboard.press('n');
      await page.getByText('2 of 11').waitFor();
      // A link to lines shows them, marked.
      await page.goto(`${url}${taskPath(runs.failed, 'crash')}?tab=log#L100-L102`);
      await page.reload();
      await until(async () => (await log.locator('.picked').count()) === 3, 'three lines are marked');
      assert(await log.getByText('step 101', { exact: true }).isVisible(), 'line 101 is in view');
    });
  },

  async ranks() {
    await withPage(async (page, { go, expectError }) => {
      expectError(/400 .*q=one/); // an expression that is none
      await go(`${taskPath(runs.ranks, 'gang')}?tab=log&rank=1`);
      const log = page.getByRole('group', { name: 'Log of gang' });
      await page.getByText('2,501 lines').waitFor();
      await log.getByText('done 7', { exact: true }).waitFor();
      same(await log.getByText('zero', { exact: false }).count(), 0, 'the other rank');
      await log.focus();
      await page.keyboard.press('Home');
      await log.getByText('one 1', { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Regular expression' }).click();
      await page.getByLabel('Search the log').fill('^one 2\\d9[89]$');
      await page.keyboard.press('Enter');
      await page.getByText('1 of 10').waitFor();
      await log.getByText('one 2098', { exact: true }).waitFor();
      await page.waitForURL(/regex=1/);
      // The link has search, rank and line.
      await log.locator('[data-line="2099"] .lineno').click();
      await page.waitForURL(/#L2099$/);
      await page.reload();
      await log.locator('.picked').getByText('one 2099', { exact: true }).waitFor();
      await page.getByLabel('Search the log').fill('one (');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').filter({ hasText: /parenthesis/ }).waitFor();
    });
  },

  async curves() {
    await withPage(async (page, { go }) => {
      await go(`${taskPath(runs.slow, 'wait')}?tab=metrics`);
      const last = async () => Number(/wait (\d+)$/.exec((await page.getByRole('img', { name: /^ticks: wait/ }).getAttribute('aria-label')) ?? '')?.[1] ?? 0);
      const first = await until(last, 'a point');
      await until(async () => (await last()) > first + 2, 'new points come by themselves');
    });
  },

  async wide() {
    // Ten thousand tasks, live from their beginning to their end; a hundred execute, the others get their results.
    await withPage(async (page, { go }) => {
      await api('/api/v1/runs', { pipeline: 'wide.yaml', params: { go: process.env.GO } });
      const id = await until(async () => (await api('/api/v1/runs?pipeline=wide&state=running')).runs[0]?.id, 'it runs', 120);
      await go(`/runs/${id}`);
      const tree = page.getByRole('tree', { name: 'Steps' });
      const t = tree.getByRole('treeitem', { level: 1 }).filter({ has: page.getByTitle('t', { exact: true }) });
      await t.filter({ hasText: '10,000' }).waitFor({ timeout: 240_000 });
      same(await tree.getByRole('treeitem').count(), 2, 'the matrix is one node');
      await t.click();
      await page.waitForURL(/open=t/);
      await until(async () => (await tree.getByRole('treeitem', { level: 2 }).count()) > 20, 'its tasks');
      await page.getByRole('button', { name: 'Fold all' }).click();
      await until(async () => (await tree.getByRole('treeitem').count()) === 2, 'folded again');
      writeFileSync(`${process.env.GO}/wide`, '');
      // The page stays open, and says by itself that it has ended.
      await page.locator('.pill').filter({ hasText: 'Succeeded' }).first().waitFor({ timeout: 180_000 });
      const counts = (await api(`/api/v1/runs/${id}`)).counts;
      same([counts.total, counts.executed + counts.hits, counts.failed], [10001, 10001, 0]);
      await go(`/runs/${id}?view=tasks`);
      const table = page.getByRole('table', { name: 'Tasks' });
      await until(async () => (await table.getAttribute('aria-rowcount')) === '10002', 'a row for each task');
      // To the last row by one key; each row is there when it is in view.
      await table.getByRole('row').nth(1).focus();
      await page.keyboard.press('End');
      await table.getByRole('link', { name: 't[a=99,b=99]', exact: true }).waitFor();
      await page.getByLabel('Filter tasks').fill('a=42,b=17');
      await until(async () => (await table.getByRole('row').count()) === 2, 'one task is left');
      await table.getByRole('link', { name: 't[a=42,b=17]', exact: true }).click();
      const panel = page.getByRole('region', { name: 'Task t[a=42,b=17]' });
      await panel.getByText('echo 42').first().waitFor();
      await go(`/runs/${id}?view=timeline`);
      await page.getByRole('group', { name: 'Timeline of 10,001 tasks' }).or(page.getByRole('group', { name: 'Timeline of 10001 tasks' })).waitFor();
    });
  },

  async bulk() {
    // Two runs of many still go on. They are the oldest: the list hasn't read them when all are selected.
    await withPage(async (page, { go }) => {
      const running = async () => (await api('/api/v1/runs?pipeline=bulk&state=running')).runs;
      same((await running()).length, 2, 'two run');
      await go('/runs?pipeline=bulk');
      const table = page.getByRole('table', { name: 'Runs' });
      await table.getByRole('checkbox').first().check();
      const { total } = await api('/api/v1/runs?pipeline=bulk&limit=1');
      assert(total > 200, `${total} runs`);
      await page.getByRole('button', { name: `Select all ${total} that match` }).click();
      await page.getByText(`${total} selected`).waitFor();
      await accessible(page, 'all are selected');
      same(await page.getByRole('button', { name: `Compare ${total}` }).getAttribute('aria-disabled'), 'true', 'more than can be compared');
      // Without one of them.
      await table.getByRole('checkbox').first().uncheck();
      await page.getByText(`${total - 1} selected`).waitFor();
      for (const r of await running()) same(await table.getByText(r.id, { exact: true }).count(), 0, 'not read yet');
      await page.getByRole('button', { name: 'Cancel what runs' }).click();
      const dialog = page.getByRole('dialog', { name: 'Cancel what runs' });
      await dialog.getByText('2 of').or(dialog.getByText('2 runs of the selected ones are running.')).waitFor();
      await accessible(page, 'a question about all');
      await dialog.getByRole('button', { name: 'Cancel 2 running runs' }).click();
      await page.getByText('2 runs asked to stop').waitFor();
      await until(async () => (await running()).length === 0, 'both are cancelled', 120);
      // Another search is another selection.
      await page.getByLabel('State', { exact: true }).selectOption('cancelled');
      await page.waitForURL(/state=cancelled/);
      await until(async () => (await page.getByText(/\d selected/).count()) === 0, 'nothing is selected any more');
      await table.getByRole('checkbox').first().check();
      await page.getByRole('button', { name: 'Select all 2 that match' }).click();
      await page.getByRole('button', { name: 'Compare 2' }).click();
      await page.waitForURL(/\/compare\?runs=/);
      same(new URL(page.url()).searchParams.get('runs').split(',').length, 2);
    });
  },

  async states() {
    // What the server made of its schedules' times (pages.t): each with its own colour and word, and why.
    await withPage(async (page, { go }) => {
      const zone = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Berlin' });
      const firing = async (schedule, state) => (await api(`/api/v1/schedules/${schedule}/history?limit=500`)).firings.find((x) => x.state === state);
      for (const [schedule, state, word, most, message] of [
        ['replaces', 'cancelled', 'Cancelled', 1, /replaced by a later firing/],
        ['misses', 'missed', 'Missed', 6, /no server ran/],
        ['skips', 'skipped', 'Skipped', 1, /still/],
        ['tries', 'retrying', 'Waits for its retry', 1, null],
        ['waits', 'waiting', 'Waiting', 1, null],
      ]) {
        const f = await until(() => firing(schedule, state), `${schedule}: ${state}`, 120);
        await api(`/api/v1/schedules/${schedule}/pause`, {});
        await go(`/schedules?scale=week&schedule=${schedule}&day=${zone.format(new Date(f.nominal))}`);
        const cell = f.run ? page.locator(`table.calendar a.firing[href*="${f.run}"]`) : page.locator('table.calendar span.firing').filter({ hasText: word }).first();
        await cell.filter({ hasText: word }).waitFor();
        const tone = { retrying: 'waiting' }[state] ?? state;
        assert(await cell.evaluate((e, t) => e.matches(`.tone-${t}`), tone), `${state} has its colour`);
        // Of five hours, and a full hour more or less at their ends.
        assert(f.times >= Math.min(most, 4) && f.times <= most, `${f.times} times`);
        if (f.times > 1) same(await text(cell.locator('.badge')), `×${f.times}`);
        if (message) assert(message.test(await cell.getAttribute('title')), `it says why: ${await cell.getAttribute('title')}`);
        await accessible(page, `${state} on the calendar`);
      }
    });
  },

  async left_open() {
    // What a page holds after thousands of events is what it held after some. Another tab would tell them in the same way.
    const all = (await api('/api/v1/runs?limit=8')).runs;
    const { tasks } = await api(`/api/v1/runs/${runs.first}/tasks`);
    const { schedules } = await api('/api/v1/schedules');
    const tell = ([list, tasks, run, schedules, frames]) =>
      (async () => {
        const tab = new BroadcastChannel('cairn-live');
        const say = (kind, data) => tab.postMessage({ type: 'event', event: { kind, data } });
        for (let i = 0; i < frames; i++) {
          for (let k = 0; k < 5; k++) {
            for (const r of list) say('run', { ...r, message: `event ${i} ${k}`, counts: { ...r.counts, hits: i } });
            for (const t of tasks) say('task', { ...t, run, state: (i + k) % 2 ? 'running' : 'executed', duration_ns: i });
          }
          for (const s of schedules) say('schedule', s);
          await new Promise((r) => requestAnimationFrame(r));
        }
        tab.close();
      })();
    const said = [];
    await withPage(async (page, { go }) => {
      const cdp = await page.context().newCDPSession(page);
      const held = async () => {
        for (let i = 0; i < 3; i++) await cdp.send('HeapProfiler.collectGarbage');
        const { usedSize } = await cdp.send('Runtime.getHeapUsage');
        const { nodes, jsEventListeners } = await cdp.send('Memory.getDOMCounters');
        return { kib: usedSize / 1024, nodes, listeners: jsEventListeners };
      };
      const grown = async (frames) => {
        await page.evaluate(tell, [all, tasks, runs.first, schedules, 20]);
        const before = await held();
        await page.evaluate(tell, [all, tasks, runs.first, schedules, frames]);
        const after = await held();
        return Object.fromEntries(Object.keys(before).map((k) => [k, Math.round(after[k] - before[k])]));
      };
      const FRAMES = 40; // with 5 events of each run and task: some thousands
      const leaks = (g) => g.kib > 300 || g.nodes > 200 || g.listeners > 40;
      for (const p of ['/', '/runs', `/runs/${runs.first}`, `/runs/${runs.first}?view=timeline`, `/runs/${runs.first}?view=tasks`, '/schedules']) {
        await go(p);
        let g = await grown(FRAMES);
        if (leaks(g)) g = await grown(FRAMES); // what is made once, late, is no leak
        console.log(`${p}: ${JSON.stringify(g)}`);
        if (leaks(g)) said.push(`${p} holds more after ${FRAMES} frames of events: ${JSON.stringify(g)}`);
      }
      // A page that keeps what it hears is seen.
      await page.evaluate(() => {
        window.kept = [];
        new BroadcastChannel('cairn-live').onmessage = (e) => window.kept.push(e.data);
      });
      const g = await grown(FRAMES);
      console.log(`one that keeps them: ${JSON.stringify(g)}`);
      assert(leaks(g), `a leak isn't seen: ${JSON.stringify(g)}`);
    });
    if (said.length) throw new Error(said.join('\n'));
  },

  async follow() {
    await withPage(async (page, { go }) => {
      await go(`${taskPath(runs.slow, 'wait')}?tab=log`);
      const log = page.getByRole('group', { name: 'Log of wait' });
      await page.getByRole('button', { name: 'Following' }).waitFor();
      const last = async () => Number(/tick (\d+)\s*$/.exec(await text(log))?.[1] ?? 0);
      const first = await until(last, 'a line');
      await until(async () => (await last()) > first + 3, 'new lines come by themselves');
      // Whoever scrolls up stays there.
      await until(async () => (await log.evaluate((e) => e.scrollHeight - e.clientHeight)) > 60, 'more lines than fit');
      await log.evaluate((e) => (e.scrollTop = 0));
      await page.getByRole('button', { name: 'Follow', exact: true }).waitFor();
      const lines = () => text(page.locator('.logfoot')).then((t) => Number(t.split(' ')[0].replaceAll(',', '')));
      const n = await lines();
      await until(async () => (await lines()) > n + 3, 'the log grows on');
      same(await log.evaluate((e) => e.scrollTop), 0, 'the scroll was taken away');
    });
  },

  async live() {
    await withPage(async (page, { go, context }) => {
      const opened = [];
      context.on('request', (r) => r.url().includes('/api/v1/events') && opened.push(r.url()));
      await go('/runs');
      await page.locator('.dot.live').waitFor();
      // A list with a search, in a tab of its own: what matches is the server's to say, and it is asked by itself.
      const searched = await context.newPage();
      await searched.goto(`${url}/runs?q=ask.yaml`);
      await searched.getByRole('heading', { name: 'No run matches' }).waitFor();
      await api('/api/v1/runs', { pipeline: 'ask.yaml' });
      const id = await until(async () => (await api('/api/v1/runs?pipeline=ask')).runs[0]?.id, 'the run has begun');
      await page.getByRole('table', { name: 'Runs' }).getByText(id, { exact: true }).waitFor();
      await searched.getByRole('table', { name: 'Runs' }).getByText(id, { exact: true }).waitFor({ timeout: 240_000 });
      await searched.close();
      // A second tab uses the first one's connection.
      const before = opened.length;
      const other = await context.newPage();
      await other.goto(`${url}/runs/${id}`);
      await other.getByRole('region', { name: 'Waits for a person' }).waitFor();
      await until(() => opened.slice(before).some((u) => u.includes(id)), 'the first tab asks for the second one’s run');
      const streams = await page.evaluate(() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/events')).length);
      assert(streams > 0, 'the first tab holds the connection');
      same(await other.evaluate(() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/events')).length), 0, 'the second tab has none');
      const asks = other.getByRole('tree', { name: 'Steps' }).getByRole('treeitem').filter({ hasText: 'release' });
      await until(async () => (await text(asks)).includes('Needs approval'), 'the step that asks says so');
      await other.getByLabel('Note (recorded with the answer)').fill('looks good');
      await other.getByRole('button', { name: 'Approve' }).click();
      await other.locator('.pill').filter({ hasText: 'Succeeded' }).first().waitFor();
      // The list in the first tab knows it, too.
      await until(async () => (await text(page.locator('.vrow').filter({ hasText: id }))).includes('Succeeded'), 'patched in the other tab');
      same((await api(`/api/v1/runs/${id}/attempts`)).attempts.find((a) => a.approval).approval.said, 'looks good');
    });
  },

  async left() {
    await withPage(async (page, { go }) => {
      // Started from a page, with a history of one run whose last step took a second; and a run without a history.
      const begin = async (pipeline, params) => {
        await api('/api/v1/runs', { pipeline: `${pipeline}.yaml`, params });
        return await until(async () => (await api(`/api/v1/runs?pipeline=${pipeline}&state=running`)).runs[0]?.id, `${pipeline} runs`, 120);
      };
      const first = await begin('paced', {});
      await until(async () => (await api(`/api/v1/runs/${first}`)).state === 'succeeded', 'a history', 120);
      const id = await begin('paced', { go: process.env.GO });
      await go(`/runs/${id}`);
      // The page was opened at the run's beginning: the time comes by itself. Where it has passed already, that is said.
      const left = page.locator('.inlinefacts time').filter({ hasText: /about|longer than before/ });
      await left.waitFor({ timeout: 240_000 });
      const { started, expected_end: expected } = await api(`/api/v1/runs/${id}`);
      const ms = Date.parse(expected) - Date.parse(started);
      assert(ms > 900 && ms < 120_000, `it should end ${ms} ms after its start`);
      await left.filter({ hasText: 'longer than before' }).waitFor({ timeout: 180_000 });
      await go(`/runs/${runs.slow}`);
      await page.locator('.pill').filter({ hasText: 'Running' }).first().waitFor();
      same(await page.getByText('Time left').count(), 0, 'nobody knows when a first run ends');
      writeFileSync(`${process.env.GO}/paced`, '');
      await until(async () => (await api(`/api/v1/runs/${id}`)).state === 'succeeded', 'it ends', 120);
      await go(`/runs/${id}`);
      same(await page.getByText('Time left').count(), 0, 'it has ended');
    });
  },

  async actions() {
    await withPage(async (page, { go }) => {
      await go(`/runs/${runs.slow}`);
      await page.getByRole('button', { name: 'Cancel' }).click();
      const dialog = page.getByRole('dialog', { name: 'Stop this run?' });
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await page.locator('.pill').filter({ hasText: 'Cancelled' }).first().waitFor();
      same((await api(`/api/v1/runs/${runs.slow}`)).state, 'cancelled');
    });
  },

  async viewer() {
    // Without a session this machine reads; what changes is in reach, off, and says why.
    await withPage(
      async (page, { go }) => {
        await go(`/runs/${runs.failed}`);
        const again = page.getByRole('button', { name: /Run again/ });
        same(await again.getAttribute('aria-disabled'), 'true');
        assert(/role operator/.test(await again.getAttribute('title')), 'it says which role');
        await again.click({ force: true });
        assert(page.url().includes(`/runs/${runs.failed}`), 'nothing happened');
      },
      { signIn: false },
    );
  },

  async artifacts() {
    await withPage(async (page, { go, context }) => {
      const t = await api(`/api/v1/runs/${runs.first}/task?task=report`);
      const id = t.outputs.find((o) => o.name === 'report').content.id;
      const at = (path) => `/artifacts/${id}?name=report${path ? `&path=${enc(path)}` : ''}`;
      await go(at(''));
      await page.getByRole('link', { name: /summary\.json/ }).click();
      await page.locator('.json').getByText('classes:').waitFor();
      await go(at('notes.txt'));
      await page.getByText('line 1', { exact: false }).first().waitFor();
      await page.getByRole('button', { name: 'Show the next part' }).click();
      await until(async () => (await page.locator('.filetext').evaluate((e) => e.textContent.length)) > 262144, 'the next part');
      await go(at('confusion.csv'));
      await page.getByRole('table', { name: 'Table' }).getByText('cat').first().waitFor();
      for (const picture of ['photo.png', 'plot.svg']) {
        await go(at(picture));
        await until(() => page.locator('.picture img').evaluate((i) => i.complete && i.naturalWidth > 0), `${picture} is shown`);
      }
      await go(at('samples.tar'));
      await until(async () => (await page.locator('.gallery img').count()) === 12, 'twelve samples');
      await page.locator('.gallery .tag').first().waitFor();
      await go(at('tone.wav'));
      await until(() => page.locator('audio').evaluate((a) => a.readyState > 0), 'the sound is loaded');
      await go(at('bytes.bin'));
      await page.getByText('00 01 02 03').waitFor();
      await go(at('report.html'));
      const frame = page.frameLocator('iframe');
      await frame.getByText('scripts run here').waitFor();
      assert(!(await page.title()).includes('taken'), 'the frame reached the page');
      void context;
      await page.getByRole('link', { name: 'Who made these bytes' }).click();
      await page.getByRole('heading', { name: 'Lineage' }).waitFor();
    });
  },

  async places() {
    // Each is loaded once: as it comes, by Tab, in the other colours, on a phone.
    const said = [];
    const note = (e) => said.push(e.message);
    const walked = new Set();
    await withPage(async (page, { go, expectError }) => {
      expectError(/runs\/nothing-here/); // a page for what isn't there
      const cdp = await page.context().newCDPSession(page);
      for (const [p, ready] of await places()) {
        await page.setViewportSize({ width: 1360, height: 900 });
        await page.emulateMedia({ colorScheme: 'light' });
        await go(p);
        await ready?.(page);
        await accessible(page, `${p} (light)`).catch(note);
        // One of each kind: what a list holds changes no way through it.
        const { pathname, searchParams } = new URL(p, url);
        const kind = [pathname.split('/')[1], pathname.split('/').length, searchParams.get('view'), searchParams.get('tab'), !!searchParams.get('path'), !!ready].join();
        if (!walked.has(kind)) said.push(...(await walk(page, cdp, p)));
        walked.add(kind);
        // The document is the same in other colours.
        await page.emulateMedia({ colorScheme: 'dark' });
        await drawn(page);
        await accessible(page, `${p} (dark)`, { colours: true }).catch(note);
        await page.setViewportSize({ width: 390, height: 844 });
        await drawn(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) said.push(`${p} is ${wide} px wider than a phone`);
        await accessible(page, `${p} on a phone`).catch(note);
      }
    });
    if (said.length) throw new Error(said.join('\n'));
  },

  async phone() {
    await withPage(
      async (page, { go }) => {
        await go('/');
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert(wide <= 0, `${wide} px wider than a phone`);
        await page.getByRole('button', { name: 'Menu' }).click();
        await page.getByLabel('Main').getByRole('link', { name: 'Runs' }).click();
        await page.waitForURL(/\/runs$/);
        await accessible(page, 'a phone');
      },
      { width: 390, height: 844 },
    );
  },

  async keyboard() {
    await withPage(async (page, { go }) => {
      await go('/');
      // The two belong together only when they come close together.
      await until(async () => {
        await page.keyboard.press('g');
        await page.keyboard.press('r');
        return /\/runs$/.test(page.url());
      }, 'g r leads to the runs');
      await page.locator('.vrow a.name').first().waitFor();
      await page.keyboard.press('/');
      same(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Search runs');
      await page.keyboard.type(runs.failed);
      await until(async () => (await page.locator('.vrow a.name').count()) === 1, 'one run is left');
      // By Tab alone to the row, then into the run.
      for (let i = 0; i < 20 && !(await page.evaluate(() => document.activeElement.matches('.vrow'))); i++) await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.waitForURL(new RegExp(`/runs/${runs.failed}`));
      await settled(page);
      const item = () => page.evaluate(() => document.activeElement.closest('[role=treeitem]')?.textContent ?? '');
      for (let i = 0; i < 40 && !(await item()); i++) await page.keyboard.press('Tab');
      await page.keyboard.press('ArrowDown');
      await until(async () => (await item()).includes('crash'), 'the arrow moved to crash');
      await page.keyboard.press('Enter');
      await page.waitForURL(/tasks\/crash/);
      await page.getByRole('group', { name: 'Log of crash' }).waitFor();
      await page.keyboard.press('Escape');
      await page.waitForURL(new RegExp(`/runs/${runs.failed}($|\\?)`));
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox').fill('sched');
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/schedules/);
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
      await page.keyboard.press('Escape');
      await until(async () => (await page.getByRole('dialog').count()) === 0, 'the dialog closed');
    });
  },

  async schedules() {
    await withPage(async (page, { go }) => {
      await go('/schedules');
      const line = page.locator('li.line').filter({ hasText: 'nightly' });
      await line.getByRole('button', { name: 'Pause' }).click();
      await line.getByText('Paused').waitFor();
      await line.getByRole('button', { name: 'Resume' }).click();
      await line.getByRole('button', { name: 'Pause' }).waitFor();
      await page.getByRole('table', { name: 'Calendar' }).waitFor();
      await page.getByRole('button', { name: 'Week' }).click();
      await page.waitForURL(/scale=week/);
    });
  },

  async lineage() {
    await withPage(async (page, { go, expectError }) => {
      expectError(/400 .*metric=accuracy/); // which of the tasks is asked back
      const t = await api(`/api/v1/runs/${runs.first}/task?task=report`);
      const id = t.outputs.find((o) => o.name === 'report').content.id;
      await go(`/lineage/${id}`);
      const list = page.getByRole('list', { name: 'Nodes' });
      await list.getByRole('button', { name: /clean/ }).first().waitFor();
      await list.getByRole('button', { name: /5 alike/ }).first().click();
      await page.waitForURL(/open=/);
      await list.getByRole('button', { name: 'clean[3.txt]' }).waitFor();
      await page.getByRole('button', { name: 'What was made of it' }).first().click();
      await page.waitForURL(/direction=down/);
      // From a dataset, a task, a metric, an output; in a run by its tag.
      const begin = async (kind, what, run) => {
        await go('/lineage');
        await page.getByRole('combobox', { name: 'Begin at' }).selectOption({ label: kind });
        await page.getByRole('textbox', { name: 'Begin at' }).fill(what);
        await page.getByLabel('of run').fill(run);
        await page.keyboard.press('Enter');
      };
      await begin('Metric', 'accuracy', 'baseline');
      await page.getByText(/several tasks .* have the metric/).waitFor();
      await go(`/lineage?metric=accuracy&of=${enc('train[fold=1]')}&run=baseline`);
      await list.getByRole('button', { name: 'train[fold=1]' }).waitFor();
      await begin('Input (dataset)', 'raw', 'baseline');
      await page.getByRole('button', { name: 'What was made of it' }).first().click();
      await list.getByRole('button', { name: /split/ }).first().waitFor();
      await begin('Output', 'report/report', 'baseline');
      await list.getByRole('button', { name: /train/ }).first().waitFor();
      await begin('Task', 'split', 'baseline');
      await list.getByRole('button', { name: /^split/ }).waitFor();
      // A file in a directory that runs read; no run has to be named.
      await begin('File or URI', 'data/1.txt', '');
      await page.waitForURL(/file=data\/1\.txt$/);
      await page.getByRole('button', { name: 'What was made of it' }).first().click();
      await list.getByRole('button', { name: /split/ }).first().waitFor();
    });
  },

  async start() {
    await withPage(async (page, { go }) => {
      await go('/start?pipeline=shapes.yaml');
      const field = page.getByLabel('lr', { exact: true });
      await field.fill('7');
      await page.getByText('At most 1').waitFor();
      same(await page.getByRole('button', { name: 'Show what would run' }).getAttribute('aria-disabled'), 'true', 'a value out of range isn’t planned');
      await field.fill('0.2');
      await page.getByLabel('optimizer', { exact: true }).selectOption('adam');
      assert((await text(page.locator('main code').first())).includes('-p lr=0.2'), 'the command is shown');
      await page.getByRole('button', { name: 'Show what would run' }).click();
      // What was cleaned before is in the cache; training has another rate.
      const plan = page.getByRole('group', { name: 'What would run' });
      await plan.getByRole('row').filter({ hasText: 'train[fold=2]' }).waitFor();
      same(await plan.getByRole('row').filter({ hasText: 'clean[' }).count(), 0, 'hits are folded away');
      await shot(page, 'start');
      await page.getByRole('button', { name: 'Run it' }).click();
      await page.waitForURL(/\/runs\/shapes-/);
      await page.locator('.pill').filter({ hasText: 'Succeeded' }).first().waitFor();
      const run = await api(`/api/v1/runs/${page.url().match(/shapes-\w+/)[0]}`);
      same([run.params.lr, run.params.optimizer], [0.2, 'adam']);
    });
  },

  async reproduce() {
    await withPage(async (page, { go, expectError }) => {
      expectError(/404 .*\/verdict/); // the run has ended, its outputs aren't compared yet: asked again
      await go(`/runs/${runs.outer}/reproduce`);
      await page.getByRole('button', { name: 'Start the reproduction' }).click();
      await page.waitForURL((u) => /\/reproduce/.test(u.pathname) && !u.pathname.includes(runs.outer));
      const verdict = page.getByRole('status').filter({ hasText: 'Same bytes' });
      await verdict.waitFor({ timeout: 240_000 });
      await verdict.getByText('All outputs are the same bytes.').waitFor();
      await page.getByRole('rowheader', { name: 'inner/train', exact: false }).first().waitFor();
      await shot(page, 'reproduce');
      await accessible(page, 'a verdict');
    });
  },

  async compare() {
    await withPage(async (page, { go }) => {
      const at = (view) => `/compare?runs=${runs.first},${runs.other}&view=${view}`;
      await go(at('curves'));
      await page.getByRole('img', { name: /loss/ }).first().waitFor();
      assert((await page.locator('figure canvas').count()) > 0, 'curves are drawn');
      await shot(page, 'compare');
      await go(at('scatter'));
      await page.getByRole('group', { name: / \/ / }).first().waitFor();
      await go(at('parallel'));
      await page.getByRole('img', { name: 'Parallel coordinates' }).waitFor();
      await go(at('confusion'));
      await until(async () => (await page.locator('figure').filter({ hasText: 'cat' }).count()) === 2, 'a matrix of each run');
    });
  },

  async store() {
    await withPage(async (page, { go, expectError }) => {
      expectError(/409 .*cluster-rec0d\/log/); // the log of a pod that runs can only be followed
      await go('/store');
      await page.getByText('gc would free').waitFor();
      await page.getByRole('button', { name: 'Find out' }).click();
      await page.locator('.figures').getByText(/^\d[\d,]* objects?/).last().waitFor();
      await page.getByRole('list', { name: 'Cache hits, by week' }).waitFor();
      // The run on record at the cluster: what runs where, and why something waits.
      const row = page.getByRole('row').filter({ hasText: 'train[fold=1]' });
      await row.getByText('8 of 8 nvidia.com/gpu are in use').waitFor();
      await page.getByRole('row').filter({ hasText: 'train[fold=0]' }).getByText('gpu-node-1').waitFor();
      await accessible(page, 'store and cluster');
      await row.getByRole('link').click();
      await page.waitForURL(/cluster-rec0d\/tasks/);
      await page.getByText('Waits: quota team-a: 8 of 8 nvidia.com/gpu are in use').waitFor();
      await accessible(page, 'a task that waits on a cluster');
    });
  },

  async home() {
    await withPage(async (page, { go }) => {
      await go('/');
      await page.locator('.card').filter({ hasText: 'Needs attention' }).getByRole('link').filter({ hasText: 'failing' }).first().waitFor();
      await page.locator('.card').filter({ hasText: 'Running now' }).getByRole('link').filter({ hasText: 'cluster' }).waitFor();
      await page.locator('.card').filter({ hasText: 'Next firings' }).getByText('nightly').first().waitFor();
      await shot(page, 'home');
    });
  },

  async audit() {
    await withPage(async (page, { go }) => {
      await go('/audit');
      await page.getByRole('row').filter({ hasText: `POST /api/v1/runs/${runs.slow}/cancel` }).first().waitFor();
      await accessible(page, 'the audit log');
    });
  },

  async calendar() {
    await withPage(async (page, { go }) => {
      // Whole days of the future have all their firings, whatever the time is now, also while it is paused.
      const day = new Date(Date.now() + 8 * 86_400_000).toISOString().slice(0, 10);
      await go(`/schedules?scale=week&day=${day}`);
      const table = page.getByRole('table', { name: 'Calendar' });
      await until(async () => (await table.locator('.firing.tone-planned').count()) > 7 * 23, 'each hour has its firing');
      // The page is open before anything fires: what comes of it is told, and leads to its run.
      await go('/schedules?scale=week');
      await table.locator('td').first().waitFor();
      await api('/api/v1/schedules/hourly/resume', {});
      const { nominal } = await api('/api/v1/schedules/hourly/trigger', {});
      // By its run: the schedule may have fired by itself, too.
      const begun = async () => (await api('/api/v1/schedules/hourly/history')).firings.find((f) => f.nominal === nominal && f.run);
      const { run } = await until(begun, 'it has a run', 120);
      const link = page.locator(`table.calendar a[href*="${run}"]`);
      await link.waitFor({ timeout: 240_000 });
      // In the list, too; and its end.
      await page.locator('li.line').filter({ hasText: 'hourly' }).getByText('Succeeded').waitFor({ state: 'attached', timeout: 240_000 });
      await until(() => link.evaluate((a) => a.matches('.tone-succeeded')), 'its end is told', 120);
      await link.click();
      await page.waitForURL(new RegExp(`/runs/${run}`));
    });
  },

  async backfill() {
    await withPage(async (page, { go }) => {
      await go('/schedules?scale=week');
      const line = page.locator('li.line').filter({ hasText: 'nightly' });
      await line.getByRole('button', { name: 'Backfill' }).click();
      const dialog = page.getByRole('dialog', { name: 'Backfill: nightly' });
      // 03:00 of two past days, in the schedule's zone; which of them is shown before anything fires.
      await dialog.getByLabel('From').fill('2026-06-02');
      await dialog.getByLabel('To').fill('2026-06-01');
      await dialog.getByText('Choose two days').waitFor();
      await dialog.getByLabel('To').fill('2026-06-03');
      await dialog.getByText('2 would fire:').waitFor();
      same((await api('/api/v1/schedules/nightly/history')).firings.filter((f) => f.cause === 'backfill').length, 0, 'nothing fired yet');
      await accessible(page, 'a backfill');
      await dialog.getByRole('button', { name: 'Fire them' }).click();
      const filled = async () => (await api('/api/v1/schedules/nightly/history')).firings.filter((f) => f.cause === 'backfill' && f.state === 'succeeded').map((f) => f.nominal);
      same(await until(async () => ((await filled()).length === 2 ? filled() : null), 'both ran', 120), ['2026-06-03T01:00:00.000Z', '2026-06-02T01:00:00.000Z']);
      // Each once: asked again, there is nothing to do.
      await line.getByRole('button', { name: 'Backfill' }).click();
      await dialog.getByLabel('From').fill('2026-06-02');
      await dialog.getByLabel('To').fill('2026-06-03');
      await dialog.getByText('No time of these days').waitFor();
    });
  },

  async session_ends() {
    await withPage(async (page, { go, context, expectError }) => {
      expectError(/401/);
      await go('/runs');
      // As when it expires: the cookie is nobody's any more.
      await context.addCookies((await context.cookies()).map((c) => ({ ...c, value: 'x'.repeat(c.value.length) })));
      await page.goto(`${url}/audit`);
      await page.getByLabel('Token').waitFor();
    });
  },

  async sign_in() {
    await withPage(
      async (page, b) => {
        b.expectError(/401/);
        await page.goto(`${url}/sign-in`);
        await page.getByLabel('Token').fill('wrong-wrong-wrong-wrong-wrong-wrong');
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('alert').filter({ hasText: /isn’t known/ }).waitFor();
        await page.getByLabel('Token').fill(process.env.SERVE_TOKEN);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.waitForURL(/sign-in/);
      },
      { signIn: false },
    );
  },
};

if (process.argv[1].endsWith('pages.mjs')) await main(checks);
