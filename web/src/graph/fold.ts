// What of a run's graph is drawn: which steps stand as one node, which are open.
//
// A step with many tasks is one node with counts; opened, it shows its tasks as named rows or, when
// they are many, as cells. A sub-pipeline is one node; opened, its steps are laid out inside it. Many
// steps with the same needs and the same users fold into one ("alike"). Sizes depend on numbers of
// tasks only, never on states.

import type { Graph, GraphStep, StepCounts } from '../api';
import type { LEdge, LNode } from './layout';

export const NODE_W = 208;
export const NODE_H = 46;
export const HEAD_H = 34;
export const ROW_H = 20;
export const CELL = 10;
export const CELL_GAP = 2;
export const PAD = 8;
/** Up to this many tasks have their names in an open step; more are cells. */
export const ROWS_MAX = 24;
const ALIKE_MIN = 8;

export interface FNode extends LNode {
  kind: 'step' | 'group' | 'alike' | 'input';
  label: string;
  steps: string[];
  tasks: number;
  open: boolean;
  canOpen: boolean;
  /** Of an open group: the folded graph inside. */
  inside?: Folded;
  step?: GraphStep;
  critical: boolean;
  columns: number;
}

export interface FEdge extends LEdge {
  data: boolean;
  tasks: number;
  critical: boolean;
}

export interface Folded {
  nodes: FNode[];
  edges: FEdge[];
}

export function cellColumns(n: number): number {
  return Math.max(8, Math.min(100, Math.ceil(Math.sqrt(n * 2))));
}

function sizeOf(n: number, open: boolean): { w: number; h: number; columns: number } {
  if (!open || n <= 1) return { w: NODE_W, h: NODE_H, columns: 0 };
  if (n <= ROWS_MAX) {
    const columns = n > 12 ? 2 : 1;
    return {
      w: columns === 2 ? NODE_W * 1.5 : NODE_W,
      h: HEAD_H + Math.ceil(n / columns) * ROW_H + PAD,
      columns,
    };
  }
  const columns = cellColumns(n);
  const rows = Math.ceil(n / columns);
  return {
    w: Math.max(NODE_W, columns * (CELL + CELL_GAP) + PAD * 2),
    h: HEAD_H + rows * (CELL + CELL_GAP) + PAD,
    columns,
  };
}

export function addCounts(list: (StepCounts | undefined)[]): StepCounts {
  const sum: StepCounts = {
    waiting: 0,
    running: 0,
    executed: 0,
    hits: 0,
    failed: 0,
    skipped: 0,
    blocked: 0,
    cancelled: 0,
  };
  for (const c of list)
    if (c) for (const k of Object.keys(sum) as (keyof StepCounts)[]) sum[k] += c[k] ?? 0;
  return sum;
}

export function fold(
  graph: Pick<Graph, 'steps' | 'edges'>,
  isOpen: (id: string) => boolean,
): Folded {
  const groups = new Map<string, GraphStep[]>();
  const nodes: FNode[] = [];
  const owner = new Map<string, string>(); // a step's node
  for (const s of graph.steps) {
    if (s.group !== null && s.group !== undefined) {
      const list = groups.get(s.group);
      if (list) list.push(s);
      else groups.set(s.group, [s]);
      continue;
    }
    if (groups.has(s.step) || graph.steps.some((t) => t.group === s.step)) {
      if (!groups.has(s.step)) groups.set(s.step, []);
      continue; // the calling step itself: its group stands for it
    }
    const open = isOpen(s.step);
    const tasks = s.tasks ?? 1;
    nodes.push({
      id: s.step,
      kind: 'step',
      label: s.step,
      steps: [s.step],
      tasks,
      open: open && tasks > 1,
      canOpen: tasks > 1,
      step: s,
      critical: s.critical,
      ...sizeOf(tasks, open),
    });
    owner.set(s.step, s.step);
  }
  for (const [name, steps] of groups) {
    const open = isOpen(name) && steps.length > 0;
    const tasks = steps.reduce((n, s) => n + (s.tasks ?? 1), 0);
    for (const s of steps) owner.set(s.step, name);
    owner.set(name, name);
    nodes.push({
      id: name,
      kind: 'group',
      label: name,
      steps: steps.map((s) => s.step),
      tasks,
      open,
      canOpen: steps.length > 0,
      critical: steps.some((s) => s.critical),
      w: NODE_W,
      h: NODE_H,
      columns: 0,
      ...(open
        ? {
            inside: fold(
              {
                steps: steps.map((s) => ({ ...s, group: null })),
                edges: graph.edges.filter(
                  (e) => steps.some((s) => s.step === e.from) && steps.some((s) => s.step === e.to),
                ),
              },
              isOpen,
            ),
          }
        : {}),
    });
  }
  const edges = joinEdges(graph, owner, nodes);
  return foldAlike({ nodes, edges }, isOpen);
}

function joinEdges(
  graph: Pick<Graph, 'edges'>,
  owner: Map<string, string>,
  nodes: FNode[],
): FEdge[] {
  const critical = new Map(nodes.map((n) => [n.id, n.critical]));
  const found = new Map<string, FEdge>();
  for (const e of graph.edges) {
    const from = owner.get(e.from);
    const to = owner.get(e.to);
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from}\0${to}`;
    const known = found.get(key);
    if (known) {
      known.data ||= e.data;
      known.tasks += e.tasks;
    } else {
      found.set(key, {
        from,
        to,
        data: e.data,
        tasks: e.tasks,
        critical: !!critical.get(from) && !!critical.get(to),
      });
    }
  }
  return [...found.values()];
}

/** Steps with the same needs and users: eight or more become one node, unless opened. */
function foldAlike(g: Folded, isOpen: (id: string) => boolean): Folded {
  const sides = new Map<string, { into: string[]; out: string[] }>(
    g.nodes.map((n) => [n.id, { into: [], out: [] }]),
  );
  for (const e of g.edges) {
    sides.get(e.from)!.out.push(e.to);
    sides.get(e.to)!.into.push(e.from);
  }
  const alike = new Map<string, FNode[]>();
  for (const n of g.nodes) {
    const s = sides.get(n.id)!;
    if (n.open || n.kind !== 'step' || (s.into.length === 0 && s.out.length === 0)) continue;
    const key = `${s.into.sort().join('\0')}\0\0${s.out.sort().join('\0')}`;
    const list = alike.get(key);
    if (list) list.push(n);
    else alike.set(key, [n]);
  }
  const into = new Map<string, string>();
  const nodes = [...g.nodes];
  for (const list of alike.values()) {
    const id = `alike:${list[0]!.id}`;
    if (list.length < ALIKE_MIN || isOpen(id)) continue;
    for (const n of list) into.set(n.id, id);
    nodes.push({
      id,
      kind: 'alike',
      label: `${list[0]!.label} … ${list[list.length - 1]!.label}`,
      steps: list.flatMap((n) => n.steps),
      tasks: list.reduce((s, n) => s + n.tasks, 0),
      open: false,
      canOpen: true,
      critical: list.some((n) => n.critical),
      w: NODE_W,
      h: NODE_H,
      columns: 0,
    });
  }
  if (into.size === 0) return g;
  const edges = new Map<string, FEdge>();
  for (const e of g.edges) {
    const from = into.get(e.from) ?? e.from;
    const to = into.get(e.to) ?? e.to;
    const known = edges.get(`${from}\0${to}`);
    if (known) {
      known.tasks += e.tasks;
      known.critical ||= e.critical;
    } else edges.set(`${from}\0${to}`, { ...e, from, to });
  }
  return { nodes: nodes.filter((n) => !into.has(n.id)), edges: [...edges.values()] };
}
