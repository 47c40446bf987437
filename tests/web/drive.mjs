// A page that tolerates nothing: errors of the console, violations of the policy, exceptions and
// requests to other hosts fail the check in which they happen.

import { createRequire } from 'node:module';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const require = createRequire(`${process.env.WEB_MODULES}/x.js`);
export const playwright = require('playwright-core');
const { chromium } = playwright;

export const url = process.env.WEB_URL;

export function assert(ok, what) {
  if (!ok) throw new Error(what);
}

export function same(got, want, what = '') {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what}\n  got:  ${a}\n  want: ${b}`);
}

/** How long anything may take, in seconds: long, since the machine may do much else. Nothing waits for it to pass. */
const PATIENCE = 120;

export async function until(look, what, seconds = PATIENCE) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const v = await look();
    if (v) return v;
    if (Date.now() > end) throw new Error(`never came true: ${what}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

export async function api(path, body) {
  const answer = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { Authorization: `Bearer ${process.env.SERVE_TOKEN}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${json.detail}`);
  return json;
}

/** Files of the browser itself: its PDF viewer asks for them as soon as it has the time to. No host sees that. */
const BROWSER_OWN = /^(chrome|chrome-extension):/;

/** The session of the server's token: the first check signs in on the page, the others have its cookie. */
async function session(page) {
  const kept = process.env.TMPDIR && `${process.env.TMPDIR}/session-${new URL(url).port}.json`; // the test file's own
  if (kept && existsSync(kept)) return JSON.parse(readFileSync(kept, 'utf8'));
  await page.goto(`${url}/sign-in`);
  await page.getByLabel('Token').fill(process.env.SERVE_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#main').waitFor();
  const cookies = await page.context().cookies();
  if (kept) writeFileSync(kept, JSON.stringify(cookies));
  return cookies;
}

/** Opens a browser context; `signIn` gives it the session of the server's token. */
export async function open({ dark = false, width = 1360, height = 900, signIn = true, context: given = null } = {}) {
  const browser = await chromium.connectOverCDP(process.env.BROWSER);
  const context = given ?? (await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce' }));
  context.setDefaultTimeout(PATIENCE * 1000);
  const page = await context.newPage();
  const bad = [];
  const ignored = [];
  page.on('console', (m) => {
    if (m.type() !== 'error' || BROWSER_OWN.test(m.location().url)) return;
    const text = `${m.text()} (${m.location().url})`;
    if (!ignored.some((i) => i.test(text))) bad.push(`console: ${text}`);
  });
  page.on('pageerror', (e) => bad.push(`exception: ${e.stack}`));
  page.on('dialog', (d) => {
    bad.push(`a dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on('request', (r) => {
    const u = r.url();
    if (!u.startsWith(`${url}/`) && !/^(data|blob|about):/.test(u) && !BROWSER_OWN.test(u)) bad.push(`asked another host: ${u}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile ?? ''}`));
  });
  if (signIn && !given) await context.addCookies(await session(page));
  return {
    page,
    context,
    bad,
    /** An error that this check makes on purpose. */
    expectError: (pattern) => ignored.push(pattern),
    go: async (path) => {
      await page.goto(url + path);
      await settled(page);
    },
    close: async () => {
      await context.close();
      await browser.close();
      if (bad.length) throw new Error([...new Set(bad)].join('\n'));
    },
  };
}

/** Nothing is loading: no skeleton, a heading is there. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main h1, main h2') && !document.querySelector('main [aria-busy]'), null, { timeout: PATIENCE * 1000 });
}

/** The page has drawn what it shows now: two frames. */
export const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

const axe = () => readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** axe over the page as it stands: any violation fails. `colours`: only the rules that look at colours, where nothing else is another. */
export async function accessible(page, what, { colours = false } = {}) {
  // Injected by the debugger, so that the page's policy stays as it is.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe());
  const violations = await page.evaluate(async (only) => {
    const r = await window.axe.run(document, { resultTypes: ['violations'], rules: { 'frame-tested': { enabled: false } }, ...(only ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}) });
    return r.violations.map((v) => `${v.id} (${v.impact}): ${v.help}\n${v.nodes.slice(0, 4).map((n) => `    ${n.target.join(' ')}: ${n.html.slice(0, 160)}\n      ${(n.any[0] ?? n.all[0] ?? n.none[0])?.message ?? ''}`).join('\n')}`);
  }, colours);
  if (violations.length) throw new Error(`${what}: ${violations.length} violations of axe\n  ${violations.join('\n  ')}`);
}

export async function main(checks) {
  const name = process.argv[2];
  const check = checks[name];
  if (!check) {
    console.error(`no check ${name}; there are: ${Object.keys(checks).join(', ')}`);
    process.exit(2);
  }
  try {
    await check();
    process.exit(0);
  } catch (e) {
    console.error(e.stack ?? String(e));
    process.exit(1);
  }
}
