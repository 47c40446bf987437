// The graph: a list of steps (for the keyboard and readers, and as a summary) beside the drawn graph.
// Both show the same, and select the same.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, duration, parseTime } from '../../base/format';
import { now } from '../../base/clock';
import { setQuery, place } from '../../base/route';
import { recall, remember } from '../../base/store';
import { colours } from '../../base/theme';
import { words } from '../../base/words';
import type { BoxFacts, GraphCanvas, Hit } from '../../graph/canvas';
import { addCounts, fold, type FNode, type Folded } from '../../graph/fold';
import { mountGraph } from '../../graph/gestures';
import { sceneOf, type Box } from '../../graph/scene';
import { ZoomButtons } from '../../graph/zoom';
import { Empty, IconButton, Skeleton, StateIcon, stateWord, Trouble } from '../../parts/bits';
import { Icon } from '../../parts/icons';
import type { StepCounts } from '../../api';
import { cellLabel, done, type RunModel, stateOf } from './model';

export const COUNT_ORDER = [
  'failed',
  'executed',
  'hits',
  'running',
  'blocked',
  'skipped',
  'cancelled',
] as const;

function useVersion(model: RunModel): number {
  const [v, set] = useState(model.version);
  useEffect(() => {
    set(model.version);
    return model.onChange(() => set(model.version));
  }, [model]);
  return v;
}

export function countsOf(model: RunModel, steps: string[]): StepCounts {
  const set = new Set(steps);
  return addCounts((model.graph?.steps ?? []).filter((s) => set.has(s.step)).map((s) => s.counts));
}

/** The state of some steps: like their tasks', but a question comes before what runs. */
function stateHere(model: RunModel, steps: string[], c: StepCounts): string {
  const state = stateOf(c);
  return state === 'running' && model.asks((a) => steps.includes(a.step)) ? 'approval' : state;
}

/** What is said beside a name: progress while it runs, else how long it took. */
function noteOf(model: RunModel, steps: string[], c: StepCounts): string {
  const total = Object.values(c).reduce((a, b) => a + b, 0);
  const own = (model.graph?.steps ?? []).filter((s) => steps.includes(s.step));
  const starts = own
    .map((s) => s.started)
    .filter((t): t is string => !!t)
    .sort();
  const ends = own
    .map((s) => s.ended)
    .filter((t): t is string => !!t)
    .sort();
  const from = parseTime(starts[0]);
  const running = c.running > 0;
  const to = running ? now.peek() : parseTime(ends[ends.length - 1]);
  const took = from && to ? duration(Math.max(0, to.getTime() - from.getTime()) * 1e6) : '';
  if (total > 1) {
    const d = done(c);
    const n = d < total && d > 0 ? words.of(d, total) : count(total);
    return took ? `${n} · ${took}` : n;
  }
  if (c.hits === 1) return stateWord('hit');
  return took || stateWord(stateOf(c));
}

export function GraphPane({
  model,
  task,
  onOpen,
}: {
  model: RunModel;
  task: string | null;
  onOpen: (task: string) => void;
}) {
  const version = useVersion(model);
  const graph = model.graph;
  const query = place.value.query;
  const open = useMemo(
    () => new Set((query.get('open') ?? '').split('|').filter(Boolean)),
    [query.get('open')],
  );
  const critical = query.get('critical') === '1';
  const [selected, setSelected] = useState<string | null>(null);
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<GraphCanvas | null>(null);
  const opened = useRef<string | undefined>(undefined);
  const [tip, setTip] = useState<{ x: number; y: number; hit: Hit } | null>(null);
  const [list, setList] = useState(recall('outline', true));

  const folded = useMemo<Folded | null>(
    () => (graph ? fold(graph, (id) => open.has(id)) : null),
    [graph && model.shape, open],
  );
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    opened.current = id;
    setQuery({ open: [...next].join('|') });
  };
  const stepOfTask = task ? (model.tasks.get(task)?.step ?? null) : null;
  const mark = selected ?? stepOfTask;
  const actions = useRef({ toggle, onOpen, setSelected });
  actions.current = { toggle, onOpen, setSelected };

  useEffect(() => {
    for (const id of open) void model.ensureStep(id);
  }, [open, model.loadedTasks, model.shape]);

  const factsOf = (steps: string[]): BoxFacts => {
    const c = countsOf(model, steps);
    return {
      state: stateHere(model, steps, c),
      note: noteOf(model, steps, c),
      parts: COUNT_ORDER.filter((k) => c[k] > 0).map((k) => [k, c[k]]),
      total: Object.values(c).reduce((a, b) => a + b, 0),
    };
  };

  useEffect(() => {
    if (!canvas.current || !host.current || !folded) return;
    const memo = new Map<string, { v: number; facts: BoxFacts }>();
    const [v, out] = mountGraph(
      host.current,
      canvas.current,
      {
        facts: (b: Box) => {
          const known = memo.get(b.node.id);
          if (known && known.v === model.version) return known.facts;
          const facts = factsOf(b.node.steps);
          memo.set(b.node.id, { v: model.version, facts });
          return facts;
        },
        cells: (step) =>
          (model.byStep.get(step) ?? []).map((t) => ({
            task: t.task,
            label: cellLabel(t.task, step),
            state: t.state,
          })),
      },
      {
        click: (hit) => {
          if (!hit) actions.current.setSelected(null);
          else if (hit.fold) actions.current.toggle(hit.box.node.id);
          else if (hit.task) actions.current.onOpen(hit.task);
          else choose(hit.box.node);
        },
        over: setTip,
      },
    );
    view.current = v;
    return () => {
      out();
      view.current = null;
    };
  }, [model, folded !== null]);

  useEffect(() => {
    if (!folded || !view.current) return;
    let live = true;
    const r = host.current!.getBoundingClientRect();
    void sceneOf(folded, Math.max(320, r.width), Math.max(240, r.height), view.current.down).then(
      (s) => {
        if (!live || !view.current) return;
        view.current.show(s, opened.current);
        opened.current = undefined;
      },
    );
    return () => {
      live = false;
    };
  }, [folded]);

  useEffect(() => {
    const v = view.current;
    if (!v) return;
    v.selected = mark;
    v.selectedTask = task;
    v.critical = critical;
    v.request();
  }, [version, mark, task, critical, colours.value, now.value]);

  function choose(n: FNode) {
    setSelected(n.id);
    const only =
      n.kind === 'step' && n.tasks <= 1 ? (model.byStep.get(n.id)?.[0]?.task ?? n.id) : null;
    if (only) actions.current.onOpen(only);
    else if (n.canOpen && !n.open) actions.current.toggle(n.id);
  }

  if (!graph && model.graphProblem)
    return <Trouble problem={model.graphProblem} again={() => void model.read()} />;
  if (!graph || !folded) return <Skeleton lines={8} />;
  if (graph.steps.length === 0) return <Empty title={words.run.noSteps} />;
  const tasks = graph.steps.reduce((n, s) => n + (s.tasks ?? 1), 0);
  const tipFacts = tip && !tip.hit.task ? factsOf(tip.hit.box.node.steps) : null;
  const tipTask = tip?.hit.task ? model.tasks.get(tip.hit.task) : null;
  return (
    <div class={`graphpane card ${list ? '' : 'nolist'}`}>
      {list && (
        <Outline
          folded={folded}
          model={model}
          selected={mark}
          onToggle={toggle}
          onChoose={(n) => (choose(n), view.current?.reveal(n.id))}
          onFocus={(id) => (setSelected(id), view.current?.reveal(id))}
          onTask={onOpen}
          task={task}
        />
      )}
      <div
        class="graphhost"
        ref={host}
        tabIndex={0}
        role="group"
        aria-label={words.run.graphLabel(graph.steps.length, tasks)}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <div class="tools row tight">
          <IconButton
            icon="list"
            label={words.run.outline}
            aria-pressed={list}
            onClick={() => (remember('outline', !list), setList(!list))}
          />
          <button
            type="button"
            class="btn"
            aria-pressed={critical}
            title={words.run.criticalHint}
            onClick={() => setQuery({ critical: !critical })}
          >
            {words.run.critical}
          </button>
          {open.size > 0 ? (
            <button type="button" class="btn" onClick={() => setQuery({ open: null })}>
              {words.run.foldAll}
            </button>
          ) : null}
          <ZoomButtons view={view} />
        </div>
        {tip && (
          <div
            class="tip"
            style={{ left: `${tip.x + 14}px`, top: `${tip.y + 14}px` }}
            aria-hidden="true"
          >
            <strong>{tip.hit.task ?? tip.hit.box.node.label}</strong>
            {tipTask && (
              <span class={`state tone-${tipTask.state}`}>
                <StateIcon state={tipTask.state} size={12} /> {stateWord(tipTask.state)}
                {tipTask.start !== null && tipTask.end !== null
                  ? ` · ${duration(tipTask.end - tipTask.start)}`
                  : ''}
              </span>
            )}
            {tipFacts && (
              <span class="second">
                {tipFacts.parts
                  .map(([k, n]) => `${count(n)} ${words.tasks[k] as string}`)
                  .join(' · ') || stateWord(tipFacts.state)}
              </span>
            )}
          </div>
        )}
      </div>
    </div>
  );
}

interface Line {
  node: FNode;
  depth: number;
  task?: string;
  state: string;
  label: string;
  note: string;
}

/** The same graph as a tree: groups, steps, tasks of open steps. */
function Outline({
  folded,
  model,
  selected,
  task,
  onToggle,
  onChoose,
  onFocus,
  onTask,
}: {
  folded: Folded;
  model: RunModel;
  selected: string | null;
  task: string | null;
  onToggle: (id: string) => void;
  onChoose: (n: FNode) => void;
  onFocus: (id: string) => void;
  onTask: (t: string) => void;
}) {
  const lines: Line[] = [];
  const add = (f: Folded, depth: number) => {
    for (const n of inOrder(f)) {
      const c = countsOf(model, n.steps);
      lines.push({
        node: n,
        depth,
        state: stateHere(model, n.steps, c),
        label: n.label,
        note: noteOf(model, n.steps, c),
      });
      if (n.inside) add(n.inside, depth + 1);
      else if (n.open)
        for (const t of (model.byStep.get(n.id) ?? []).slice(0, 500))
          lines.push({
            node: n,
            depth: depth + 1,
            task: t.task,
            state: t.state,
            label: cellLabel(t.task, t.step),
            note:
              t.start !== null && t.end !== null && t.state !== 'hit'
                ? duration(t.end - t.start)
                : '',
          });
    }
  };
  add(folded, 0);
  const [at, setAt] = useState(0);
  const root = useRef<HTMLUListElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    root.current?.querySelector<HTMLElement>(`[data-i="${at}"]`)?.focus();
  }, [at]);
  const focus = (i: number) => {
    const to = Math.max(0, Math.min(lines.length - 1, i));
    moved.current = true;
    setAt(to);
    const l = lines[to];
    if (l) onFocus(l.node.id);
  };
  const current = Math.min(at, lines.length - 1);
  return (
    <ul
      class="outline"
      role="tree"
      aria-label={words.run.outline}
      ref={root}
      onKeyDown={(e) => {
        const l = lines[current];
        if (!l || e.ctrlKey || e.metaKey || e.altKey) return;
        if (e.key === 'ArrowDown' || e.key === 'j') focus(current + 1);
        else if (e.key === 'ArrowUp' || e.key === 'k') focus(current - 1);
        else if (e.key === 'Home') focus(0);
        else if (e.key === 'End') focus(lines.length - 1);
        else if (e.key === 'ArrowRight' && !l.task && l.node.canOpen && !l.node.open)
          onToggle(l.node.id);
        else if (e.key === 'ArrowLeft' && !l.task && l.node.open) onToggle(l.node.id);
        else if (e.key === 'Enter' || e.key === ' ') {
          if (l.task) onTask(l.task);
          else onChoose(l.node);
        } else return;
        e.preventDefault();
        e.stopPropagation();
      }}
    >
      {lines.map((l, i) => (
        <li
          key={l.task ?? l.node.id}
          role="treeitem"
          data-i={i}
          aria-level={l.depth + 1}
          aria-expanded={!l.task && l.node.canOpen ? l.node.open : undefined}
          aria-selected={l.task ? l.task === task : selected === l.node.id}
          tabIndex={i === current ? 0 : -1}
          style={{ paddingLeft: `${8 + l.depth * 14}px` }}
          onClick={() => {
            setAt(i);
            if (l.task) onTask(l.task);
            else onChoose(l.node);
          }}
        >
          <span class={`state tone-${l.state}`}>
            <StateIcon state={l.state} size={13} />
            <span class="sr">{stateWord(l.state)}</span>
          </span>
          <span class="ellipsis" title={l.task ?? l.label}>
            {l.label}
          </span>
          <span class="quiet note">{l.note}</span>
          {!l.task && l.node.canOpen && (
            <span
              class="fold"
              aria-hidden="true"
              onClick={(e) => {
                e.stopPropagation();
                onToggle(l.node.id);
              }}
            >
              <Icon name={l.node.open ? 'down' : 'right'} size={12} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Needs before users, as the graph stands from left to right. */
function inOrder(f: Folded): FNode[] {
  const into = new Map(f.nodes.map((n) => [n.id, 0]));
  for (const e of f.edges) into.set(e.to, (into.get(e.to) ?? 0) + 1);
  const queue = f.nodes.filter((n) => into.get(n.id) === 0);
  const byId = new Map(f.nodes.map((n) => [n.id, n]));
  const out = new Map<string, string[]>();
  for (const e of f.edges) out.set(e.from, [...(out.get(e.from) ?? []), e.to]);
  const sorted: FNode[] = [];
  for (let i = 0; i < queue.length; i++) {
    const n = queue[i]!;
    sorted.push(n);
    for (const t of out.get(n.id) ?? []) {
      const left = (into.get(t) ?? 1) - 1;
      into.set(t, left);
      if (left === 0) queue.push(byId.get(t)!);
    }
  }
  return sorted.length === f.nodes.length ? sorted : f.nodes;
}
