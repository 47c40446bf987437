// The tasks as a table. The server filters and sorts; rows come in pages as they come into view.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../../api';
import type { TaskRow } from '../../api';
import { duration, lasted, value } from '../../base/format';
import { part, place, setQuery, url } from '../../base/route';
import { words } from '../../base/words';
import { Empty, Lasting, SearchField, State, Time, Trouble } from '../../parts/bits';
import { VTable, type Column } from '../../parts/vtable';
import type { RunModel } from './model';
import { taskHref } from './run';

const STATES = [
  'waiting',
  'running',
  'executed',
  'hit',
  'failed',
  'skipped',
  'blocked',
  'cancelled',
] as const;
type Sort = 'task' | 'started' | 'duration';

class Rows {
  rows: TaskRow[] = [];
  at = new Map<string, number>();
  total: number | null = null;
  ended = false;
  problem: api.Problem | null = null;
  private cursor: string | null = null;
  private busy: Promise<void> | null = null;
  private stop = new AbortController();

  constructor(
    private run: string,
    private query: Record<string, string | null>,
    private changed: () => void,
  ) {}

  get length(): number {
    return this.ended ? this.rows.length : Math.max(this.total ?? 0, this.rows.length + 3);
  }

  close(): void {
    this.stop.abort();
  }

  async upTo(n: number): Promise<void> {
    while (this.rows.length <= n && !this.ended && !this.problem) {
      this.busy ??= this.more().finally(() => (this.busy = null));
      await this.busy;
    }
  }

  private async more(): Promise<void> {
    try {
      const a = await api.taskRows(
        this.run,
        { ...this.query, limit: this.rows.length ? 500 : 100, cursor: this.cursor },
        this.stop.signal,
      );
      for (const r of a.tasks) {
        this.at.set(r.task, this.rows.length);
        this.rows.push(r);
      }
      this.total = a.total ?? null;
      this.cursor = a.next;
      this.ended = a.next === null;
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      this.problem = e as api.Problem;
    }
    this.changed();
  }

  patch(fresh: Map<string, TaskRow>): void {
    for (const [task, row] of fresh) {
      const i = this.at.get(task);
      if (i !== undefined) this.rows[i] = { ...this.rows[i]!, ...row };
    }
  }
}

export default function Tasks({
  model,
  task,
  onOpen,
}: {
  model: RunModel;
  task: string | null;
  onOpen: (t: string) => void;
}) {
  const q = place.value.query;
  const query = {
    project: model.project,
    q: q.get('tq'),
    state: q.get('tstate'),
    step: q.get('tstep'),
    sort: q.get('tsort'),
  };
  const [, redraw] = useState(0);
  const rows = useRef<Rows | null>(null);
  const key = JSON.stringify([model.id, query]);
  useEffect(() => {
    const r = new Rows(model.run?.id ?? model.id, query, () => redraw((n) => n + 1));
    rows.current = r;
    void r.upTo(40);
    redraw((n) => n + 1);
    const stop = model.onChange(() => {
      r.patch(model.fresh);
      redraw((n) => n + 1);
    });
    return () => {
      stop();
      r.close();
    };
  }, [key]);
  const r = rows.current;
  const w = words.run.taskCols;
  const sortable = (id: Sort, text: string) => (
    <button
      type="button"
      onClick={() => setQuery({ tsort: query.sort === id ? null : id })}
      aria-pressed={query.sort === id}
    >
      {text} {query.sort === id ? '↓' : ''}
    </button>
  );
  const columns: Column<TaskRow>[] = [
    {
      id: 'task',
      title: sortable('task', w.task),
      width: 'minmax(200px, 1.2fr)',
      cell: (t) => (
        <a class="name" href={taskHref(model.id, t.task)}>
          {t.task}
        </a>
      ),
    },
    { id: 'state', title: w.state, width: '124px', cell: (t) => <State state={t.state} /> },
    {
      id: 'reason',
      title: w.reason,
      width: 'minmax(180px, 1.4fr)',
      cell: (t) =>
        t.hit_of ? (
          <span class="second">
            {words.task.hitOf}{' '}
            <a class="hash" href={url(`/runs/${part(t.hit_of)}`, { project: q.get('project') })}>
              {t.hit_of}
            </a>
          </span>
        ) : (
          <span class="second" title={t.waiting ?? t.message ?? t.reason ?? ''}>
            {t.waiting ?? t.message ?? t.reason ?? ''}
          </span>
        ),
    },
    {
      id: 'started',
      title: sortable('started', w.started),
      width: '96px',
      cell: (t) => <Time at={t.started} />,
    },
    {
      id: 'duration',
      title: sortable('duration', w.duration),
      width: '96px',
      num: true,
      cell: (t) =>
        t.state === 'running' ? (
          <Lasting since={t.started} />
        ) : t.state === 'hit' ? (
          <span class="state tone-hit" title={words.run.savedBy(duration(t.saved_ns))}>
            {t.saved_ns ? `−${duration(t.saved_ns)}` : words.none}
          </span>
        ) : (
          lasted(t)
        ),
    },
    {
      id: 'attempts',
      title: w.attempts,
      width: '76px',
      num: true,
      cell: (t) => (t.attempts > 1 ? t.attempts : <span class="quiet">{t.attempts}</span>),
    },
    {
      id: 'metric',
      title: w.metric,
      width: '150px',
      num: true,
      cell: (t) => (t.metric ? `${t.metric.name} ${value(t.metric.value)}` : ''),
    },
    { id: 'node', title: w.node, width: '110px', cell: (t) => t.node ?? '' },
  ];
  return (
    <div class="stack fillcol">
      <div class="row">
        <SearchField
          value={query.q ?? ''}
          onChange={(v) => setQuery({ tq: v.trim() })}
          label={words.run.filterTasks}
        />
        <select
          class="field"
          aria-label={words.runs.state}
          value={query.state ?? ''}
          onChange={(e) => setQuery({ tstate: e.currentTarget.value })}
        >
          <option value="">
            {words.runs.state}: {words.all.toLowerCase()}
          </option>
          {STATES.map((s) => (
            <option key={s} value={s}>
              {words.states[s]}
            </option>
          ))}
        </select>
        <select
          class="field"
          aria-label={words.run.outline}
          value={query.step ?? ''}
          onChange={(e) => setQuery({ tstep: e.currentTarget.value })}
        >
          <option value="">
            {words.run.outline}: {words.all.toLowerCase()}
          </option>
          {(model.graph?.steps ?? []).map((s) => (
            <option key={s.step} value={s.step}>
              {s.step}
            </option>
          ))}
        </select>
      </div>
      {r?.problem && <Trouble problem={r.problem} again={() => setQuery({ tsort: null })} />}
      {r && r.ended && r.rows.length === 0 ? (
        <Empty title={words.run.noTasks} hint={words.run.noTasksHint} />
      ) : (
        <div class="card fill">
          <VTable
            label={words.run.views.tasks}
            columns={columns}
            length={r ? r.length : 12}
            row={(i) => r?.rows[i]}
            keyOf={(t) => t.task}
            current={task}
            onRange={(_, to) => void r?.upTo(to)}
            onOpen={(t) => onOpen(t.task)}
          />
        </div>
      )}
    </div>
  );
}
