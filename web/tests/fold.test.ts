import { describe, expect, it } from 'vitest';
import type { Graph, GraphStep } from '../src/api';
import { addCounts, cellColumns, fold, ROWS_MAX } from '../src/graph/fold';

const zero = {
  waiting: 0,
  running: 0,
  executed: 0,
  hits: 0,
  failed: 0,
  skipped: 0,
  blocked: 0,
  cancelled: 0,
};
const step = (s: string, tasks: number | null = 1, group: string | null = null): GraphStep =>
  ({
    step: s,
    kind: 'run',
    uses: null,
    description: null,
    needs: [],
    tasks,
    counts: { ...zero },
    started: null,
    ended: null,
    duration_ns: 0,
    critical: false,
    group,
    finally: false,
  }) as GraphStep;
const graph = (steps: GraphStep[], edges: [string, string][]): Graph =>
  ({
    run: 'r',
    steps,
    edges: edges.map(([from, to]) => ({ from, to, data: true, tasks: 1 })),
    inputs: [],
  }) as unknown as Graph;

describe('fold', () => {
  it('shows a fan-out as one node with its number, whatever it is', () => {
    const f = fold(graph([step('a', 10_000), step('b', null)], [['a', 'b']]), () => false);
    expect(f.nodes.map((n) => [n.id, n.tasks, n.open])).toEqual([
      ['a', 10_000, false],
      ['b', 1, false],
    ]);
  });
  it('opens few tasks as rows and many as cells, never endlessly wide', () => {
    const few = fold(graph([step('a', ROWS_MAX)], []), () => true).nodes[0]!;
    const many = fold(graph([step('a', 10_000)], []), () => true).nodes[0]!;
    expect(few.open && many.open).toBe(true);
    expect(many.columns).toBe(cellColumns(10_000));
    expect(many.w).toBeLessThan(1500);
    expect(many.h).toBeLessThan(1500);
  });
  it('folds a used pipeline into one node, and lays its steps out inside when opened', () => {
    const g = graph(
      [step('first'), step('q/a', 1, 'q'), step('q/b', 3, 'q'), step('last')],
      [
        ['first', 'q/a'],
        ['q/a', 'q/b'],
        ['q/b', 'last'],
      ],
    );
    const closed = fold(g, () => false);
    expect(closed.nodes.map((n) => n.id).sort()).toEqual(['first', 'last', 'q']);
    expect(closed.edges.map((e) => `${e.from}>${e.to}`).sort()).toEqual(['first>q', 'q>last']);
    const open = fold(g, (id) => id === 'q').nodes.find((n) => n.id === 'q')!;
    expect(open.inside!.nodes.map((n) => n.id)).toEqual(['q/a', 'q/b']);
    expect(open.inside!.edges).toHaveLength(1);
  });
  it('folds steps with the same needs and users, and no others', () => {
    const many = Array.from({ length: 30 }, (_, i) => step(`s${i}`));
    const g = graph(
      [step('a'), ...many, step('z')],
      many.flatMap((s): [string, string][] => [
        ['a', s.step],
        [s.step, 'z'],
      ]),
    );
    const f = fold(g, () => false);
    expect(f.nodes).toHaveLength(3);
    expect(f.nodes.find((n) => n.kind === 'alike')!.steps).toHaveLength(30);
    expect(fold(g, (id) => id.startsWith('alike:')).nodes).toHaveLength(32);
  });
  it('doesn’t change its size with states', () => {
    const a = fold(graph([step('a', 50)], []), () => true).nodes[0]!;
    const s = step('a', 50);
    s.counts.failed = 50;
    const b = fold(graph([s], []), () => true).nodes[0]!;
    expect([a.w, a.h]).toEqual([b.w, b.h]);
  });
  it('adds counts', () => {
    expect(addCounts([{ ...zero, hits: 2 }, undefined, { ...zero, hits: 3, failed: 1 }])).toEqual({
      ...zero,
      hits: 5,
      failed: 1,
    });
  });
});
