// node browser.mjs URL JOBS: opens pages in Debian's Chromium and prints a line of JSON for each job.
// A job is {path, css, text, rounds, until}: seconds from the beginning of the navigation until an
// element of `css` with `text` is there, each time with nothing cached; with `until`, an element that
// ends the last round; and the longest task of the page's thread meanwhile.

import { createRequire } from 'node:module';

const require = createRequire(`${process.env.WEB_MODULES}/x.js`);
const { chromium } = require('playwright-core');
const [url, jobs] = [process.argv[2], JSON.parse(process.argv[3])];
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
});

const is = ({ css, text }) => {
  const found = [...document.querySelectorAll(css)].some((e) => !text || e.textContent.includes(text));
  return found && !document.querySelector('main [aria-busy]') && performance.now();
};

for (const job of jobs) {
  const seconds = [];
  let longest = 0;
  for (let round = 0; round < job.rounds; round++) {
    const context = await browser.newContext({ viewport: { width: 1360, height: 900 } });
    const page = await context.newPage();
    await page.addInitScript(() => {
      window.longest = 0;
      new PerformanceObserver((list) => {
        for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration);
      }).observe({ type: 'longtask', buffered: true });
    });
    await page.goto(url + job.path, { waitUntil: 'commit' });
    const at = await page.waitForFunction(is, job, { polling: 'raf', timeout: 120_000 });
    seconds.push((await at.jsonValue()) / 1000);
    if (job.until && round === job.rounds - 1) await page.waitForFunction(is, job.until, { polling: 500, timeout: 600_000 });
    longest = Math.max(longest, await page.evaluate(() => window.longest));
    await context.close();
  }
  seconds.sort((a, b) => a - b);
  console.log(JSON.stringify({ seconds: seconds[Math.floor(seconds.length / 2)], longest_ms: Math.round(longest) }));
}
await browser.close();
