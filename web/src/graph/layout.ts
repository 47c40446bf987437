// A layered layout from left to right: a node stands right of all that it needs.
//
//   1. layers     longest path; a node without needs moves up to what needs it
//   2. dummies    an edge over several layers gets a point in each, so that it has its own way
//   3. order      sweeps of medians; the order with the fewest crossings wins
//   4. places     each layer's nodes as near to their neighbours' middle as order and gaps allow
//                 (isotonic regression), in sweeps from both sides
//   5. parts      what isn't connected is laid out alone, then packed in shelves: no endless width
//
// All is linear in nodes, edges and dummies, times a fixed number of sweeps. Sizes don't depend on
// states, so a change of state never moves anything. Pure: the page and the worker call it alike.

export interface LNode {
  id: string;
  w: number;
  h: number;
}
export interface LEdge {
  from: string;
  to: string;
}
export interface Placed {
  width: number;
  height: number;
  nodes: Record<string, { x: number; y: number }>;
  /** Points that an edge passes between its ends, x then y; by "from\0to". */
  bends: Record<string, number[]>;
}

export const GAP_X = 56;
export const GAP_Y = 18;
const DUMMY_H = 6;
const DUMMIES_MAX = 30_000;

interface Item {
  node: number; // -1: a dummy
  h: number;
  layer: number;
  left: Item[];
  right: Item[];
  order: number;
  y: number;
  want: number;
}

export function edgeKey(e: LEdge): string {
  return `${e.from}\0${e.to}`;
}

export function layout(nodes: LNode[], edges: LEdge[], aspect = 1.8, gap = GAP_X): Placed {
  const index = new Map(nodes.map((n, i) => [n.id, i]));
  const real = edges.filter((e) => index.has(e.from) && index.has(e.to) && e.from !== e.to);
  const parts = components(
    nodes.length,
    real.map((e) => [index.get(e.from)!, index.get(e.to)!]),
  );
  const byPart: LEdge[][] = parts.map(() => []);
  const partOf = new Int32Array(nodes.length);
  parts.forEach((p, k) => p.forEach((i) => (partOf[i] = k)));
  for (const e of real) byPart[partOf[index.get(e.from)!]!]!.push(e);
  const placed = parts.map((p, k) =>
    layoutConnected(
      p.map((i) => nodes[i]!),
      byPart[k]!,
      gap,
    ),
  );
  return pack(placed, aspect);
}

function components(n: number, edges: [number, number][]): number[][] {
  const up = Int32Array.from({ length: n }, (_, i) => i);
  const root = (i: number): number => {
    while (up[i] !== i) {
      up[i] = up[up[i]!]!;
      i = up[i]!;
    }
    return i;
  };
  for (const [a, b] of edges) {
    const ra = root(a);
    const rb = root(b);
    if (ra !== rb) up[Math.max(ra, rb)] = Math.min(ra, rb);
  }
  const found = new Map<number, number[]>();
  for (let i = 0; i < n; i++) {
    const r = root(i);
    const list = found.get(r);
    if (list) list.push(i);
    else found.set(r, [i]);
  }
  return [...found.values()];
}

function pack(parts: Placed[], aspect: number): Placed {
  if (parts.length === 1) return parts[0]!;
  const out: Placed = { width: 0, height: 0, nodes: {}, bends: {} };
  const area = parts.reduce((a, p) => a + (p.width + GAP_X) * (p.height + GAP_Y), 0);
  const widest = Math.max(0, ...parts.map((p) => p.width));
  const limit = Math.max(widest, Math.sqrt(area * aspect));
  let x = 0;
  let y = 0;
  let shelf = 0;
  for (const p of parts) {
    if (x > 0 && x + p.width > limit) {
      x = 0;
      y += shelf + GAP_Y * 2;
      shelf = 0;
    }
    for (const [id, at] of Object.entries(p.nodes)) out.nodes[id] = { x: at.x + x, y: at.y + y };
    for (const [key, b] of Object.entries(p.bends))
      out.bends[key] = b.map((v, i) => v + (i % 2 ? y : x));
    shelf = Math.max(shelf, p.height);
    x += p.width + GAP_X;
    out.width = Math.max(out.width, x - GAP_X);
    out.height = Math.max(out.height, y + shelf);
  }
  return out;
}

/** The layer of each node; a cycle (which no pipeline has) leaves its nodes where they are. */
export function layersOf(n: number, out: number[][], into: number[][]): Int32Array {
  const layer = new Int32Array(n);
  const open = Int32Array.from(into, (l) => l.length);
  const queue: number[] = [];
  for (let i = 0; i < n; i++) if (open[i] === 0) queue.push(i);
  for (let q = 0; q < queue.length; q++) {
    const i = queue[q]!;
    for (const j of out[i]!) {
      layer[j] = Math.max(layer[j]!, layer[i]! + 1);
      if (--open[j]! === 0) queue.push(j);
    }
  }
  for (let i = 0; i < n; i++)
    if (into[i]!.length === 0 && out[i]!.length > 0)
      layer[i] = Math.max(0, Math.min(...out[i]!.map((j) => layer[j]!)) - 1);
  return layer;
}

function layoutConnected(nodes: LNode[], edges: LEdge[], gap: number): Placed {
  const index = new Map(nodes.map((n, i) => [n.id, i]));
  const out: number[][] = nodes.map(() => []);
  const into: number[][] = nodes.map(() => []);
  const seen = new Set<string>();
  const kept: LEdge[] = [];
  for (const e of edges) {
    const key = edgeKey(e);
    if (seen.has(key)) continue;
    seen.add(key);
    kept.push(e);
    const a = index.get(e.from)!;
    const b = index.get(e.to)!;
    out[a]!.push(b);
    into[b]!.push(a);
  }
  const layer = layersOf(nodes.length, out, into);
  const layers: Item[][] = [];
  const put = (node: number, h: number, l: number): Item => {
    const item: Item = { node, h, layer: l, left: [], right: [], order: 0, y: 0, want: 0 };
    while (layers.length <= l) layers.push([]);
    item.order = layers[l]!.length;
    layers[l]!.push(item);
    return item;
  };
  const items = nodes.map((n, i) => put(i, n.h, layer[i]!));
  const chains = new Map<string, Item[]>();
  let dummies = 0;
  const total = kept.reduce(
    (n, e) => n + Math.max(0, layer[index.get(e.to)!]! - layer[index.get(e.from)!]! - 1),
    0,
  );
  for (const e of kept) {
    const a = items[index.get(e.from)!]!;
    const b = items[index.get(e.to)!]!;
    if (b.layer <= a.layer) continue;
    let before = a;
    const chain: Item[] = [];
    if (total <= DUMMIES_MAX)
      for (let l = a.layer + 1; l < b.layer; l++) {
        const d = put(-1, DUMMY_H, l);
        dummies++;
        before.right.push(d);
        d.left.push(before);
        before = d;
        chain.push(d);
      }
    if (total <= DUMMIES_MAX || b.layer === a.layer + 1) {
      before.right.push(b);
      b.left.push(before);
    }
    if (chain.length) chains.set(edgeKey(e), chain);
  }
  order(layers, nodes.length + dummies);
  places(layers);

  const widths = layers.map((l) =>
    Math.max(0, ...l.map((i) => (i.node >= 0 ? nodes[i.node]!.w : 0))),
  );
  const xs: number[] = [];
  let x = 0;
  for (const w of widths) {
    xs.push(x);
    x += w + gap;
  }
  let top = Infinity;
  let bottom = -Infinity;
  for (const l of layers)
    for (const i of l) {
      top = Math.min(top, i.y - i.h / 2);
      bottom = Math.max(bottom, i.y + i.h / 2);
    }
  const placed: Placed = {
    width: Math.max(0, x - gap),
    height: Math.max(0, bottom - top),
    nodes: {},
    bends: {},
  };
  items.forEach((i, n) => {
    const node = nodes[n]!;
    placed.nodes[node.id] = { x: xs[i.layer]!, y: i.y - i.h / 2 - top };
  });
  for (const [key, chain] of chains)
    placed.bends[key] = chain.flatMap((d) => [
      xs[d.layer]!,
      d.y - top,
      xs[d.layer]! + widths[d.layer]!,
      d.y - top,
    ]);
  return placed;
}

// ---- order

function order(layers: Item[][], size: number): void {
  const sweeps = size > 20_000 ? 4 : size > 4000 ? 8 : 16;
  let best = crossings(layers);
  let kept = layers.map((l) => [...l]);
  for (let s = 0; s < sweeps && best > 0; s++) {
    if (s % 2 === 0) for (let l = 1; l < layers.length; l++) sortBy(layers[l]!, 'left');
    else for (let l = layers.length - 2; l >= 0; l--) sortBy(layers[l]!, 'right');
    const now = crossings(layers);
    if (now < best) {
      best = now;
      kept = layers.map((l) => [...l]);
    }
  }
  kept.forEach((l, i) => {
    layers[i] = l;
    l.forEach((item, k) => (item.order = k));
  });
}

function sortBy(layer: Item[], side: 'left' | 'right'): void {
  for (const i of layer) {
    const next = i[side];
    if (next.length === 0) {
      i.want = i.order;
      continue;
    }
    const at = next.map((n) => n.order).sort((a, b) => a - b);
    const m = at.length >> 1;
    i.want = at.length % 2 ? at[m]! : (at[m - 1]! + at[m]!) / 2;
  }
  layer.sort((a, b) => a.want - b.want || a.order - b.order);
  layer.forEach((i, k) => (i.order = k));
}

/** Crossings between neighbouring layers: inversions, counted with a Fenwick tree. */
export function crossings(layers: { right: { order: number }[] }[][]): number {
  let sum = 0;
  for (let l = 0; l + 1 < layers.length; l++) {
    const width = layers[l + 1]!.length;
    const tree = new Int32Array(width + 1);
    let seen = 0;
    for (const item of layers[l]!) {
      const ends = item.right.map((r) => r.order);
      for (const e of ends) {
        let before = 0;
        for (let i = e + 1; i > 0; i -= i & -i) before += tree[i]!;
        sum += seen - before;
      }
      for (const e of ends) {
        for (let i = e + 1; i <= width; i += i & -i) tree[i]!++;
        seen++;
      }
    }
  }
  return sum;
}

// ---- places

function places(layers: Item[][]): void {
  for (const l of layers) {
    let y = 0;
    for (const i of l) {
      i.y = y + i.h / 2;
      y += i.h + GAP_Y;
    }
    for (const i of l) i.y -= y / 2;
  }
  for (let s = 0; s < 8; s++) {
    const side = s % 2 === 0 ? 'left' : 'right';
    const from = s % 2 === 0 ? 1 : layers.length - 2;
    for (let l = from; l >= 0 && l < layers.length; l += s % 2 === 0 ? 1 : -1)
      settle(layers[l]!, side);
  }
}

/** Each item wants its neighbours' middle; order and gaps are kept; the sum of squares is least. */
function settle(layer: Item[], side: 'left' | 'right'): void {
  const offset: number[] = [];
  let sum = 0;
  layer.forEach((i, k) => {
    if (k > 0) {
      const before = layer[k - 1]!;
      sum += (before.h + i.h) / 2 + (before.node < 0 && i.node < 0 ? GAP_Y / 2 : GAP_Y);
    }
    offset.push(sum);
  });
  const blocks: { mean: number; weight: number; count: number }[] = [];
  layer.forEach((i, k) => {
    const next = i[side];
    const want = next.length ? next.reduce((a, n) => a + n.y, 0) / next.length : i.y;
    // A straight long edge is worth more than a node in the middle.
    const weight = next.length === 0 ? 0.2 : i.node < 0 ? 4 : 1;
    blocks.push({ mean: want - offset[k]!, weight, count: 1 });
    while (blocks.length > 1 && blocks[blocks.length - 2]!.mean > blocks[blocks.length - 1]!.mean) {
      const b = blocks.pop()!;
      const a = blocks[blocks.length - 1]!;
      a.mean = (a.mean * a.weight + b.mean * b.weight) / (a.weight + b.weight);
      a.weight += b.weight;
      a.count += b.count;
    }
  });
  let k = 0;
  for (const b of blocks) for (let n = 0; n < b.count; n++, k++) layer[k]!.y = b.mean + offset[k]!;
}
