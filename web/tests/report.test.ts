import { expect, test } from 'vitest';
import { answer, respond, type ReportData } from '../src/report/answers';

const task = (name: string, state: string, duration_ns: number) => ({
  task: name,
  step: name.replace(/\[.*/, ''),
  state,
  started: null,
  duration_ns,
  reason: '',
  message: null,
});

const data = {
  made: '2026-01-01T00:00:00Z',
  project: 'p',
  runs: ['r-1'],
  of: {
    'r-1': {
      run: { id: 'r-1' },
      tasks: [task('a', 'failed', 3), task('b[1]', 'executed', 9), task('b[2]', 'executed', 1)],
      graph: null,
      timeline: null,
      metrics: null,
      series: {
        series: [
          { task: 'a', metric: 'loss' },
          { task: 'b[1]', metric: 'loss' },
        ],
      },
      details: { a: { attempts: 2 } },
      logs: { a: { offset: 0, bytes: 8, live: false, text: 'one\ntwo\nThree' } },
    },
  },
  compare: null,
  left_out: { tasks: 0, details: 0 },
} as unknown as ReportData;

const ask = (path: string) => answer(data, `/api/v1/${path}`) as Record<string, unknown>;

test('rows of tasks are filtered, sorted and paged as the server does', () => {
  const names = (q: string) =>
    (ask(`runs/r-1/tasks?${q}`).tasks as { task: string }[]).map((t) => t.task);
  expect(names('')).toEqual(['a', 'b[1]', 'b[2]']);
  expect(names('state=executed&sort=duration')).toEqual(['b[2]', 'b[1]']);
  expect(names('step=b&q=1')).toEqual(['b[1]']);
  expect(names('limit=2&cursor=2')).toEqual(['b[2]']);
  expect(ask('runs/r-1/tasks?limit=2').next).toBe('2');
  expect(ask('runs/r-1/tasks?limit=3').next).toBe(null);
});

test('a log has bytes, an index and a search', () => {
  const text = (q: string) =>
    new TextDecoder().decode(answer(data, `/api/v1/runs/r-1/log?task=a&${q}`) as Uint8Array);
  expect(text('')).toBe('one\ntwo\nThree');
  expect(text('offset=-5&bytes=3')).toBe('Thr');
  expect(text('lines=2')).toBe('two\nThree');
  expect(ask('runs/r-1/log/index?task=a')).toMatchObject({ bytes: 13, lines: 2, offsets: [0] });
  expect(ask('runs/r-1/log/search?task=a&q=three').matches).toEqual([
    { line: 2, offset: 8, text: 'Three' },
  ]);
  expect(ask('runs/r-1/log/search?task=a&q=three&case=true').matches).toEqual([]);
  expect(answer(data, '/api/v1/runs/r-1/log?task=a&attempt=1')).toBeUndefined();
});

test('a log that was cut says so', () => {
  const cut = structuredClone(data);
  cut.of['r-1']!.logs!.a!.offset = 77;
  const text = new TextDecoder().decode(
    answer(cut, '/api/v1/runs/r-1/log?task=a&lines=9') as Uint8Array,
  );
  expect(text).toMatch(/^… the 77 bytes before.*\none\n/);
});

test('what a report does not have is a problem with words', async () => {
  const a = respond(data, '/api/v1/runs/r-2/tasks');
  expect(a.status).toBe(404);
  expect(((await a.json()) as { detail: string }).detail).toMatch(/report/);
  expect(respond(data, '/api/v1/content/sha256:1').status).toBe(404);
  expect(ask('runs/r-1/series?task=a').series).toHaveLength(1);
});
