// What a page of a run shows: the run, its graph and its tasks, read once and then patched by id as
// events tell. Read again is what events don't tell (hits), or may have missed; the longer that takes, the
// less often.
//
// Tasks are kept compact (timeline's rows); whole rows come in pages for the table, and by event.

import * as api from '../../api';
import type { Graph, GraphStep, Run, StepCounts, TaskRow, TaskState, Timeline } from '../../api';
import { subscribe, type Happened } from '../../live/live';

export interface Task {
  task: string;
  step: string;
  state: TaskState;
  /** Nanoseconds after the run's start; null: not begun, not ended. */
  start: number | null;
  end: number | null;
  waited: number;
  /** The task that it waited for: the last one of its needs to end. */
  after: string | null;
  /** Of a hit: how long its execution took. */
  saved: number;
}

const COUNT_OF: Record<TaskState, keyof StepCounts> = {
  waiting: 'waiting',
  running: 'running',
  executed: 'executed',
  hit: 'hits',
  failed: 'failed',
  skipped: 'skipped',
  blocked: 'blocked',
  cancelled: 'cancelled',
};

/** Rows that are put in at once: some milliseconds. */
const PART = 2000;
const rest = () => new Promise((r) => setTimeout(r));

function add(tasks: Map<string, Task>, byStep: Map<string, Task[]>, t: Task): void {
  tasks.set(t.task, t);
  const list = byStep.get(t.step);
  if (list) list.push(t);
  else byStep.set(t.step, [t]);
}

export class RunModel {
  run: Run | null = null;
  graph: Graph | null = null;
  tasks = new Map<string, Task>();
  byStep = new Map<string, Task[]>();
  critical = new Set<string>();
  loadedTasks = false;
  problem: api.Problem | null = null;
  graphProblem: api.Problem | null = null;
  /** Rows of tasks that changed since they were read. */
  fresh = new Map<string, TaskRow>();
  /** Grows when tasks or counts change; `shape` when steps appear: only then is anything laid out. */
  version = 0;
  shape = 0;
  private stepAt = new Map<string, GraphStep>();
  private abort = new AbortController();
  private leave: () => void;
  private listeners = new Set<() => void>();
  private again = 0;
  private epoch = 0;
  private heard = false;
  private reading = false;
  private once = false;
  private held: Happened[] | null = null; // told while tasks are put in
  private took = 0; // the last reading, in ms

  constructor(
    readonly id: string,
    readonly project: string | null,
  ) {
    this.leave = subscribe((b) => this.happened(b), id);
    void this.read();
  }

  close(): void {
    this.abort.abort();
    this.leave();
    clearTimeout(this.again);
  }

  onChange(f: () => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  private tell(): void {
    this.version++;
    for (const f of [...this.listeners]) f();
  }

  get running(): boolean {
    return this.run?.state === 'running';
  }

  /** Whether a question that people were asked is still open. */
  asks(which: (asked: NonNullable<Run['approvals']>[number]) => boolean): boolean {
    return this.running && (this.run?.approvals ?? []).some(which);
  }

  /** One reading at a time; asked for meanwhile, one more follows. */
  async read(): Promise<void> {
    if (this.reading) {
      this.once = true;
      return;
    }
    this.reading = true;
    do {
      const begun = performance.now();
      this.once = false;
      await this.readAll().catch(() => undefined);
      this.took = performance.now() - begun;
    } while (this.once && !this.abort.signal.aborted);
    this.reading = false;
  }

  private async readAll(): Promise<void> {
    const q = { project: this.project };
    const run = api.run(this.id, { project: this.project ?? '' }, this.abort.signal);
    const graph = api.graph(this.id, q, this.abort.signal);
    graph.catch(() => undefined);
    try {
      this.run = await run;
      this.problem = null;
      this.tell();
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      this.problem = e as api.Problem;
      this.tell();
      return;
    }
    try {
      this.setGraph(await graph);
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      this.graphProblem = e as api.Problem;
    }
    this.tell();
    // What there is is drawn first: of a large run, its tasks are much work.
    await rest();
    if (!this.abort.signal.aborted) await this.readTasks();
  }

  private setGraph(g: Graph): void {
    const before = this.graph?.steps.map((s) => `${s.step}:${s.tasks}`).join();
    this.graph = g;
    this.graphProblem = null;
    this.stepAt = new Map(g.steps.map((s) => [s.step, s]));
    if (before !== g.steps.map((s) => `${s.step}:${s.tasks}`).join()) this.shape++;
  }

  private async readTasks(): Promise<void> {
    try {
      const t = await api.timeline(this.id, { project: this.project }, this.abort.signal);
      await this.setTasks(t);
      this.tell();
    } catch {
      // The graph and the table say what there is; the timeline says its own problem.
    }
  }

  /** In parts, so that the page answers meanwhile; what is told meanwhile comes after it. */
  private async setTasks(t: Timeline): Promise<void> {
    const rows: [Map<string, Task>, Map<string, Task[]>] = [new Map(), new Map()];
    this.held ??= [];
    await rest();
    for (let i = 0; i < t.rows.length; i++) {
      if (i % PART === PART - 1) await rest();
      const [task, s, start, end, state, waited, after, saved] = t.rows[i]!;
      add(...rows, {
        task,
        step: t.steps[s] ?? '',
        start,
        end,
        state,
        waited,
        after: after === null ? null : (t.rows[after]?.[0] ?? null),
        saved,
      });
    }
    await rest();
    this.epoch = t.start
      ? Date.parse(t.start)
      : this.run?.started
        ? Date.parse(this.run.started)
        : 0;
    [this.tasks, this.byStep] = rows;
    this.critical = new Set(t.critical);
    this.loadedTasks = true;
    this.whole.clear();
    const held = this.held;
    this.held = null;
    if (held.length) this.happened(held);
  }

  private put(t: Task): void {
    add(this.tasks, this.byStep, t);
  }

  private whole = new Set<string>();

  /** All tasks of a step: of a very large run, the timeline has only those that began. */
  async ensureStep(step: string): Promise<void> {
    const want = this.stepAt.get(step)?.tasks ?? 0;
    if (this.whole.has(step) || !this.loadedTasks || (this.byStep.get(step)?.length ?? 0) >= want)
      return;
    this.whole.add(step);
    const query = { project: this.project, step };
    try {
      for await (const tasks of api.taskPages(this.id, query, this.abort.signal)) {
        for (const t of tasks) {
          if (!this.tasks.has(t.task))
            this.put({
              task: t.task,
              step: t.step,
              state: t.state,
              start: this.since(t.started),
              end: this.since(t.ended),
              waited: 0,
              after: null,
              saved: t.saved_ns,
            });
          this.fresh.set(t.task, t);
        }
        this.byStep
          .get(step)
          ?.sort((a, b) => a.task.localeCompare(b.task, 'en', { numeric: true }));
        this.tell();
      }
    } catch {
      this.whole.delete(step); // opened again, it is read again
    }
  }

  private since(t: string | null): number | null {
    return t ? (Date.parse(t) - this.startedAt) * 1e6 : null;
  }

  get startedAt(): number {
    return this.epoch || (this.run?.started ? Date.parse(this.run.started) : 0);
  }

  private happened(batch: Happened[]): void {
    if (this.held) {
      this.held.push(...batch);
      return;
    }
    let changed = false;
    let read = false;
    for (const h of batch) {
      if (h.kind === 'run' && h.data.id === this.run?.id) {
        const ended = this.running && h.data.state !== 'running';
        // Hits have no events of their own: their number tells that there are some.
        if (h.data.counts.hits !== this.run?.counts.hits) read = true;
        this.run = { ...this.run, ...h.data };
        changed = true;
        if (ended) read = true; // critical path and hash are known now
      } else if (h.kind === 'task' && (h.data.run === this.run?.id || h.data.run === this.id)) {
        changed = this.patch(h.data) || changed;
      } else if (h.kind === 'open' && !this.heard && h.runs.includes(this.id)) {
        this.heard = true;
        read = read || this.running || this.run === null;
      } else if (h.kind === 'reset') read = read || this.running || this.run === null;
    }
    if (changed) this.tell();
    if (read) this.readSoon();
  }

  private readSoon(): void {
    if (this.again) return;
    this.again = window.setTimeout(
      () => {
        this.again = 0;
        void this.read();
      },
      Math.min(Math.max(1000, this.took * 10), 15_000),
    );
  }

  private patch(row: TaskRow): boolean {
    this.fresh.set(row.task, row);
    const known = this.tasks.get(row.task);
    const step = this.stepAt.get(row.step);
    if (!known && !this.loadedTasks) {
      this.readSoon();
      return false;
    }
    // Who isn't known here waited: of a very large run, the timeline has only what began.
    const before = known?.state ?? ((step?.counts.waiting ?? 0) > 0 ? 'waiting' : undefined);
    if (known) {
      known.state = row.state;
      known.start = this.since(row.started);
      known.end = this.since(row.ended);
    } else {
      this.put({
        task: row.task,
        step: row.step,
        state: row.state,
        start: this.since(row.started),
        end: this.since(row.ended),
        waited: 0,
        after: null,
        saved: row.saved_ns,
      });
    }
    if (!step) {
      this.readSoon(); // a step that the graph doesn't have yet
      return true;
    }
    if (before) step.counts[COUNT_OF[before]] = Math.max(0, step.counts[COUNT_OF[before]] - 1);
    else if (!known && (this.byStep.get(row.step)?.length ?? 0) > (step.tasks ?? 0)) {
      step.tasks = this.byStep.get(row.step)?.length ?? 1;
      this.shape++;
    }
    step.counts[COUNT_OF[row.state]]++;
    if (row.started && (!step.started || row.started < step.started)) step.started = row.started;
    if (step.counts.running + step.counts.waiting === 0) step.ended = row.ended;
    else step.ended = null;
    return true;
  }
}

/** One state for many tasks: what a person has to know first. */
export function stateOf(c: StepCounts): string {
  const total = Object.values(c).reduce((a, b) => a + b, 0);
  if (c.failed > 0) return 'failed';
  if (c.running > 0) return 'running';
  if (total === 0) return 'waiting';
  if (c.waiting > 0) return c.waiting === total ? 'waiting' : 'running';
  if (c.blocked > 0) return 'blocked';
  if (c.cancelled > 0) return 'cancelled';
  if (c.hits > 0 && c.executed === 0) return 'hit';
  if (c.skipped === total) return 'skipped';
  return 'executed';
}

export const done = (c: StepCounts) =>
  c.executed + c.hits + c.failed + c.skipped + c.blocked + c.cancelled;

/** The part of a task's name that tells it from the others of its step. */
export const cellLabel = (task: string, step: string) => {
  const rest = task.startsWith(step) ? task.slice(step.length) : task;
  return rest.startsWith('[') && rest.endsWith(']') ? rest.slice(1, -1) : rest || task;
};
