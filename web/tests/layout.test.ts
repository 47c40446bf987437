import { describe, expect, it } from 'vitest';
import { crossings, GAP_Y, layersOf, layout, type LEdge, type LNode } from '../src/graph/layout';

const node = (id: string, w = 100, h = 40): LNode => ({ id, w, h });

/** A small generator, so that a failure can be told by its seed. */
function random(seed: number) {
  let s = seed;
  return () => (s = (s * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
}

function dag(seed: number, n: number, density: number): { nodes: LNode[]; edges: LEdge[] } {
  const r = random(seed);
  const nodes = Array.from({ length: n }, (_, i) => node(`n${i}`, 80 + r() * 200, 30 + r() * 120));
  const edges: LEdge[] = [];
  for (let j = 1; j < n; j++)
    for (let k = 0; k < density; k++) edges.push({ from: `n${Math.floor(r() * j)}`, to: `n${j}` });
  return { nodes, edges };
}

describe('layout', () => {
  it('places every node right of what it needs, and no node on another', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const { nodes, edges } = dag(seed, 2 + (seed % 40), 1 + (seed % 3));
      const p = layout(nodes, edges);
      const size = new Map(nodes.map((n) => [n.id, n]));
      for (const e of edges) {
        const a = p.nodes[e.from]!;
        expect(a.x + size.get(e.from)!.w, `seed ${seed}: ${e.from} → ${e.to}`).toBeLessThan(
          p.nodes[e.to]!.x + 0.01,
        );
      }
      const list = nodes.map((n) => ({ ...n, ...p.nodes[n.id]! }));
      for (const a of list) {
        expect(a.x).toBeGreaterThanOrEqual(-0.01);
        expect(a.y).toBeGreaterThanOrEqual(-0.01);
        expect(a.x + a.w).toBeLessThanOrEqual(p.width + 0.01);
        expect(a.y + a.h).toBeLessThanOrEqual(p.height + 0.01);
        for (const b of list)
          if (a !== b && a.x < b.x + b.w && b.x < a.x + a.w)
            expect(
              a.y + a.h <= b.y + 0.01 || b.y + b.h <= a.y + 0.01,
              `seed ${seed}: ${a.id} over ${b.id}`,
            ).toBe(true);
      }
    }
  });

  it('is the same for the same graph', () => {
    const g = dag(7, 40, 2);
    expect(layout(g.nodes, g.edges)).toEqual(layout(g.nodes, g.edges));
  });

  it('draws a chain as a straight line', () => {
    const p = layout(
      [node('a'), node('b'), node('c')],
      [
        { from: 'a', to: 'b' },
        { from: 'b', to: 'c' },
      ],
    );
    expect(new Set(Object.values(p.nodes).map((n) => Math.round(n.y))).size).toBe(1);
  });

  it('gives a long edge its own way around the nodes between', () => {
    const p = layout(
      [node('a'), node('b'), node('c')],
      [
        { from: 'a', to: 'b' },
        { from: 'b', to: 'c' },
        { from: 'a', to: 'c' },
      ],
    );
    const bend = p.bends['a\0c']!;
    const b = p.nodes.b!;
    expect(bend.length).toBeGreaterThanOrEqual(4);
    expect(bend[1]! < b.y || bend[1]! > b.y + 40).toBe(true);
  });

  it('packs what isn’t connected instead of growing one way', () => {
    const nodes = Array.from({ length: 100 }, (_, i) => node(`n${i}`));
    const p = layout(nodes, [], 1.8);
    expect(p.width / p.height).toBeGreaterThan(0.8);
    expect(p.width / p.height).toBeLessThan(5);
  });

  it('survives a cycle, which no pipeline has', () => {
    const p = layout(
      [node('a'), node('b')],
      [
        { from: 'a', to: 'b' },
        { from: 'b', to: 'a' },
      ],
    );
    expect(Object.keys(p.nodes)).toEqual(['a', 'b']);
  });

  it('lays out 1,000 nodes with 2,000 edges in well under a second', () => {
    const g = dag(3, 1000, 2);
    const began = performance.now();
    layout(g.nodes, g.edges);
    expect(performance.now() - began).toBeLessThan(5000); // busy machines: what matters is that it isn't minutes
  });

  it('counts crossings as the naive way does', () => {
    const r = random(5);
    for (let k = 0; k < 50; k++) {
      const right = Array.from({ length: 8 }, (_, order) => ({
        order,
        right: [] as { order: number }[],
      }));
      const left = Array.from({ length: 8 }, (_, order) => ({
        order,
        right: right.filter(() => r() < 0.3),
      }));
      let naive = 0;
      for (const a of left)
        for (const b of left)
          if (a.order < b.order)
            for (const x of a.right) for (const y of b.right) if (x.order > y.order) naive++;
      expect(crossings([left, right])).toBe(naive);
    }
  });

  it('puts a late source beside what needs it', () => {
    // a → b → c, d → c: d stands in b's layer.
    const out = [[1], [2], [], [2]];
    const into = [[], [0], [1, 3], []];
    expect([...layersOf(4, out, into)]).toEqual([0, 1, 2, 1]);
    expect(GAP_Y).toBeGreaterThan(0);
  });
});
