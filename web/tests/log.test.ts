import { afterEach, describe, expect, it, vi } from 'vitest';
import { LogSource, split } from '../src/log/source';
import { linesOf } from '../src/log/view';
import { HEIGHT_MAX, Span } from '../src/parts/span';

/** A server with one log, as the API tells it: byte ranges and an index. */
function server(log: () => string, every = 10) {
  const asked: string[] = [];
  const encoder = new TextEncoder();
  vi.stubGlobal('fetch', (address: string) => {
    const u = new URL(address, 'http://x');
    asked.push(u.pathname + u.search);
    const bytes = encoder.encode(log());
    if (u.pathname.endsWith('/log/index')) {
      const lines = split(log());
      const offsets: number[] = [];
      let at = 0;
      lines.forEach((l, i) => {
        if (i % every === 0) offsets.push(at);
        at += encoder.encode(l).length + 1;
      });
      return Promise.resolve(
        new Response(
          JSON.stringify({
            bytes: bytes.length,
            lines: log().split('\n').length - 1,
            every,
            offsets,
            live: false,
            first_error: { offset: 0, line: 2 },
          }),
        ),
      );
    }
    let from = Number(u.searchParams.get('offset'));
    if (from < 0) from = Math.max(0, bytes.length + from);
    return Promise.resolve(
      new Response(bytes.slice(from, from + Number(u.searchParams.get('bytes')))),
    );
  });
  return asked;
}

const where = { run: 'r', task: 't', project: null, attempt: null, rank: null };
const settle = async (ok: () => boolean) => {
  for (let i = 0; i < 500 && !ok(); i++) await new Promise((r) => setTimeout(r, 1));
  expect(ok()).toBe(true);
};

afterEach(() => vi.unstubAllGlobals());

describe('a log', () => {
  it('tells each line by its number, in blocks as they are wanted', async () => {
    const lines = Array.from({ length: 95 }, (_, i) => `line ${i} ä ${'x'.repeat(i % 7)}`);
    const asked = server(() => `${lines.join('\n')}\n`);
    const s = new LogSource(where, () => undefined);
    await settle(() => s.indexed);
    expect(s.lines).toBe(95);
    expect(s.firstError).toBe(3);
    for (const i of [0, 9, 10, 42, 94]) {
      s.line(i);
      await settle(() => s.line(i) !== undefined);
      expect(s.line(i)).toBe(lines[i]);
    }
    expect(asked.filter((a) => a.includes('offset=0'))).toHaveLength(1);
    expect(await s.range(8, 12)).toBe(lines.slice(8, 13).join('\n'));
    s.close();
  });

  it('grows by what is printed, also across a line that wasn’t ended', async () => {
    let log = 'a\nb\nc';
    server(() => log);
    const s = new LogSource(where, () => undefined);
    await settle(() => s.indexed);
    expect(s.lines).toBe(3);
    log += '\nd\ne';
    expect(await s.grow()).toBe(true);
    log += 'E\nf\n';
    expect(await s.grow()).toBe(true);
    expect(await s.grow()).toBe(false);
    const got = [];
    for (let i = 0; i < s.lines; i++) {
      await settle(() => s.line(i) !== undefined);
      got.push(s.line(i));
    }
    expect(got.filter((l) => l !== '')).toEqual(['a', 'b', 'c', 'd', 'eE', 'f']);
    s.close();
  });

  it('keeps its index true while it grows over many blocks', async () => {
    let log = 'first\n';
    server(() => log);
    const s = new LogSource(where, () => undefined);
    await settle(() => s.indexed);
    for (let k = 0; k < 37; k++) {
      log += `line ${k}\n`;
      await s.grow();
    }
    expect(s.lines).toBe(38);
    for (const i of [0, 1, 10, 20, 37]) {
      await settle(() => s.line(i) !== undefined);
      expect(s.line(i)).toBe(i === 0 ? 'first' : `line ${i - 1}`);
    }
    s.close();
  });

  it('splits as lines are counted', () => {
    expect(split('')).toEqual([]);
    expect(split('a\n')).toEqual(['a']);
    expect(split('a\n\nb')).toEqual(['a', '', 'b']);
  });

  it('reads links to lines', () => {
    expect(linesOf('#L12')).toEqual([12, 12]);
    expect(linesOf('#L20-L12')).toEqual([12, 20]);
    expect(linesOf('#L0')).toBeNull();
    expect(linesOf('#x')).toBeNull();
  });
});

describe('span', () => {
  it('is the plain thing while it fits', () => {
    const s = new Span(1000, 20, 400);
    expect(s.height).toBe(20_000);
    expect(s.visible(200, 0)).toEqual([10, 30]);
    expect(s.top(10, 200)).toBe(200);
    expect(s.scrollTo(0, 200)).toBe(0);
    expect(s.scrollTo(999, 0)).toBe(20_000 - 400);
  });
  it('reaches the first and the last of ten million lines', () => {
    const s = new Span(10_000_000, 20, 400);
    expect(s.height).toBe(HEIGHT_MAX);
    expect(s.visible(0, 0)[0]).toBe(0);
    expect(s.visible(HEIGHT_MAX - 400, 0)[1]).toBe(10_000_000);
    for (const i of [0, 1, 4_999_999, 9_999_999]) {
      const at = s.scrollTo(i, i < 100 ? HEIGHT_MAX : 0);
      const [a, b] = s.visible(at, 1);
      expect(a <= i && i < b, `row ${i} in ${a}–${b}`).toBe(true);
    }
  });
  it('goes back and forth', () => {
    const s = new Span(3_000_000, 20, 500);
    for (const at of [0, 1000, 5_000_000, 59_000_000])
      expect(Math.abs(s.at(s.back(at)) - at)).toBeLessThan(1);
  });
});
