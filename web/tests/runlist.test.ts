import { expect, test, vi } from 'vitest';
import * as api from '../src/api';
import { RunList, type Row } from '../src/pages/runlist';

vi.mock('../src/api', () => ({ runs: vi.fn() }));
vi.stubGlobal('window', globalThis);

const run = (id: string, started: string) =>
  ({ id, started, project: 'p', pipeline: 'bulk', state: 'running' }) as Row;

test('what is told before the first page is there changes neither order nor number', async () => {
  const list = new RunList(['p'], { pipeline: 'bulk' }, () => undefined);
  const page = { runs: [run('new', '2026-02-01'), run('older', '2026-01-31')] };
  vi.mocked(api.runs).mockResolvedValue({ ...page, next: 'c', total: 302 } as never);
  expect(list.patch(run('oldest', '2026-01-01'))).toBe(false);
  await list.upTo(0);
  expect(list.patch(run('old', '2026-01-02'))).toBe(false);
  expect([list.rows.map((r) => r.id), list.total]).toEqual([['new', 'older'], 302]);
  expect(list.patch(run('newest', '2026-02-02'))).toBe(true);
  expect([list.rows[0]?.id, list.total]).toEqual(['newest', 303]);
  list.close();
});
