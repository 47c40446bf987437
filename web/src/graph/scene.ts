// From the folded graph to boxes at places: open groups are laid out first, and count with their
// size in the graph around them.

import { place } from './place';
import { edgeKey, GAP_X, type Placed } from './layout';
import { HEAD_H, PAD, type FEdge, type FNode, type Folded } from './fold';

const GAP_DOWN = 34;

export interface Box {
  node: FNode;
  x: number;
  y: number;
  w: number;
  h: number;
  depth: number;
}

export interface Wire {
  edge: FEdge;
  points: number[]; // x, y of the ways between the ends
}

export interface Scene {
  /** Layers go down the page instead of to the right. */
  down: boolean;
  width: number;
  height: number;
  boxes: Box[];
  wires: Wire[];
}

/** The way of the layers by which more of the graph is seen at once; the one before unless another is clearly better. */
export async function sceneOf(
  folded: Folded,
  width: number,
  height: number,
  before?: boolean,
): Promise<Scene> {
  const aspect = Math.max(0.3, width / Math.max(1, height));
  const [right, down] = [
    await build(folded, aspect, 0, false),
    await build(folded, aspect, 0, true),
  ];
  const seen = (s: Scene) =>
    Math.min(1, width / Math.max(1, s.width + 48), height / Math.max(1, s.height + 48));
  const [a, b] = [seen(right), seen(down)];
  if (before === undefined) return b > a ? down : right;
  return before ? (a > b * 1.3 ? right : down) : b > a * 1.3 ? down : right;
}

async function build(folded: Folded, aspect: number, depth: number, down: boolean): Promise<Scene> {
  const inner = new Map<string, Scene>();
  for (const n of folded.nodes)
    if (n.inside) {
      const s = await build(n.inside, aspect, depth + 1, down);
      inner.set(n.id, s);
      n.w = s.width + PAD * 4;
      n.h = s.height + HEAD_H + PAD * 2;
    }
  const turned = await place(
    folded.nodes.map(({ id, w, h }) => (down ? { id, w: h, h: w } : { id, w, h })),
    folded.edges.map(({ from, to }) => ({ from, to })),
    down ? 1 / aspect : aspect,
    down ? GAP_DOWN : GAP_X,
  );
  const placed = down ? turn(turned) : turned;
  const scene: Scene = { down, width: placed.width, height: placed.height, boxes: [], wires: [] };
  const byId = new Map(folded.nodes.map((n) => [n.id, n]));
  for (const n of folded.nodes) {
    const at = placed.nodes[n.id]!;
    scene.boxes.push({ node: n, x: at.x, y: at.y, w: n.w, h: n.h, depth });
    const s = inner.get(n.id);
    if (!s) continue;
    const dx = at.x + PAD * 2;
    const dy = at.y + HEAD_H;
    for (const b of s.boxes) scene.boxes.push({ ...b, x: b.x + dx, y: b.y + dy });
    for (const w of s.wires)
      scene.wires.push({ ...w, points: w.points.map((v, i) => v + (i % 2 ? dy : dx)) });
  }
  for (const e of folded.edges) scene.wires.push({ edge: e, points: wire(e, byId, placed, down) });
  return scene;
}

/** Left to right becomes top to bottom: x and y change places. */
function turn(p: Placed): Placed {
  return {
    width: p.height,
    height: p.width,
    nodes: Object.fromEntries(Object.entries(p.nodes).map(([id, n]) => [id, { x: n.y, y: n.x }])),
    bends: Object.fromEntries(
      Object.entries(p.bends).map(([k, b]) => [k, b.map((_, i) => b[i % 2 ? i - 1 : i + 1]!)]),
    ),
  };
}

function wire(e: FEdge, byId: Map<string, FNode>, placed: Placed, down: boolean): number[] {
  const a = byId.get(e.from)!;
  const b = byId.get(e.to)!;
  const pa = placed.nodes[e.from]!;
  const pb = placed.nodes[e.to]!;
  if (down)
    return [pa.x + a.w / 2, pa.y + a.h, ...(placed.bends[edgeKey(e)] ?? []), pb.x + b.w / 2, pb.y];
  return [
    pa.x + a.w,
    pa.y + Math.min(a.h, a.open ? HEAD_H : a.h) / 2,
    ...(placed.bends[edgeKey(e)] ?? []),
    pb.x,
    pb.y + Math.min(b.h, b.open ? HEAD_H : b.h) / 2,
  ];
}
