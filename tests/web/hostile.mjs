// Strings of an attacker in all that a pipeline, a log, an artifact or a file name can carry: the pages
// show them as text. drive.mjs fails on dialogs, policy violations and requests to other hosts.

import { api, assert, main, open, playwright, settled, until } from './drive.mjs';

const enc = encodeURIComponent;

async function clean(page, what) {
  assert(await page.evaluate(() => window.pwned === undefined), `${what}: a script of the attacker ran`);
  const made = await page.evaluate(() => document.querySelectorAll('main img[src="x"], main script, main b.evil, main a[href^="javascript"]').length);
  assert(made === 0, `${what}: ${made} elements were made of text`);
}

export const checks = {
  async text() {
    const b = await open();
    try {
      const { page, go } = b;
      const all = (await api('/api/v1/runs?limit=50')).runs;
      const pages = ['/', '/runs?params=note&columns=state,message,tags', '/schedules', '/start', '/store'];
      for (const r of all) {
        for (const view of ['graph', 'timeline', 'tasks', 'metrics', 'about']) pages.push(`/runs/${r.id}?view=${view}`);
        const tasks = (await api(`/api/v1/runs/${r.id}/tasks?limit=100`)).tasks;
        // All tasks of one run; of the others, which differ in one param, the first.
        for (const t of r === all[0] ? tasks : tasks.slice(0, 1)) {
          pages.push(`/runs/${r.id}/tasks/${enc(t.task)}?tab=overview`, `/runs/${r.id}/tasks/${enc(t.task)}?tab=log&find=${enc('<img')}`, `/runs/${r.id}/tasks/${enc(t.task)}?tab=metrics`);
          for (const c of Object.values(t.outputs)) {
            if (!c) continue;
            pages.push(`/artifacts/${c.id}?name=${enc('<img src=x onerror=pwned=1>')}`, `/lineage/${c.id}`);
            if (c.kind !== 'tree') continue;
            for (const e of (await api(`/api/v1/content/${c.id}/entries?limit=100`)).entries)
              if (!/\.html$/.test(e.name)) pages.push(`/artifacts/${c.id}?path=${enc(e.name)}`);
          }
        }
      }
      pages.push(`/runs/${enc('<img src=x onerror=pwned=1>')}`, `/artifacts/${enc('"><b class=evil>')}`, `/compare?runs=${all.map((r) => r.id).join(',')}`, `/compare?runs=${enc('<img src=x onerror=pwned=1>')},b`);
      const of = `&run=${all[0].id}`;
      for (const from of ['metric', 'input', 'output', 'task', 'file']) pages.push(`/lineage?${from}=${enc('<img src=x onerror=pwned=1>')}${of}`);
      for (const view of ['curves', 'scatter', 'parallel', 'confusion']) pages.push(`/compare?view=${view}&runs=${all.map((r) => r.id).join(',')}`);
      pages.push(`/runs/${all[0].id}/tasks/make?tab=log&regex=1&find=${enc('(<img|x+)+ src')}`, `/runs/${all[0].id}/tasks/make?tab=log&regex=1&find=${enc('<img src=x onerror=pwned=1>(')}`);
      pages.push(`/runs?columns=author,schedule,commit&q=${enc('<img src=x onerror=pwned=1>')}`, `/start?pipeline=evil.yaml&from=${all[0].id}`, '/audit');
      let shown = 0;
      for (const p of pages) {
        b.expectError(/status of 4\d\d/); // what isn't there is told by the server, and by the console
        await go(p);
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        await clean(page, p);
        if ((await page.locator('main').innerText()).includes('<img src=x')) shown++;
      }
      // What a button asks for: the plan of a run, and what gc would free.
      await go('/start?pipeline=evil.yaml');
      await page.getByLabel('note').fill('<img src=x onerror=pwned=1>');
      await page.getByRole('button', { name: 'Show what would run' }).click();
      await page.getByRole('group', { name: 'What would run' }).waitFor();
      await clean(page, 'a plan');
      await go('/store');
      await page.getByRole('button', { name: 'Find out' }).click();
      await page.locator('.figures').getByText(/^\d[\d,]* objects?/).last().waitFor();
      await clean(page, 'an estimate');
      assert(shown > 5, `the attacker's text is shown as text on ${shown} pages only`);
    } finally {
      await b.close();
    }
  },

  async report() {
    // The same strings in a file that nobody's server guards: its own policy does.
    const { chromium } = playwright;
    const browser = await chromium.connectOverCDP(process.env.BROWSER);
    const page = await (await browser.newContext()).newPage();
    const bad = [];
    page.on('console', (m) => m.type() === 'error' && bad.push(m.text()));
    page.on('pageerror', (e) => bad.push(e.stack));
    page.on('request', (r) => r.url().startsWith('http') && bad.push(`asked for ${r.url()}`));
    for (const [file, places] of Object.entries(JSON.parse(process.env.REPORTS))) {
      await page.goto(`file://${file}`);
      await page.locator('main h1').waitFor();
      const first = new URL(page.url()).hash;
      let shown = 0;
      for (const more of places) {
        await page.evaluate((hash) => (location.hash = hash), first.replace(/$/, more));
        await settled(page);
        await clean(page, `${file} ${more}`);
        if ((await page.locator('body').innerText()).includes('<img src=x')) shown++;
      }
      assert(shown > 0, `${file}: the text is nowhere`);
    }
    // A script of somebody else, in whatever way it got into the file, doesn't run.
    await page.evaluate(() => {
      const s = document.createElement('script');
      s.textContent = 'window.pwned = 1';
      document.body.append(s);
    });
    await clean(page, 'an added script').catch((e) => assert(!/ran/.test(e.message), e.message));
    assert(bad.length > 0 && bad.every((t) => /Content Security Policy/.test(t)), `only the added script is refused: ${bad.join('\n')}`);
    await browser.close();
  },

  async sandbox() {
    const b = await open();
    try {
      const { page, go } = b;
      b.expectError(/./); // what the frame tries is refused aloud
      const r = (await api('/api/v1/runs?pipeline=evil')).runs[0];
      const t = await api(`/api/v1/runs/${r.id}/task?task=make`);
      const id = t.outputs.find((o) => o.name === 'out').content.id;
      await go(`/artifacts/${id}?path=evil.html`);
      const said = page.frameLocator('iframe').locator('#said');
      const text = await until(async () => {
        const s = await said.innerText().catch(() => '');
        return s.split('\n').filter(Boolean).length >= 5 && s;
      }, 'the frame told what it could do');
      for (const what of ['parent', 'cookie', 'fetch', 'storage', 'top']) assert(text.includes(`${what}: refused`), `${what} wasn't refused:\n${text}`);
      assert(page.url().includes('/artifacts/'), 'the frame moved the page');
      await clean(page, 'evil.html');
      await go(`/artifacts/${id}?path=evil.svg`);
      await clean(page, 'evil.svg');
    } finally {
      b.bad.length = 0;
      await b.close();
    }
  },

  async frames() {
    // No other page may hold this one in a frame.
    const b = await open();
    try {
      b.expectError(/./);
      await b.page.goto('about:blank');
      await b.page.setContent(`<iframe src="${process.env.WEB_URL}/"></iframe>`);
      const inside = await until(() => b.page.frames()[1], 'the frame');
      await inside.waitForLoadState().catch(() => {});
      assert(!(await inside.locator('nav').count().catch(() => 0)), 'the page is shown in a frame of others');
    } finally {
      b.bad.length = 0;
      await b.close();
    }
  },
};

await main(checks);
